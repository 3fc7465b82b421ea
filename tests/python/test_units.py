"""Decimals and moments in the unit that a feed declares, from Parquet to numpy and TensorFlow."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

ROWS = 200
BEGIN = datetime.datetime(2024, 1, 31, tzinfo=datetime.timezone.utc)


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """Prices in cents and moments in milliseconds that follow from ids; row 77 alone has no whole seconds."""
    directory = tmp_path_factory.mktemp("sales")
    ids = range(ROWS)
    moments = [BEGIN + datetime.timedelta(seconds=i, milliseconds=250 if i == 77 else 0) for i in ids]
    table = pa.table(
        {
            "id": list(ids),
            "price": pa.array([Decimal(i * 7 - 300) / 100 for i in ids], pa.decimal128(20, 2)),
            "tax": pa.array([None if i % 3 == 0 else Decimal(i) / 1000 for i in ids], pa.decimal256(50, 3)),
            "seen": pa.array(moments, pa.timestamp("ms", "UTC")),
            "day": pa.array([BEGIN.date() + datetime.timedelta(days=i) for i in ids], pa.date32()),
        }
    )
    pq.write_table(table, directory / "0.parquet", row_group_size=64)
    return directory


DECLARED = dict(batch_size=50, shuffle="rows", seed=1, units={"price": "0.01", "tax": "float64", "seen": "us", "day": "s"}, nulls={"tax": -1})


def test_every_value_is_exact_in_its_unit(sales):
    begin = int(BEGIN.timestamp())
    seen = set()
    with penstock.feed(sales, **DECLARED) as feed:
        assert [feed.schema[name].dtype for name in ("price", "tax", "seen", "day")] == ["int64", "float64", "int64", "int64"]
        for batch in feed:
            ids = batch["id"]
            np.testing.assert_array_equal(batch["price"], ids * 7 - 300)
            assert batch["tax"].tolist() == [-1.0 if i % 3 == 0 else float(Decimal(i) / 1000) for i in ids.tolist()]
            np.testing.assert_array_equal(batch["seen"], (begin + ids) * 1_000_000 + np.where(ids == 77, 250_000, 0))
            np.testing.assert_array_equal(batch["day"], begin + ids * 86_400)
            seen |= set(ids.tolist())
    assert seen == set(range(ROWS))


def test_what_is_no_whole_number_of_its_unit_is_named_with_its_step(sales):
    with penstock.feed(sales, columns=["id", "seen"], batch_size=50, units={"seen": "s"}) as feed:
        batches = iter(feed)
        next(batches)
        with pytest.raises(penstock.FeedError, match=r'"seen" holds 2024-01-31T00:01:17.25\S* at epoch 0, step 1, .* of "s"'):
            next(batches)


@pytest.mark.parametrize(
    "units, told",
    [
        ({}, r'"price" is Decimal128\(20, 2\).* units=.*"0.01" for int64 in that unit or "float64"'),
        ({"price": "cents"}, r'"cents" of column "price".*as in "0.01", or "float64"'),
        ({"price": "0.01", "cost": "1"}, 'units names column "cost"'),
        ({"price": "0.01", "id": "1"}, "units are of decimals"),
    ],
)
def test_undeclared_and_impossible_units_name_the_choices(sales, units, told):
    with penstock.feed(sales, columns=["id", "price"], batch_size=50, units=units) as feed, pytest.raises(penstock.FeedError, match=told):
        feed.schema


@pytest.mark.tensorflow
def test_tensorflow_has_them_as_numbers(sales):
    tf = pytest.importorskip("tensorflow")
    with penstock.feed(sales, **DECLARED) as feed:
        dataset = feed.tf()
        assert (dataset.element_spec["price"].dtype, dataset.element_spec["tax"].dtype) == (tf.int64, tf.float64)
        for batch in dataset:
            assert tf.reduce_all(batch["price"] == batch["id"] * 7 - 300)
