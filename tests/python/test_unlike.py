"""Files whose columns come in other orders, or differ where the feed does not look: columns go by name."""

from __future__ import annotations

import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

ROWS = 300
#: The order of columns in each file; what differs among them is in no other file alike.
FILES = [["id", "list", "odd", "place", "text", "may"], ["may", "text", "more", "id", "odd", "list", "place"], ["place", "list", "id", "may", "text"]]


def columns(ids):
    lists = pa.array([list(range(i % 4)) for i in ids], pa.list_(pa.int32()))
    place = pa.StructArray.from_arrays([pa.array([float(i) for i in ids]), pa.array([f"c{i % 7}" for i in ids])], ["lat", "city"])
    may = pa.array([None if i % 5 == 0 else i for i in ids], pa.int16())
    return {"id": pa.array(ids, pa.int64()), "list": lists, "place": place, "text": pa.array([f"t{i % 9}" for i in ids]), "may": may}


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    directory = tmp_path_factory.mktemp("unlike")
    for number, names in enumerate(FILES):
        ids = list(range(number * ROWS, number * ROWS + ROWS))
        odd = {"odd": pa.array(ids, pa.int32()) if number == 0 else pa.array([str(i) for i in ids]), "more": pa.array([0.5] * ROWS)}
        table = pa.table({name: {**columns(ids), **odd}[name] for name in names})
        # Pages small enough that they are found by the page index, and row groups that are skipped by statistics.
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=90, data_page_size=64, write_batch_size=10, write_page_index=True)
    return directory


def told(batch, name):
    column = batch[name]
    return [row.tolist() for row in column.rows()] if isinstance(column, penstock.Ragged) else column.tolist()


@pytest.mark.parametrize("shuffle", ["none", "blocks", "rows"])
@pytest.mark.parametrize("filter", [None, "id >= 250 AND id < 640 AND may IS NOT NULL", "text = 't3' AND place.lat > 100"])
def test_columns_that_all_files_have_are_fed_by_name(unlike, shuffle, filter):
    select = ["text", "id", "list", "place.city AS city", "may", "place.lat + id AS sum"]
    order = dict(batch_size=50, shuffle=shuffle, seed=4, remainder="keep", nulls={"may": -1, "city": "", "sum": -1})
    rows = {}
    with penstock.feed(unlike, select=select, filter=filter, **order) as feed:
        for batch in feed:
            for i, *row in zip(*(told(batch, name) for name in ("id", "text", "list", "city", "may", "sum"))):
                assert i not in rows
                rows[i] = row
    passes = {
        None: lambda i: True,
        "id >= 250 AND id < 640 AND may IS NOT NULL": lambda i: 250 <= i < 640 and i % 5 != 0,
        "text = 't3' AND place.lat > 100": lambda i: i % 9 == 3 and i > 100,
    }[filter]
    # Texts come as Python's or as bytes; either way as they are.
    plain = {i: [t if isinstance(t, str) else t.decode() if isinstance(t, bytes) else t for t in row] for i, row in rows.items()}
    assert plain == {i: [f"t{i % 9}", list(range(i % 4)), f"c{i % 7}", -1 if i % 5 == 0 else i, 2.0 * i] for i in range(3 * ROWS) if passes(i)}


def test_codes_and_told_nulls_go_by_name(unlike):
    with penstock.feed(unlike, columns=["id", "text"], codes=["text"], batch_size=100) as feed:
        assert feed.vocabulary("text") == [f"t{i}" for i in range(9)]
        assert all((batch["text"] == batch["id"] % 9).all() for batch in feed)
    with pytest.raises(penstock.FeedError, match='"may" holds 60 nulls in .*0.parquet'), penstock.feed(unlike, columns=["may"], batch_size=8) as feed:
        next(iter(feed))


def test_a_column_that_is_not_alike_is_refused_by_name(unlike):
    for more, text in [
        ({}, 'column "odd" is Utf8 in .*1.parquet but Int32 in .*0.parquet'),
        ({"columns": ["id", "more"]}, '1.parquet has a column "more" but .*0.parquet has not'),
        ({"filter": "odd > 3", "columns": ["id"]}, 'column "odd" is Utf8'),
        ({"columns": ["id", "moar"]}, 'no column "moar"'),
    ]:
        with pytest.raises(penstock.FeedError, match=text), penstock.feed(unlike, batch_size=8, **more) as feed:
            feed.description


def test_mixtures_and_inspections_say_what_is_not_alike(unlike, binary):
    both = {"a": unlike, "b": unlike}
    weights = {"a": 1, "b": 1}
    with penstock.feed(both, dataset=weights, columns=["id", "text"], batch_size=30) as feed:
        assert next(iter(feed))["id"].tolist() == [i // 2 for i in range(30)]
    with pytest.raises(penstock.FeedError, match='column "odd" is Utf8'), penstock.feed(both, dataset=weights, batch_size=30) as feed:
        feed.description
    text = subprocess.run([binary, "inspect", unlike], capture_output=True, text=True, check=True).stdout
    assert "may    Int16, 180 nulls: fed as int16" in text and 'odd    not alike in all files: column "odd" is Utf8' in text


def test_the_order_of_columns_does_not_matter(tmp_path):
    tables = [pa.table({name: {"a": [n], "b": [n + 0.5], "c": [str(n)]}[name] for name in names}) for n, names in enumerate(["abc", "cab", "bca"])]
    for n, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{n}.parquet")
    with penstock.feed(tmp_path, batch_size=3) as feed:
        (batch,) = feed
        assert list(batch) == ["a", "b", "c"]
        assert batch["a"].tolist() == [0, 1, 2] and batch["b"].tolist() == [0.5, 1.5, 2.5]
        assert np.asarray(batch["c"]).astype(str).tolist() == ["0", "1", "2"]
