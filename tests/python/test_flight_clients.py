"""Stock Flight clients and the gateway: what pyarrow reads through it is what pyarrow reads from the files."""

from __future__ import annotations

import datetime
import decimal
import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from conftest import ROOT, absent

CORPUS = ROOT.parent / "shared" / "corpus" / "parquet-testing"


@pytest.fixture(scope="session")
def serve(binary):
    """`with serve(NAME=PATH, …) as client`: a gateway on a free port, ended with the block."""

    @contextmanager
    def start(*flags: str, options: tuple = (), **datasets):
        named = [text for name, path in datasets.items() for text in ("--dataset", f"{name}={path}")]
        command = [binary, "gateway", "--listen", "127.0.0.1:0", "--log", "error", *named, *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise RuntimeError(process.stderr.read())
            with flight.FlightClient(line.removeprefix("listening on ").strip(), generic_options=list(options)) as client:
                yield client
        finally:
            process.kill()
            process.communicate()

    return start


def whole(client: flight.FlightClient, name: str) -> pa.Table:
    """All rows, as any Flight user reads them."""
    info = client.get_flight_info(flight.FlightDescriptor.for_path(name))
    return client.do_get(info.endpoints[0].ticket).read_all()


def chunks(client: flight.FlightClient, info: flight.FlightInfo, rank: int = 0):
    """(note, batch) of everything on a stream."""
    reader = client.do_get(info.endpoints[rank].ticket)
    return [(json.loads(chunk.app_metadata.to_pybytes()), chunk.data) for chunk in reader]


def feed(client: flight.FlightClient, **command) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(command)))


def ids(rows: int) -> pa.Table:
    return pa.table({"id": np.arange(rows), "x": np.arange(rows, dtype="float32") / 2})


def test_flights_are_listed_with_their_rows(serve, tmp_path):
    pq.write_table(ids(1000), tmp_path / "a.parquet")
    pq.write_table(ids(10), tmp_path / "b.parquet")
    with serve(both=tmp_path, small=tmp_path / "b.parquet") as client:
        listed = {info.descriptor.path[0].decode(): info for info in client.list_flights()}
        assert {name: info.total_records for name, info in listed.items()} == {"both": 1010, "small": 10}
        assert listed["small"].schema == ids(1).schema
        assert json.loads(listed["both"].app_metadata)["rows"] == 1010


def test_a_path_reads_the_files_in_order(serve, tmp_path):
    tables = [ids(rows) for rows in (1000, 1, 70_000)]
    for index, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{index}.parquet", row_group_size=3000)
    with serve(d=tmp_path) as client:
        assert whole(client, "d") == pa.concat_tables(tables).combine_chunks()
        # A client that reads what it got from the list, without a word of ours.
        (info,) = client.list_flights()
        (endpoint,) = info.endpoints
        with flight.connect(endpoint.locations[0]) as other:
            assert other.do_get(endpoint.ticket).read_all().num_rows == info.total_records
        assert client.get_schema(info.descriptor).schema == tables[0].schema


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_was_asked_to_be_compressed_is_read_like_anything_else(serve, tmp_path, codec):
    table = ids(20_000).append_column("text", pa.array([f"text {i % 7}" for i in range(20_000)]))
    pq.write_table(table, tmp_path / "a.parquet")
    with serve(d=tmp_path) as client:
        info = feed(client, dataset="d", remainder="keep", compression=codec)
        assert client.do_get(info.endpoints[0].ticket).read_all() == table


def test_a_command_reads_steps_and_says_so(serve, tmp_path):
    pq.write_table(ids(1000), tmp_path / "a.parquet", row_group_size=64)
    with serve(d=tmp_path) as client:
        info = feed(client, dataset="d", batch_size=100, world_size=2, shuffle="rows", seed=3, epoch=7, columns=["id"])
        assert len(info.endpoints) == 2
        seen = []
        for rank in range(2):
            *parts, (end, empty) = chunks(client, info, rank)
            assert (end, empty.num_rows) == ({"end": True, "steps": 10}, 0)
            # What a part cost is said where it was waited for.
            costs = {"store_us", "decode_us"}
            notes = [{key: note[key] for key in note.keys() - costs} for note, _ in parts]
            assert notes == [{"epoch": 7, "step": t, "part": 0, "parts": 1} for t in range(10)]
            assert all(batch.num_rows == 50 for _, batch in parts)
            seen += [row for _, batch in parts for row in batch["id"].to_pylist()]
        assert seen != sorted(seen) and sorted(seen) == list(range(1000))

        late = feed(client, dataset="d", batch_size=100, rank=0, start_step=10)
        ((end, empty),) = chunks(client, late)
        assert (end, empty.num_rows) == ({"end": True, "steps": 10}, 0)


def test_every_type_round_trips(serve, tmp_path):
    table = every_type()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    expected = pq.read_table(tmp_path / "t.parquet")
    with serve(t=tmp_path / "t.parquet") as client:
        for name in expected.column_names[1:]:
            want = plain(expected[name])
            for shuffle in ("none", "rows"):
                info = feed(client, dataset="t", columns=["id", name], batch_size=5, shuffle=shuffle, remainder="keep", seed=1)
                got = client.do_get(info.endpoints[0].ticket).read_all()
                # pyarrow forgets that some types were others before they were Parquet's; the gateway does not.
                assert got[name].type in (want.type, table[name].type), name
                order = np.argsort(got["id"].to_numpy())
                read = values(got[name])
                assert [read[place] for place in order] == values(want), (name, shuffle)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries are written out on the wire."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def values(column: pa.ChunkedArray) -> list:
    """Python's values; where it has none, of times in nanoseconds, the numbers behind them."""
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return (column.cast(pa.int64()) if is_time else column).to_pylist()


def every_type() -> pa.Table:
    rows = 23
    some = lambda values: [value if i % 4 else None for i, value in enumerate(values)]
    numbers = list(range(rows))
    texts = ["" if i % 5 == 0 else "größer " * i for i in numbers]
    day = datetime.date(1970, 1, 1)
    columns = {"id": pa.array(numbers, pa.int64())}
    for kind in (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64, pa.float32, pa.float64):
        columns[str(kind())] = pa.array(some(numbers), kind())
    columns["half"] = pa.array(np.array(numbers, "float16"))
    columns["bool"] = pa.array(some([i % 3 == 0 for i in numbers]))
    columns["null"] = pa.nulls(rows)
    for kind in (pa.string, pa.large_string, pa.string_view):
        columns[str(kind())] = pa.array(some(texts), kind())
    for kind in (pa.binary, pa.large_binary, pa.binary_view):
        columns[str(kind())] = pa.array(some([text.encode() for text in texts]), kind())
    columns["fixed"] = pa.array(some([bytes([i] * 3) for i in numbers]), pa.binary(3))
    columns["decimal"] = pa.array(some([decimal.Decimal(i) / 100 for i in numbers]), pa.decimal128(20, 2))
    columns["decimal256"] = pa.array(some([decimal.Decimal(i) / 100 for i in numbers]), pa.decimal256(60, 2))
    columns["date32"] = pa.array(some([day + datetime.timedelta(i) for i in numbers]), pa.date32())
    columns["date64"] = pa.array(some([day + datetime.timedelta(i) for i in numbers]), pa.date64())
    for unit in ("s", "ms", "us", "ns"):
        columns[f"timestamp {unit}"] = pa.array(some(numbers), pa.timestamp(unit, "Europe/Vienna" if unit == "us" else None))
        columns[f"duration {unit}"] = pa.array(some(numbers), pa.duration(unit))
    columns["time32"] = pa.array(some(numbers), pa.time32("ms"))
    columns["time64"] = pa.array(some(numbers), pa.time64("us"))
    columns["dictionary"] = pa.array(some(["a", "b", "c"] * 8)[:rows], pa.dictionary(pa.int8(), pa.string()))
    columns["list"] = pa.array(some([numbers[:i] for i in numbers]), pa.list_(pa.int16()))
    columns["large list"] = pa.array(some([texts[: i % 4] for i in numbers]), pa.large_list(pa.string()))
    columns["list of views"] = pa.array(some([texts[: i % 4] for i in numbers]), pa.list_(pa.string_view()))
    columns["fixed list"] = pa.array([[i, i + 1] for i in numbers], pa.list_(pa.float32(), 2))
    columns["fixed list with nulls"] = pa.array(some([[i, i + 1] for i in numbers]), pa.list_(pa.uint8(), 2))
    columns["nested list"] = pa.array(some([[[i], [], None] for i in numbers]), pa.list_(pa.list_(pa.int64())))
    columns["struct"] = pa.array(some([{"a": i, "b": texts[i]} for i in numbers]), pa.struct({"a": pa.int8(), "b": pa.string()}))
    columns["map"] = pa.array(some([[(str(i), i)] * (i % 3) for i in numbers]), pa.map_(pa.string(), pa.int32()))
    return pa.table(columns)


def test_no_message_is_larger_than_a_stock_client_takes(serve, tmp_path):
    rows = 600
    blobs = [b"x" * (300_000 if i % 50 == 0 else 20_000) for i in range(rows)]
    views = pa.array([f"a text that is too long for a view {i}" * 50 for i in range(rows)], pa.string_view())
    pq.write_table(pa.table({"blob": blobs, "view": views}), tmp_path / "a.parquet", row_group_size=200)
    four_mib = (("grpc.max_receive_message_length", 4 << 20),)
    with serve(d=tmp_path, options=four_mib) as client:
        assert whole(client, "d")["blob"].to_pylist() == blobs
        info = feed(client, dataset="d", batch_size=rows, shuffle="rows")
        *parts, _ = chunks(client, info)
        assert len(parts) > 5
        assert [note["part"] for note, _ in parts] == list(range(len(parts)))
        assert [note["part"] + 1 == note["parts"] for note, _ in parts] == [False] * (len(parts) - 1) + [True]
        assert sum(batch.num_rows for _, batch in parts) == rows


def test_refusals_reach_the_client_in_words(serve, tmp_path):
    pq.write_table(ids(100), tmp_path / "a.parquet")
    with serve(d=tmp_path) as client:
        with pytest.raises(KeyError, match='no dataset "e" is served here: there is "d"'):
            client.get_flight_info(flight.FlightDescriptor.for_path("e"))
        with pytest.raises(pa.ArrowInvalid, match='no column "idd": did you mean "id"'):
            feed(client, dataset="d", columns=["idd"])
        with pytest.raises(pa.ArrowInvalid, match="raise batch_size to at least 4"):
            feed(client, dataset="d", batch_size=3, world_size=4)
        with pytest.raises(pa.ArrowInvalid, match='at letter 1: the dataset has no column "idd", did you mean "id"'):
            feed(client, dataset="d", filter="idd > 1")
        with pytest.raises(flight.FlightUnauthenticatedError, match="GetFlightInfo"):
            client.do_get(flight.Ticket(b"forged")).read_all()
        with pytest.raises(NotImplementedError, match="write Parquet where the dataset lies"):
            writer, _ = client.do_put(flight.FlightDescriptor.for_path("d"), ids(1).schema)
            writer.write_table(ids(1))
            writer.close()


def test_filters_pass_what_arrow_passes(serve, tmp_path):
    """The same conditions in SQL and in pyarrow's own kernels, over nulls, NaN, zeros and text."""
    random = np.random.default_rng(1)
    rows = 5000
    floats = random.integers(-4, 5, rows).astype("float64")
    floats[random.integers(0, rows, 300)] = np.nan
    table = pa.table({
        "id": np.arange(rows),
        "f": pa.array(floats, mask=random.random(rows) < 0.1),
        "i": pa.array(random.integers(-3, 4, rows), mask=random.random(rows) < 0.1),
        "s": pa.array([None if i % 11 == 0 else "ab"[i % 2] * (i % 5) for i in range(rows)]),
        "t": pa.array(np.arange(rows) * 3_600_000_000, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    f, i, s, t = (pc.field(name) for name in "fist")
    day = pa.scalar(datetime.datetime(1970, 1, 20, tzinfo=datetime.timezone.utc))
    conditions = {
        "f > 1.5": f > 1.5,
        "NOT f > 1.5": ~(f > 1.5),
        "f <> f": f != f,
        "f = 0 OR i < -2": (f == 0) | (i < -2),
        "i * i + 1 > f AND s IS NOT NULL": (i * i + 1 > f) & s.is_valid(),
        "s IN ('aa', 'bbb') OR s LIKE 'aaa%'": s.isin(["aa", "bbb"]) | pc.starts_with(s, "aaa"),
        "length(s) = i": pc.utf8_length(s) == i,
        "t >= '1970-01-20' AND i IS NULL": (t >= day) & i.is_null(),
    }
    with serve(d=tmp_path) as client:
        for sql, condition in conditions.items():
            info = feed(client, dataset="d", filter=sql, columns=["id"], remainder="keep")
            read = pa.Table.from_batches([chunk for _, chunk in chunks(client, info)], schema=info.schema)
            assert read["id"].to_pylist() == table.filter(condition)["id"].to_pylist(), sql
        info = feed(client, dataset="d", select=["id", "log1p(abs(f)) AS l", "upper(s) AS s"], remainder="keep")
        read = pa.Table.from_batches([chunk for _, chunk in chunks(client, info)], schema=info.schema)
        np.testing.assert_allclose(read["l"].to_numpy(), np.log1p(np.abs(table["f"].to_numpy())), rtol=1e-15)
        assert read["s"].to_pylist() == pc.utf8_upper(table["s"]).to_pylist()


def test_a_reader_that_leaves_is_forgotten(serve, tmp_path):
    table = pa.table({"x": [b"x" * 10_000] * 6000})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500, use_dictionary=False, compression="none")
    with serve("--memory", "24MiB", d=tmp_path) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("d"))
        for _ in range(5):
            reader = client.do_get(info.endpoints[0].ticket)
            reader.read_chunk()
            reader.cancel()
        assert whole(client, "d").num_rows == 6000


def corpus(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).glob("*.parquet*")) if CORPUS.is_dir() else []


# What is broken, or written in a way that only some readers put up with.
REFUSED = {
    "ARROW-GH-41317.parquet",
    "ARROW-GH-41321.parquet",
    "ARROW-GH-47662.parquet",
    "ARROW-RS-GH-6229-DICTHEADER.parquet",
    "dict-page-offset-zero.parquet",
    "nation.dict-malformed.parquet",
}


def test_the_corpus_is_there():
    if not CORPUS.is_dir():
        absent(f"no corpus at {CORPUS}: odd and broken files are not tried")


@pytest.mark.parametrize("path", corpus("data") + corpus("bad_data"), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_odd_file_reads_as_pyarrow_reads_it_or_is_refused_by_name(serve, path):
    must_refuse = path.name in REFUSED or "encrypt" in path.name
    try:
        with serve(odd=path) as client:
            got = whole(client, "odd")
    except (RuntimeError, pa.ArrowException, flight.FlightError) as error:
        text = str(error)
        # At start the footer is refused, on a stream a page.
        assert path.name in text and ("row group" in text or isinstance(error, RuntimeError)), text
        assert must_refuse, text
        return
    assert not must_refuse
    try:
        expected = pq.read_table(path)
    except pa.ArrowException:
        return
    assert (got.num_rows, got.column_names) == (expected.num_rows, expected.column_names)
    for name in got.column_names:
        assert same(got[name], plain(expected[name])), name


def same(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    try:
        return repr(ours.to_pylist()) == repr(theirs.to_pylist())  # For NaN is not NaN.
    except (ValueError, OverflowError):
        return ours.equals(theirs)  # Python has no such times.
