"""The whole path in one script: files, a gateway and a sidecar of the process's own, batches."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from conftest import ROWS, gone_within, running
from penstock import _daemons


def ids(feed, valid=False) -> list[int]:
    return [i for batch in feed for i in (batch["id"][batch["_valid"]] if valid else batch["id"]).tolist()]


@pytest.mark.parametrize("shuffle", ["none", "blocks", "rows"])
def test_every_row_once_an_epoch_in_another_order_each(data, shuffle):
    with penstock.feed(data, batch_size=64, shuffle=shuffle, seed=3, epochs=2, remainder="pad", columns=["id"]) as feed:
        epochs = [ids(feed.epoch(epoch), valid=True) for epoch in (0, 1)]
        assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
        assert (epochs[0] == list(range(ROWS))) == (shuffle == "none")
        assert (epochs[0] == epochs[1]) == (shuffle == "none")
        assert ids(feed, valid=True) == epochs[0] + epochs[1]


def test_what_the_remainder_becomes(data):
    def lengths(remainder):
        with penstock.feed(data / "*.parquet", batch_size=300, remainder=remainder, columns=["id"]) as feed:
            return [len(batch["id"]) for batch in feed], feed.steps_per_epoch, feed.description["dropped"]

    assert lengths("drop") == ([300, 300, 300], 3, 100)
    assert lengths("pad") == ([300, 300, 300, 300], 4, 0)
    assert lengths("keep") == ([300, 300, 300, 100], 4, 0)


def test_columns_have_the_values_of_the_files(data):
    with penstock.feed(data, batch_size=50, columns=["name", "image", "id"]) as feed:
        assert list(feed.schema) == ["name", "image", "id"]
        for batch in feed:
            assert batch["image"].dtype == np.uint8 and batch["image"].shape == (50, 6)
            np.testing.assert_array_equal(batch["image"], np.repeat(batch["id"][:, None] % 256, 6, axis=1))
            assert batch["name"].tolist() == [f"row-{i}" for i in batch["id"]]


def test_files_of_a_list_are_one_dataset_in_their_order(data, tmp_path):
    odd = tmp_path / "one more (100%).parquet"
    odd.symlink_to(data / "0.parquet")
    files = [data / "3.parquet", data / "[12].parquet", odd]
    with penstock.feed(files, batch_size=50, columns=["id"]) as feed:
        assert ids(feed) == [*range(750, 1000), *range(250, 750), *range(250)]
    with pytest.raises(penstock.FeedError, match="3.parquet is named twice"):
        penstock.feed(files[:2] * 2, batch_size=50)
    # More than a command line takes.
    directory = tmp_path / ("long" * 50)
    directory.mkdir()
    many = [directory / f"{i:04}.parquet" for i in range(400)]
    for i, file in enumerate(many):
        pq.write_table(pa.table({"id": [i]}), file)
    with penstock.feed(many[::-1], batch_size=100, columns=["id"]) as feed:
        assert ids(feed) == list(range(400))[::-1]


def test_a_filter_feeds_the_rows_that_pass_and_select_computes(data):
    order = dict(batch_size=32, shuffle="rows", seed=5, epochs=2, remainder="keep")
    some = dict(filter="id % 3 = 1 AND name <> 'row-4' AND age > 10", select={"id": "id", "half": "CAST(id AS REAL) / 2", "group": "hash_bucket(name, 7)"})
    expected = [i for i in range(11, ROWS) if i % 3 == 1]
    with penstock.feed(data, **order, **some) as feed:
        assert {name: column.dtype for name, column in feed.schema.items()} == {"id": "int64", "half": "float64", "group": "int64"}
        assert (feed.description["rows"], len(feed)) == (len(expected), 2 * -(-len(expected) // 32))
        batches = [(batch["id"].tolist(), json.loads(json.dumps(batch.cursor))) for batch in feed]
        for batch in feed:
            np.testing.assert_array_equal(batch["half"], batch["id"] / 2)
            assert ((batch["group"] >= 0) & (batch["group"] < 7)).all()
    half = len(batches) // 2
    for epoch in (batches[:half], batches[half:]):
        assert sorted(i for rows, _ in epoch for i in rows) == expected
    with penstock.feed(data, **order, **some, start=batches[3][1]) as feed:
        assert ids(feed) == [i for rows, _ in batches[4:] for i in rows]
    with pytest.raises(penstock.ArgumentError, match="a feed with filter"):
        with penstock.feed(data, **order, columns=["id"], start=batches[3][1]) as feed:
            ids(feed)
    with pytest.raises(penstock.FeedError, match="at letter 1: the dataset has no column \"idd\""):
        with penstock.feed(data, **order, filter="idd > 3") as feed:
            ids(feed)


def test_nulls_are_filled_or_masked_as_declared(data):
    with penstock.feed(data, batch_size=100, nulls={"age": -1}) as feed:
        for batch in feed:
            np.testing.assert_array_equal(batch["age"], np.where(batch["id"] % 3 == 0, -1, batch["id"]))
    with penstock.feed(data, batch_size=100, nulls="mask") as feed:
        assert list(feed.schema)[-2:] == ["age", "age_valid"]
        for batch in feed:
            np.testing.assert_array_equal(batch["age_valid"], batch["id"] % 3 != 0)
            np.testing.assert_array_equal(batch["age"][batch["age_valid"]], batch["id"][batch["age_valid"]])


def test_nulls_that_statistics_tell_of_are_refused_before_the_first_step(data, tmp_path):
    table = pa.table({"id": list(range(100)), "late": [None if i == 99 else i for i in range(100)]})
    for name, statistics in (("told", True), ("silent", ["id"])):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "a.parquet", row_group_size=10, write_statistics=statistics)
    order = dict(batch_size=10)
    with penstock.feed(tmp_path / "told", **order) as feed:
        assert list(feed.schema) == ["id", "late"], "it can be looked at"
        with pytest.raises(penstock.FeedError, match=r'column "late" holds 1 nulls in \S*told/a.parquet: declare nulls=.*, or leave their rows out'):
            iter(feed)
    renamed = dict(select={"id": "id", "x": "late", "y": "coalesce(late, 0)"})
    with penstock.feed(tmp_path / "told", **order, **renamed) as feed, pytest.raises(penstock.FeedError, match='column "x" holds 1 nulls in'):
        iter(feed)
    for more in (dict(nulls={"late": -1}), dict(filter="late IS NOT NULL"), dict(columns=["id"]), dict(select=["id", "coalesce(late, 0) AS late"])):
        with penstock.feed(tmp_path / "told", **order, **more) as feed:
            assert len(ids(feed)) == (90 if "filter" in more else 100)
    with penstock.feed(tmp_path / "silent", **order) as feed:
        batches = iter(feed)
        assert [next(batches)["id"][0] for _ in range(9)] == list(range(0, 90, 10))
        with pytest.raises(penstock.FeedError, match='column "late" holds 1 nulls at epoch 0, step 9'):
            next(batches)


def test_a_saved_cursor_goes_on_with_the_next_row_at_any_world_size(data):
    order = dict(batch_size=48, shuffle="rows", seed=5, epochs=2, columns=["id"])
    with penstock.feed(data, **order) as feed:
        batches = [(batch["id"].tolist(), json.loads(json.dumps(batch.cursor))) for batch in feed]
    for stop in (0, 7, 19, 20, 39):
        rest = [i for rows, _ in batches[stop + 1 :] for i in rows]
        cursor = batches[stop][1]
        with penstock.feed(data, **order, start=cursor) as feed:
            assert len(feed) == len(batches) - stop - 1
            assert ids(feed) == rest
        ranks = [penstock.feed(data, **order, start=cursor, rank=rank, world_size=2) for rank in (0, 1)]
        steps = [i for shares in zip(*ranks) for share in shares for i in share["id"].tolist()]
        assert steps == rest
        for feed in ranks:
            feed.close()
    with penstock.feed(data, **{**order, "seed": 6}) as feed:
        with pytest.raises(penstock.ArgumentError, match="lanes|seed"):
            penstock.feed(data, **{**order, "seed": 6}, start=batches[0][1])


def test_a_feed_without_end_goes_on(data):
    with penstock.feed(data, batch_size=500, epochs=None, columns=["id"]) as feed:
        iterator = iter(feed)
        assert [(batch.epoch, batch.step) for _, batch in zip(range(5), iterator)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
        with pytest.raises(TypeError):
            len(feed)
        iterator.close()


def test_a_running_gateway_is_used_and_left_alone(gateway):
    with penstock.feed(gateway, dataset="train", batch_size=100, columns=["id"]) as feed:
        assert ids(feed) == list(range(ROWS))
        assert not _daemons.of_this_process().gateways


@pytest.mark.parametrize(
    "arguments, text",
    [
        (dict(columns=["ids"]), 'no column "ids".*did you mean "id"'),
        (dict(nulls={"agee": 0}), 'nulls names column "agee".*did you mean "age"'),
        (dict(units={"agee": "ms"}), 'units names column "agee".*did you mean "age"'),
        (dict(codes=["names"]), 'codes names column "names".*did you mean "name"'),
        (dict(columns=["id"], nulls={"age": 0}), 'nulls names column "age", which the feed does not have: it has "id"; name none that columns'),
        (dict(columns=["id"], codes=["name"]), 'codes names column "name", which the feed does not have: it has "id"; name none that columns'),
        (dict(columns=["age"]), 'column "age" holds .* nulls .*"mask"'),
        (dict(lanes=5000), "lanes is 5000"),
    ],
)
def test_what_the_data_does_not_allow_is_one_line(data, arguments, text):
    with penstock.feed(data, **{"batch_size": 50, **arguments}) as feed:
        with pytest.raises(penstock.FeedError, match=text) as error:
            list(feed)
        assert "\n" not in str(error.value)


def test_wrong_places_are_one_line(data, gateway, tmp_path):
    with pytest.raises(penstock.FeedError, match="the gateway did not start: .*nowhere"):
        penstock.feed(tmp_path / "nowhere" / "*.parquet")
    with penstock.feed(gateway, dataset="weather") as feed:
        with pytest.raises(penstock.FeedError, match='"weather".*train'):
            feed.steps_per_epoch


def test_daemons_are_shared_and_end_with_their_last_feed(data):
    first, second = penstock.feed(data), penstock.feed(data)
    daemons = _daemons.of_this_process()
    pids = [daemons.sidecar.process.pid, *(daemon.process.pid for daemon, _ in daemons.gateways.values())]
    assert len(pids) == 2 and running(pids) == pids
    first.close()
    first.close()
    assert running(pids) == pids
    second.close()
    assert running(pids) == []


SCRIPT = """
import sys, penstock
from penstock import _daemons
feed = penstock.feed(sys.argv[1], batch_size=10, columns=["id"], epochs=None)
iterator = iter(feed)
held = [next(iterator) for _ in range(3)]
daemons = _daemons.of_this_process()
pids = [daemons.sidecar.process.pid, *(daemon.process.pid for daemon, _ in daemons.gateways.values())]
print(*pids, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["returns", "raises", "killed"])
def test_nothing_is_left_of_a_script_however_it_ends(data, how):
    script = SCRIPT + ("raise RuntimeError\n" if how == "raises" else "")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(data)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert running(pids) == pids
    if how == "killed":
        process.kill()
    process.communicate("\n", timeout=30)
    assert gone_within(5, pids), "shared memory goes with the processes that map it"


def test_a_pass_that_has_ended_leaves_its_memory_to_others(data):
    with penstock.feed(data, batch_size=64, columns=["id"], memory="600MiB") as feed:
        ended = []
        for _ in range(3):
            ended.append(iter(feed))
            first = next(ended[-1])
            assert sum(batch.rows for batch in ended[-1]) == ROWS // 64 * 64 - 64
            assert next(ended[-1], None) is None
            assert first["id"].tolist() == list(range(64)), "what is held can be read"


def test_feeds_share_what_memory_there_is(data):
    """What one feed may have at most is not kept from another."""
    feeds = [penstock.feed(data, batch_size=64, columns=["id"], memory="600MiB") for _ in range(3)]
    passes = [iter(feed) for feed in feeds]
    assert all(next(batches)["id"].tolist() == list(range(64)) for batches in passes)
    for feed in feeds:
        feed.close()


@pytest.mark.parametrize("said, told", [("1MiB", "PENSTOCK_SIDECAR_MEMORY in the environment before penstock.feed"), ("64MiB", None)])
def test_the_environment_says_what_a_sidecar_has(data, monkeypatch, said, told):
    monkeypatch.setenv("PENSTOCK_SIDECAR_MEMORY", said)
    with penstock.feed(data, batch_size=ROWS, select=["id", "hash_bucket(name, 9) AS a", *(f"id + {i} AS b{i}" for i in range(80))]) as feed:
        if told is None:
            assert [batch.rows for batch in feed] == [ROWS]
        else:
            with pytest.raises(penstock.FeedError, match=told):
                next(iter(feed))


def test_the_smallest_limit_is_what_a_process_can_have(tmp_path):
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text("1000\n")
    of_machine = _daemons._memory_of_the_machine([])
    assert of_machine > 1 << 20
    assert _daemons._memory_of_the_machine([tmp_path / "max", tmp_path / "nowhere"]) == of_machine
    assert _daemons._memory_of_the_machine([tmp_path / "max", tmp_path / "limit"]) == 1000


def test_passes_of_a_feed_are_of_the_same_files(tmp_path):
    def write(name, first):
        pq.write_table(pa.table({"id": list(range(first, first + 100))}), tmp_path / name)

    def fed_anew():
        with penstock.feed(tmp_path, batch_size=10) as feed:
            return ids(feed)

    write("a.parquet", 0)
    with penstock.feed(tmp_path, batch_size=10) as feed:
        assert ids(feed) == list(range(100))
        # Files that come are of feeds to come.
        write("b.parquet", 100)
        assert fed_anew() == list(range(200))
        assert ids(feed) == ids(feed.epoch(0)) == list(range(100))
        # What is gone from the disk is fed out of the gateway's memory, or not at all.
        write("a.parquet", 1000)
        try:
            assert ids(feed) == list(range(100))
        except penstock.FeedError as error:
            assert "changed" in str(error)


def test_a_feed_without_a_row_is_refused(data):
    with penstock.feed(data, batch_size=10, filter="id > 99999999") as feed:
        with pytest.raises(penstock.FeedError, match="no row of dataset .* passes the filter id > 99999999"):
            len(feed)


def test_what_killed_scripts_left_is_swept_and_nothing_that_lives(tmp_path):
    for name in ("penstock-1-dead", "penstock-2-living"):
        (tmp_path / name).mkdir()
    # No process of these numbers needs to be seen: whoever lives may be in another container.
    _daemons._locked(tmp_path / "penstock-1-dead").close()
    with _daemons._locked(tmp_path / "penstock-2-living"):
        _daemons._sweep(tmp_path)
        assert [left.name for left in tmp_path.iterdir()] == ["penstock-2-living"]


def test_a_killed_sidecar_is_said_and_a_new_feed_gets_a_new_one(data):
    feed = penstock.feed(data, batch_size=10, columns=["id"], epochs=None)
    iterator = iter(feed)
    next(iterator)
    sidecar = _daemons.of_this_process().sidecar.process
    sidecar.kill()
    started = time.monotonic()
    with pytest.raises(penstock.SidecarError, match="the sidecar at .* died"):
        for _ in iterator:
            pass
    assert time.monotonic() - started < 5
    sidecar.wait(5)  # its socket answers until its last thread is gone
    with penstock.feed(data, batch_size=500, columns=["id"]) as again:
        assert ids(again) == list(range(ROWS))
    feed.close()


@pytest.mark.parametrize("victims", [["sidecar"], ["gateway"], ["sidecar", "gateway"]])
def test_another_pass_starts_what_died_of_its_own_anew(data, victims):
    with penstock.feed(data, batch_size=500, columns=["id"]) as feed, penstock.feed(data, batch_size=250, columns=["id"]) as other:
        assert ids(feed) == list(range(ROWS))
        daemons = _daemons.of_this_process()
        ((gateway, users),) = daemons.gateways.values()
        of_before = {"sidecar": daemons.sidecar.process, "gateway": gateway.process}
        for victim in victims:
            of_before[victim].kill()
            of_before[victim].wait()
        assert ids(feed) == list(range(ROWS)) == ids(other)
        ((gateway, still),) = daemons.gateways.values()
        new = {name for name, process in (("sidecar", daemons.sidecar.process), ("gateway", gateway.process)) if process is not of_before[name]}
        assert (new, still) == (set(victims), users)


def test_a_killed_gateway_is_said_soon(data):
    with penstock.feed(data, batch_size=10, columns=["id"], epochs=None) as feed:
        batches = iter(feed)
        next(batches)
        for daemon, _ in _daemons.of_this_process().gateways.values():
            daemon.process.kill()
        with pytest.raises(penstock.FeedError, match="no gateway served the feed for 5s"):
            for _ in batches:
                pass


def test_the_command_line_is_the_binary(binary):
    out = subprocess.run([sys.executable, "-m", "penstock", "version"], capture_output=True, text=True, check=True)
    assert out.stdout == subprocess.run([binary, "version"], capture_output=True, text=True, check=True).stdout


def test_a_gateway_that_is_long_in_reading_says_how_far_it_is(monkeypatch, tmp_path, capfd):
    program = tmp_path / "penstock"
    program.write_text("#!/bin/sh\necho 'reading train: 5 of 10 files'\necho 'listening on grpc://h:1'\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(_daemons._native, "path", lambda name: program)
    daemon = _daemons.Daemon("gateway", [], tmp_path)
    daemon.end()
    assert daemon.address == "grpc://h:1"
    assert capfd.readouterr().err == "penstock: reading train: 5 of 10 files\n"
