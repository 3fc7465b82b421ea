"""What a user is told whose arguments and files do not go together, and odd names that do."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def refusal(source, **arguments):
    with pytest.raises(penstock.PenstockError) as error, penstock.feed(source, batch_size=2, **arguments) as feed:
        for _ in feed:
            pass
    text = str(error.value)
    assert "\n" not in text
    return text


def test_files_of_a_list_are_named_as_they_were_given(tmp_path):
    a, b = write(tmp_path / "a.parquet", x=[1, 2]), write(tmp_path / "sub" / "s2.parquet", x=[1.0, 2.0])
    assert f'column "x" is Float64 in {b} but Int64 in {a}' in refusal([a, b])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"no Parquet file in {empty}: " in refusal([a, empty])
    assert f"no Parquet file in {tmp_path}/n*.parquet: " in refusal([str(a), f"{tmp_path}/n*.parquet"])
    assert f"there is no {tmp_path}/gone.parquet: " in refusal([a, tmp_path / "gone.parquet"])


@pytest.mark.parametrize("name", ["a\nb.parquet", "tab\t\\n.parquet", "\x1b[31m#1.parquet"])
def test_a_file_of_any_name_is_fed_and_told_in_one_line(tmp_path, name):
    file = write(tmp_path / name, x=[1, 2, 3, 4])
    for source in (file, str(tmp_path), [file]):
        with penstock.feed(source, batch_size=4) as feed:
            assert [batch["x"].tolist() for batch in feed] == [[1, 2, 3, 4]]
    file.write_bytes(b"no Parquet at all")
    told = str(file).encode("unicode_escape").decode().replace("\\x1b", "\\u{1b}")
    for source in (file, [file]):
        text = refusal(source)
        assert f"{told} is not a whole Parquet file" in text and text.isprintable()


def test_a_mask_whose_name_is_taken_says_what_to_do(tmp_path):
    file = write(tmp_path / "a.parquet", id=pa.array([1, None]), id_valid=[7, 8])
    text = refusal(file, nulls="mask")
    assert 'the mask of column "id" would be called "id_valid", and so is another column of the feed: fill the nulls of "id"' in text
    with penstock.feed(file, batch_size=2, nulls="mask", select={"id": "id", "given": "id_valid"}) as feed:
        assert [batch["id_valid"].tolist() for batch in feed] == [[True, False]]


def test_columns_with_dots_are_named_by_how_they_are_written(tmp_path):
    place = pa.StructArray.from_arrays([pa.array([5, 6])], ["b"])
    file = write(tmp_path / "a.parquet", **{"a": place, "a.b": [1, 2], "c.d": [3, None]})
    assert 'write "a"."b" for the member, "a.b" for the column' in refusal(file, select=["a.b"])
    assert 'which is written "c.d"' in refusal(file, filter="c.d > 1")
    assert "filter='\"c.d\" IS NOT NULL'" in refusal(file, columns=["c.d"])
    assert 'names in columns are written without quotes, "a.b"' in refusal(file, columns=['"a.b"'])
    with penstock.feed(file, batch_size=1, select=['"a.b"', '"a"."b" AS m'], filter='"c.d" IS NOT NULL') as feed:
        assert [(batch["a.b"].tolist(), batch["m"].tolist()) for batch in feed] == [([1], [5])]


def test_too_little_memory_says_how_much_is_needed(tmp_path):
    file = write(tmp_path / "a.parquet", x=np.zeros(40_000))
    text = refusal_of_memory(file, 300_000)
    needed = int(text.split("needs ")[1].split()[0])
    assert f"the feed may have 300000 bytes and needs {needed} at least" in text and f"give it at least {needed} with memory=" in text
    assert f"needs {needed} at least" in refusal_of_memory(file, needed - 1)
    with pytest.warns(penstock.CopyWarning, match="its ring has room for one batch, so every batch is copied"):
        with penstock.feed(file, batch_size=20_000, memory=needed) as feed:
            assert sum(len(batch["x"]) for batch in feed) == 40_000


def refusal_of_memory(file, memory):
    with pytest.raises(penstock.FeedError) as error, penstock.feed(file, batch_size=20_000, memory=memory) as feed:
        next(iter(feed))
    return str(error.value)


def test_numbers_that_are_no_numbers_fill_nulls(tmp_path):
    file = write(tmp_path / "a.parquet", x=pa.array([1.5, None]), t=pa.array(["a", None]))
    with penstock.feed(file, batch_size=2, nulls={"x": math.nan, "t": "?"}) as feed:
        (batch,) = feed
        assert batch["x"][0] == 1.5 and np.isnan(batch["x"][1])
    assert 'column "t" holds 1 nulls' in refusal(file, nulls=math.nan)


def test_rows_that_fill_no_batch_are_others_every_epoch(tmp_path):
    file = write(tmp_path / "a.parquet", id=np.arange(100))
    order = dict(batch_size=64, shuffle="rows", seed=3)
    with penstock.feed(file, **order, epochs=12) as feed:
        epochs = [batch["id"].tolist() for batch in feed]
        cursor = feed.cursor(2)
    assert all(len(set(ids)) == 64 for ids in epochs) and set().union(*epochs) == set(range(100))
    with penstock.feed(file, **order, epochs=12, start=cursor) as feed:
        assert [batch["id"].tolist() for batch in feed] == epochs[2:]

    # As a release wrote it that dropped the last rows of every epoch.
    older = {**cursor, "order": {name: value for name, value in cursor["order"].items() if name != "rules"}}
    assert older != cursor
    with pytest.raises(penstock.ArgumentError, match="or 'drop' in an older release.*, this feed drops other rows every epoch"):
        penstock.feed(file, **order, epochs=12, start=older).description
    with penstock.feed(file, **order, remainder="keep", epochs=12, start=older) as feed:
        assert len(feed) == 2 * (12 - 2)
    with pytest.raises(penstock.ArgumentError, match="a feed that drops other rows every epoch, this feed takes the last rows"):
        penstock.feed(file, **order, remainder="keep", epochs=12, start=cursor).description
