"""Columns of lists of many lengths, from Parquet to numpy and TensorFlow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from conftest import in_ring

ROWS = 300


def tokens(i: int) -> list[int]:
    return [i * 10 + k for k in range(i % 5)]


def boxes(i: int) -> list[list[float]]:
    return [[float(i)] * (k + 1) for k in range(i % 3)]


def words(i: int) -> "list[str | None] | None":
    return None if i % 7 == 6 else [f"w{i}", None][: i % 3]


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Two files of rows whose lists follow from their ids."""
    directory = tmp_path_factory.mktemp("lists")
    for file, ids in enumerate(np.array_split(np.arange(ROWS), 2)):
        table = pa.table(
            {
                "id": ids,
                "tokens": pa.array([tokens(i) for i in ids], pa.list_(pa.int32())),
                "boxes": pa.array([boxes(i) for i in ids], pa.list_(pa.list_(pa.float32()))),
                "words": pa.array([words(i) for i in ids], pa.large_list(pa.string())),
            }
        )
        pq.write_table(table, directory / f"{file}.parquet", row_group_size=40)
    return directory


ORDER = dict(batch_size=64, shuffle="rows", seed=5, remainder="keep", nulls={"words": "-"})


def filled(i: int) -> list[str]:
    return [word or "-" for word in words(i) or []]


def test_numpy_has_values_and_bounds_without_a_copy(lists):
    with penstock.feed(lists, **ORDER) as feed:
        assert feed.schema["tokens"] == ("tokens", "int32", (None,))
        assert feed.schema["boxes"].shape == (None, None)
        assert "tokens: int32[*]" in repr(feed)
        seen = []
        for batch in feed:
            ids = batch["id"].tolist()
            column = batch["tokens"]
            assert list(batch) == ["id", "tokens", "boxes", "words"]
            assert [row.tolist() for row in column.rows()] == [tokens(i) for i in ids]
            assert column.row_splits[0].dtype == np.int64 and len(column.row_splits[0]) == len(ids) + 1
            assert all(in_ring(array.__array_interface__["data"][0]) for array in (column.values, *column.row_splits))
            assert [[box.tolist() for box in row] for row in batch["boxes"].rows()] == [boxes(i) for i in ids]
            assert [row.tolist() for row in batch["words"].rows()] == [filled(i) for i in ids]
            seen += ids
        assert sorted(seen) == list(range(ROWS))


def test_a_mask_is_ragged_as_its_column_is(lists):
    with penstock.feed(lists, batch_size=50, columns=["id", "words"], nulls="mask") as feed:
        for batch in feed:
            expected = [[word is not None for word in words(i) or []] for i in batch["id"].tolist()]
            assert [row.tolist() for row in batch["words_valid"].rows()] == expected


def test_nulls_without_a_word_about_them_are_refused(lists):
    with penstock.feed(lists, batch_size=50, columns=["words"]) as feed:
        with pytest.raises(penstock.FeedError, match='column "words" holds .* nulls'):
            next(iter(feed))


@pytest.mark.tensorflow
def test_tensorflow_has_ragged_tensors(lists):
    import tensorflow as tf

    with penstock.feed(lists, **{**ORDER, "remainder": "drop"}, epochs=2) as feed:
        dataset = feed.tf()
        assert dataset.element_spec["tokens"] == tf.RaggedTensorSpec([64, None], tf.int32)
        assert dataset.element_spec["boxes"] == tf.RaggedTensorSpec([64, None, None], tf.float32)
        assert int(dataset.cardinality()) == len(feed) == 8

        @tf.function
        def longest(batch):
            return tf.reduce_max(batch["tokens"].row_lengths())

        seen = 0
        for batch in dataset:
            ids = batch["id"].numpy().tolist()
            assert batch["tokens"].to_list() == [tokens(i) for i in ids]
            assert batch["boxes"].to_list() == [boxes(i) for i in ids]
            assert batch["words"].to_list() == [[word.encode() for word in filled(i)] for i in ids]
            assert int(longest(batch)) == 4
            seen += len(ids)
        assert seen == 2 * 4 * 64


@pytest.mark.tensorflow
def test_a_queue_of_tensorflow_1_has_values_and_bounds(lists):
    import tensorflow as tf

    tf1 = tf.compat.v1
    with penstock.feed(lists, batch_size=100, columns=["id", "tokens"]) as feed, tf.Graph().as_default():
        batch = feed.tf1_queue()
        assert batch["tokens/row_splits_0"].shape == [101]
        with tf1.train.MonitoredTrainingSession() as session:
            out = session.run(batch)
        splits = out["tokens/row_splits_0"].tolist()
        rows = [out["tokens"][start:end].tolist() for start, end in zip(splits, splits[1:])]
        assert rows == [tokens(i) for i in out["id"].tolist()]
