"""A feed as JAX's arrays."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import penstock
from conftest import DTYPES, in_ring, made_up

jax = pytest.importorskip("jax")
ORDER = dict(batch_size=100, shuffle="rows", seed=3, epochs=2, columns=["id", "image"])
#: What JAX takes for a type of 64 bits as long as nobody has enabled these.
NARROWED = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


@pytest.fixture
def wide():
    """Types of 64 bits."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def numbers_of(monkeypatch):
    """Feeds of the producer, which makes all types that there are, without those that JAX lacks."""
    from penstock import _jax

    column = _jax._column
    monkeypatch.setattr(_jax, "_column", lambda slot, struct, name: None if struct.offsets else column(slot, struct, name))
    return _jax.JaxBatches


def check(produce, numbers_of, in_place: "set[str]", names: "dict[str, str]") -> None:
    numbers = [dtype for dtype in DTYPES if dtype not in ("string", "bytes")]
    produce(steps=3, rows=8)
    seen = 0
    for batch in numbers_of(penstock.feed()):
        ids = np.arange(batch.step * 8, batch.step * 8 + 8)
        for dtype in numbers:
            array = batch[f"c_{dtype}"]
            assert isinstance(array, jax.Array) and array.dtype.name == names.get(dtype, dtype)
            assert in_ring(array.unsafe_buffer_pointer()) == (dtype in in_place), dtype
            np.testing.assert_array_equal(np.asarray(array, "float64"), np.asarray(made_up(dtype, ids), "float64"))
        seen += 1
    assert seen == 3


def test_every_number_arrives_in_place(produce, numbers_of, wide):
    check(produce, numbers_of, set(DTYPES) - {"bfloat16"}, {})


def test_without_64_bits_they_are_copied_into_32(produce, numbers_of):
    check(produce, numbers_of, set(DTYPES) - {"bfloat16", *NARROWED}, NARROWED)


def test_an_array_keeps_its_slot_and_a_function_takes_batches(data):
    with penstock.feed(data, **ORDER) as feed:
        batches = feed.jax()
        assert len(batches) == 20
        step = jax.jit(lambda total, batch: total + batch["image"].astype("float32").sum())
        total, rows = 0.0, []
        for batch in batches:
            total = step(total, batch)
            rows.append(np.asarray(batch["id"]))
        assert sorted(np.concatenate(rows)) == sorted([*range(1000)] * 2)
        assert float(total) == 2 * 6 * sum(i % 256 for i in range(1000))
        assert feed.state_dict() == batch.cursor == feed.cursor(20)
        iterator = iter(batches)
        held = next(iterator)["image"]
        gc.collect()
        assert penstock.stats().held == 1 and in_ring(held.unsafe_buffer_pointer())
        del held, batch
        gc.collect()
        assert penstock.stats().held == 0


def test_strings_are_refused_with_choices(data):
    with penstock.feed(data, batch_size=100, columns=["name"]) as feed:
        with pytest.raises(penstock.ArgumentError, match=r"column name is string, for which JAX has no type: .*hash_bucket\(name, 1000\)"):
            feed.jax()
