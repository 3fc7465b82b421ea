"""A feed as a dataset of PyTorch's, in one process and in the workers of a DataLoader."""

from __future__ import annotations

import gc
import itertools
import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from conftest import DTYPES, in_ring, made_up, missing

try:
    import torch
except ImportError:
    missing("torch is not installed; on PyPI it is 540 MB and brings more of CUDA along, Debian's python3-torch is enough")

#: What torch has a type for.
TYPES = [dtype for dtype in DTYPES if hasattr(torch, dtype) or dtype in ("string", "bytes")]
ORDER = dict(batch_size=100, shuffle="rows", seed=3, epochs=2, columns=["id", "image", "name"])


@pytest.fixture(scope="module")
def whole(data):
    with penstock.feed(data, **ORDER) as feed:
        return [batch["id"].tolist() for batch in feed]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Rows whose columns of many types follow from their ids."""
    ids = np.arange(64)
    columns = {f"c_{dtype}": made_up(dtype, ids) for dtype in TYPES if dtype not in ("bfloat16", "float32")}
    lists = pa.array([[float(i)] * (i % 3) for i in ids], pa.list_(pa.float32()))
    words = pa.array([[f"w{i}"] * (i % 2) for i in ids], pa.list_(pa.string()))
    some = pa.array([None if i % 4 == 0 else i for i in ids.tolist()], pa.int16())
    path = tmp_path_factory.mktemp("typed") / "rows.parquet"
    pq.write_table(pa.table({**columns, "lists": lists, "words": words, "some": some}), path)
    return path


def test_every_type_arrives_with_its_values_and_no_number_is_copied(produce, monkeypatch):
    produce(steps=5, rows=8)
    monkeypatch.setattr("penstock._torch._LISTS", ("string", "bytes", *set(DTYPES) - set(TYPES)))
    monkeypatch.setattr("penstock._torch.TorchDataset._column", known_only(penstock.feed().torch()._column))
    seen = 0
    for batch in penstock.feed().torch():
        ids = np.arange(batch.step * 8, batch.step * 8 + 8)
        assert list(batch) == [f"c_{dtype}" for dtype in DTYPES]
        for dtype in TYPES:
            tensor = batch[f"c_{dtype}"]
            if dtype in ("string", "bytes"):
                assert tensor == made_up(dtype, ids)
                continue
            assert tensor.dtype == getattr(torch, dtype) and in_ring(tensor.data_ptr()), dtype
            values = tensor.float() if dtype == "bfloat16" else tensor
            np.testing.assert_array_equal(values.numpy(), made_up(dtype, ids))
        seen += 1
    assert seen == 5


def known_only(column):
    """The producer makes all types that there are; an older torch lacks some."""

    def known(_, slot, struct, name):
        return column(slot, struct, name) if name.removeprefix("c_") in TYPES else None

    return known


def test_a_type_that_torch_lacks_is_refused_by_name(produce):
    if hasattr(torch, "uint16"):
        pytest.skip("this torch lacks no type")
    produce(steps=1)
    with pytest.raises(penstock.ArgumentError, match=r"column c_uint16 is uint16, which torch .* does not have: .*CAST\(c_uint16 AS BIGINT\)"):
        penstock.feed().torch()


def test_masks_and_lists_of_many_lengths(typed):
    with penstock.feed(typed, batch_size=16, columns=["lists", "words", "some"], nulls={"some": "mask"}) as feed:
        for batch in feed.torch():
            ids = range(batch.step * 16, batch.step * 16 + 16)
            lists, words = batch["lists"], batch["words"]
            assert [row.tolist() for row in lists.rows()] == [[float(i)] * (i % 3) for i in ids]
            assert in_ring(lists.values.data_ptr()) and lists.row_splits[0].dtype == torch.int64
            if hasattr(torch.nested, "nested_tensor_from_jagged"):
                nested = torch.nested.nested_tensor_from_jagged(lists.values, lists.row_splits[0])
                assert nested.values().data_ptr() == lists.values.data_ptr() and [len(row) for row in nested.unbind()] == [i % 3 for i in ids]
            assert words.rows() == [[f"w{i}"] * (i % 2) for i in ids]
            assert batch["some_valid"].tolist() == [i % 4 != 0 for i in ids] and batch["some_valid"].dtype == torch.bool
        assert batch.step == 3


def test_a_tensor_keeps_its_slot_and_copies_keep_none(data):
    with penstock.feed(data, **ORDER) as feed:
        iterator = iter(feed.torch())
        view = next(iterator)["id"][2:4]
        gc.collect()
        assert penstock.stats().held == 1
        expected = view.tolist()
        for _ in range(12):
            next(iterator)
        assert view.tolist() == expected
        del view
        gc.collect()
        assert penstock.stats().held == 0
        iterator = iter(feed.torch(writable=True))
        kept = [batch["image"].fill_(7) for batch in iterator]
        assert len(kept) == 20 and all((image == 7).all() for image in kept)
        assert penstock.stats().held == 0


@pytest.mark.parametrize("workers, context", [(0, None), (1, "fork"), (3, "fork"), (2, "spawn")])
def test_workers_share_the_steps_and_keep_their_order(data, whole, workers, context):
    with penstock.feed(data, **ORDER) as feed:
        dataset = feed.torch()
        loader = dataset.loader(workers, multiprocessing_context=context)
        assert len(loader) == len(dataset) == 20
        for _ in range(2):
            batches = [(batch["id"].tolist(), batch["name"], batch.cursor) for batch in loader]
            assert [ids for ids, _, _ in batches] == whole
            assert all(names == [f"row-{i}" for i in ids] for ids, names, _ in batches)
            assert [cursor for _, _, cursor in batches] == [feed.cursor(n) for n in range(1, 21)]
    assert penstock.stats().feeds == 0


def test_a_plain_loader_gives_the_same(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        loader = torch.utils.data.DataLoader(feed.torch(), batch_size=None, num_workers=2, pin_memory=False)
        assert [batch["id"].tolist() for batch in loader] == whole


def test_workers_stop_with_a_loop_that_stops_and_a_feed_without_end(data, whole):
    with penstock.feed(data, **{**ORDER, "epochs": None}) as feed:
        loader = feed.torch().loader(2)
        iterator = iter(loader)
        assert [batch["id"].tolist() for batch in itertools.islice(iterator, 5)] == whole[:5]
        del iterator
        gc.collect()
        assert next(iter(loader))["id"].tolist() == whole[0]
        with pytest.raises(TypeError, match="endless"):
            len(loader)


def test_a_failure_in_a_worker_says_what_it_was(data):
    with penstock.feed(data, batch_size=100, columns=["age"]) as feed:
        with pytest.raises(penstock.FeedError, match='column "age" holds .* nulls'):
            list(feed.torch().loader(2))


def test_a_rank_is_shared_as_a_world_of_one_is(data, whole):
    halves = []
    for rank in range(2):
        with penstock.feed(data, **ORDER, rank=rank, world_size=2) as feed:
            halves.append([batch["id"].tolist() for batch in feed.torch().loader(2)])
    assert [first + second for first, second in zip(*halves)] == whole


def test_the_cursor_of_a_batch_goes_on_with_any_number_of_workers(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        for batch in feed.torch().loader(3):
            if batch.step == 6:
                break
        cursor = json.loads(json.dumps(batch.cursor))
    for workers in (0, 2):
        with penstock.feed(data, **ORDER) as feed:
            dataset = feed.torch()
            dataset.load_state_dict(cursor)
            assert len(dataset) == 13
            loader = dataset.loader(workers)
            assert [batch["id"].tolist() for batch in loader] == whole[7:]
            if workers == 0:
                assert len(dataset) == 20 and next(iter(loader))["id"].tolist() == whole[0]


def as_a_stateful_loader_would(dataset, workers, loaded=None, steps=None):
    """What torchdata's StatefulDataLoader does in its workers, without its processes."""
    infos = [torch.utils.data._utils.worker.WorkerInfo(id=i, num_workers=workers, seed=0, dataset=None) for i in range(workers)]
    copies = [pickle.loads(pickle.dumps(dataset)) for _ in infos]
    iterators, given = [], []
    try:
        for i, (info, copy) in enumerate(zip(infos, copies)):
            torch.utils.data._utils.worker._worker_info = info
            if loaded is not None:
                copy.load_state_dict(loaded[i])
            iterators.append(iter(copy))
        for turn in itertools.islice(itertools.count(), steps):
            batch = next(iterators[turn % workers], None)
            if batch is None:
                break
            given.append(batch["id"].tolist())
        return given, [json.loads(json.dumps(copy.state_dict())) for copy in copies]
    finally:
        torch.utils.data._utils.worker._worker_info = None


def test_a_stateful_loader_saves_and_restores_each_workers_position(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        dataset = feed.torch()
        first, states = as_a_stateful_loader_would(dataset, 3, steps=9)
        assert first == whole[:9]
        rest, _ = as_a_stateful_loader_would(dataset, 3, loaded=states)
        assert rest == whole[9:]
        assert dataset.state_dict() == {"cursor": feed.cursor()}
        with pytest.raises(penstock.ArgumentError, match="one of 3 workers and there are 1"):
            dataset.load_state_dict(states[0])
            iter(dataset)
        with pytest.raises(penstock.ArgumentError, match="seed"):
            dataset.load_state_dict({**feed.cursor(), "seed": 4})


def test_a_position_in_one_process_is_behind_the_last_batch(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        dataset = feed.torch()
        for batch in itertools.islice(dataset, 13):
            pass
        state = dataset.state_dict()
        assert state == {"cursor": batch.cursor, "workers": 1}
        dataset.load_state_dict(state)
        assert dataset.state_dict() == state
        assert [batch["id"].tolist() for batch in dataset] == whole[13:]


def test_writing_into_shared_memory_ends_the_process_as_is_documented(data):
    script = "import sys, penstock\nfor batch in penstock.feed(sys.argv[1], columns=['id'], batch_size=100).torch(): batch['id'].fill_(0)"
    done = subprocess.run([sys.executable, "-c", script, str(data)], stderr=subprocess.DEVNULL)
    assert done.returncode == -11


def test_numpys_own_dlpack_is_taken_where_it_can_say_read_only(data):
    with penstock.feed(data, **ORDER) as feed:
        for array in next(iter(feed)).values():
            if array.dtype != object:
                try:
                    tensor = torch.from_dlpack(array)
                except (BufferError, ValueError):
                    continue
                assert in_ring(tensor.data_ptr()) and tensor.tolist() == array.tolist()
