"""A feed as tf.data.Dataset, with a real TensorFlow. The batches are made up by the ring's example."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import penstock
from conftest import DTYPES, in_ring, made_up

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


def steps_of(dataset) -> list[int]:
    return [int(batch["c_int64"][0]) // 8 for batch in dataset]


def test_every_type_arrives_with_its_values_and_its_spec(tf, produce):
    produce(steps=5, rows=8)
    dataset = penstock.feed().tf()
    assert dataset.element_spec["c_float32"] == tf.TensorSpec([8, 2, 3], tf.float32)
    assert dataset.element_spec["c_bytes"] == tf.TensorSpec([8], tf.string)
    for step, batch in enumerate(dataset):
        ids = np.arange(step * 8, step * 8 + 8)
        for dtype in DTYPES:
            tensor = batch[f"c_{dtype}"]
            assert tensor.dtype == (tf.string if dtype == "bytes" else tf.as_dtype(dtype))
            expected = made_up(dtype, ids)
            if dtype == "string":
                expected = [text.encode() for text in expected]
            if dtype in ("string", "bytes"):
                assert tensor.numpy().tolist() == expected
            else:
                np.testing.assert_array_equal(tf.cast(tensor, tf.float32) if dtype == "bfloat16" else tensor, expected)
    assert step == 4


class Exported:
    """A tensor for numpy to look at without a copy, on every TensorFlow."""

    def __init__(self, tf, tensor) -> None:
        self._capsule = tf.experimental.dlpack.to_dlpack(tensor)

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_numbers_lie_in_the_slot_also_after_prefetch(tf, produce):
    produce(steps=5, slots=8)
    before = penstock.stats()
    for batch in penstock.feed().tf(prefetch=2):
        for dtype in DTYPES[:-2]:
            if dtype not in ("bool", "bfloat16"):
                array = np.from_dlpack(Exported(tf, batch[f"c_{dtype}"]))
                assert in_ring(array.__array_interface__["data"][0]), dtype
    after = penstock.stats()
    assert (after.shared - before.shared, after.copied - before.copied) == (5 * 13, 0)


def test_strings_live_longer_than_their_slot(tf, produce):
    """`gather` copies string objects: were they views, they would point into a slot that is written again."""
    produce(steps=50, slots=2)
    kept = [tf.gather(batch["c_string"], [0, 3]) for batch in penstock.feed().tf()]
    gc.collect()
    for step, texts in enumerate(kept):
        expected = made_up("string", np.arange(step * 8, step * 8 + 8))
        assert [text.decode() for text in texts.numpy()] == [expected[0], expected[3]]


def test_a_slice_may_be_worked_on_in_place(tf, produce):
    """Once it is all that is left of a column, TensorFlow writes the sum where the slice lies, in the slot."""
    produce(steps=50, rows=64, slots=3)

    def later(batch):
        part = batch["c_int64"][32:]
        with tf.control_dependencies([part]):
            return part + 1

    got = list(penstock.feed().tf().map(later).unbatch().as_numpy_iterator())
    assert got == [row + 1 for step in range(50) for row in range(step * 64 + 32, step * 64 + 64)]


def test_two_iterators_are_independent_and_close_only_themselves(tf, produce):
    produce(steps=6)
    dataset = penstock.feed().tf(prefetch=0)
    first, second = iter(dataset), iter(dataset)
    assert [int(next(i)["c_int64"][0]) for i in (first, second, first)] == [0, 0, 8]
    assert penstock.stats().feeds == 2
    del first
    gc.collect()
    assert penstock.stats().feeds == 1
    assert [int(batch["c_int64"][0]) for batch in second] == [8, 16, 24, 32, 40]
    del second
    gc.collect()
    assert penstock.stats().feeds == 0


def test_a_pipeline_that_buffers_more_than_the_ring_has_does_not_stall(tf, produce):
    """The batch that takes the last slot is copied; else the buffer would wait for itself for ever."""
    produce(steps=40, slots=3)
    before = penstock.stats().copied
    dataset = penstock.feed().tf(prefetch=16).map(lambda batch: batch["c_int64"]).batch(10).shuffle(4)
    assert sorted(dataset.unbatch().unbatch().as_numpy_iterator()) == list(range(320))
    held = list(penstock.feed().tf())
    assert [int(batch["c_int64"][0]) for batch in held] == list(range(0, 320, 8))
    assert penstock.stats().copied > before
    iterator = iter(penstock.feed().tf(prefetch=16))
    next(iterator)
    del iterator  # with every slot in the buffer, this must not wait for a slot


def test_a_loop_in_a_function_sees_every_batch_and_a_clean_end(tf, produce):
    produce(steps=20)

    @tf.function
    def total(dataset):
        rows = tf.constant(0, tf.int64)
        for batch in dataset:
            assert batch["c_float32"].shape == [8, 2, 3]
            rows += tf.reduce_sum(batch["c_int64"])
        return rows

    assert int(total(penstock.feed().tf())) == sum(range(160))
    assert steps_of(penstock.feed().tf().repeat(2)) == [*range(20), *range(20)]
    assert steps_of(penstock.feed().tf().take(3)) == [0, 1, 2]


def test_tensorflow_tunes_what_follows_a_feed_and_not_a_feed_alone(tf, produce):
    produce(steps=3, rows=8)
    dataset = penstock.feed().tf()
    # Its tuner may sleep through the end of an iterator, up to a minute, and whoever iterates waits for it.
    assert not dataset._alone.options().autotune.enabled
    assert dataset.map(lambda batch: batch).options().autotune.enabled is not False
    assert steps_of(dataset) == [0, 1, 2]


def test_an_iterator_goes_on_in_a_function_where_a_loop_left_it(tf, produce):
    produce(steps=4)
    dataset = penstock.feed().tf()
    iterator = iter(dataset)
    assert iterator.element_spec == dataset.element_spec

    @tf.function
    def following(iterator):
        batch = next(iterator)
        assert type(batch) is dict and {name: tensor.shape for name, tensor in batch.items()} == shapes
        return batch["c_int64"][0]

    shapes = {name: spec.shape for name, spec in dataset.element_spec.items()}
    batch = next(iterator)
    assert type(batch) is dict and {name: tensor.shape for name, tensor in batch.items()} == shapes
    assert [int(batch["c_int64"][0]), *(int(following(iterator)) for _ in range(3))] == [0, 8, 16, 24]
    with pytest.raises(tf.errors.OutOfRangeError):
        following(iterator)


def test_a_model_fits(tf, produce):
    produce(steps=12, rows=8)
    feed = penstock.feed()
    assert int(feed.tf().cardinality()) == 12
    assert type(feed.tf().element_spec) is dict  # Keras takes any other for a leaf
    dataset = feed.tf().map(lambda batch: (batch["c_float32"] / 100.0, batch["c_bool"]))
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy")
    history = model.fit(dataset, epochs=2, validation_data=dataset.take(2), verbose=0)
    assert int(model.optimizer.iterations) == 24
    assert np.isfinite(history.history["loss"]).all()


def test_waiting_feeds_leave_tensorflow_its_threads(tf, produce):
    """A waiting kernel blocks a thread: more feeds than threads must not stop other work."""
    produce(steps=2, pace_ms=600_000)
    feeds = [penstock.feed() for _ in range(8)]
    waiting = [iter(feed.tf()) for feed in feeds]
    threads = [threading.Thread(target=lambda i=i: pytest.raises(tf.errors.OpError, next, i)) for i in waiting]
    for thread in threads:
        thread.start()

    @tf.function
    def work(x):
        return tf.add_n([tf.linalg.trace(x @ (x + i)) for i in range(16)])

    # All feeds wait: their sidecar makes no batch before this test is over.
    assert np.isfinite(float(work(tf.random.normal([32, 32]))))
    assert sorted(tf.data.Dataset.range(100).map(lambda i: i * 2, num_parallel_calls=4).as_numpy_iterator()) == list(range(0, 200, 2))
    for feed in feeds:
        feed.close()
    for thread in threads:
        thread.join()


def test_close_ends_a_dataset_that_waits(tf, produce):
    produce(steps=2, pace_ms=600_000)
    feed = penstock.feed(name="slow")
    iterator = iter(feed.tf())
    closing = threading.Thread(target=feed.close)
    closing.start()
    with pytest.raises(tf.errors.OpError, match="feed 'slow': the feed was closed|feed [0-9]+ is closed"):
        next(iterator)
    closing.join()


def test_a_graph_reads_its_place_in_the_process_that_runs_it(tf, produce, monkeypatch):
    traced_beside = produce(steps=3)
    dataset = penstock.feed().tf()
    traced_beside.kill()
    produce(steps=3)
    assert steps_of(dataset) == [0, 1, 2]
    monkeypatch.delenv("PENSTOCK_SIDECAR")
    with pytest.raises(tf.errors.OpError, match="PENSTOCK_SIDECAR is not set in this process; start the script with `penstock run`"):
        steps_of(dataset)


def test_a_failure_comes_in_the_sidecars_words(tf, produce):
    produce(steps=5, fail_at=3)
    seen = []
    with pytest.raises(tf.errors.OpError, match="column c_float32 is null at step 3"):
        for batch in penstock.feed().tf():
            seen.append(int(batch["c_int64"][0]) // 8)
    assert seen == [0, 1, 2]


def test_a_killed_sidecar_is_an_error_that_names_it(tf, produce):
    producer = produce(steps=100_000, pace_ms=5)
    iterator = iter(penstock.feed(name="train").tf())
    next(iterator)
    producer.kill()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.InternalError), match="feed 'train': the sidecar at .* died"):
        for _ in iterator:
            pass
