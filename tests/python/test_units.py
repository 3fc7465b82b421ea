"""Decimals and moments in the unit that a feed declares, from Parquet to numpy and TensorFlow."""

from __future__ import annotations

import datetime
import subprocess
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


def test_dates_come_in_the_unit_of_their_arrow_type_and_in_the_declared_one(tmp_path, binary):
    days = [0, 19_723, -1]
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=day) for day in days]
    table = pa.table(
        {
            "d32": pa.array(dates, pa.date32()),
            "d64": pa.array(dates, pa.date64()),
            "time": pa.array([datetime.time(0, 0, n) for n in range(3)], pa.time32("ms")),
            "took": pa.array([datetime.timedelta(microseconds=n) for n in range(3)], pa.duration("us")),
            "at": pa.array([[date] for date in dates], pa.list_(pa.date64(), 1)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    millis = [day * 86_400_000 for day in days]
    with penstock.feed(tmp_path, batch_size=3) as feed:
        (batch,) = feed
        assert (batch["d32"].dtype, batch["d32"].tolist()) == (np.dtype("int32"), days)
        assert (batch["d64"].dtype, batch["d64"].tolist()) == (np.dtype("int64"), millis)
        assert batch["at"].tolist() == [[moment] for moment in millis]
    for unit, per_day in [("day", 1), ("s", 86_400), ("ms", 86_400_000), ("us", 86_400_000_000)]:
        with penstock.feed(tmp_path, batch_size=3, columns=["d32", "d64", "at"], units={"*": unit}) as feed:
            (batch,) = feed
            for column in ("d32", "d64"):
                assert (batch[column].dtype, batch[column].tolist()) == (np.dtype("int64"), [day * per_day for day in days])
            assert batch["at"].tolist() == [[day * per_day] for day in days]
    with penstock.feed(tmp_path, batch_size=1, filter="d64 >= DATE '2024-01-01'", columns=["d64"], units={"d64": "day"}) as feed:
        assert [batch["d64"].tolist() for batch in feed] == [[19_723]]
    inspected = subprocess.run([binary, "inspect", tmp_path], capture_output=True, text=True, check=True).stdout
    said = {line.split()[0]: line.split("fed as ")[1].split(",")[0] for line in inspected.splitlines() if "fed as " in line}
    assert said == {"d32": "int32 in days", "d64": "int64 in ms", "time": "int32 in ms", "took": "int64 in us", "at": "int64 [1] in ms"}
