"""What goes wrong around a feed: memory that is not there, interpreters that end, and very many passes."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from conftest import ROWS, missing
from penstock import _daemons

#: Long enough for a machine that does much else; nothing is measured by it.
PATIENCE = 120.0


def descriptors(pid: object = "self") -> list[str]:
    """What a process has open, by kind."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(entry).split(":")[0])
        except FileNotFoundError:
            continue
    return sorted(links)


def rings(pid: object = "self") -> int:
    """Mappings of rings."""
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:penstock")


def comes_true(condition) -> bool:
    """A sidecar hears of a closed feed a moment later."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_thousand_opens_and_closes_leave_nothing(gateway):
    with penstock.feed(gateway, dataset="train", batch_size=100, columns=["id"], memory="4MiB") as feed:
        sidecar = _daemons.of_this_process().sidecar.process.pid

        def passes(count: int) -> None:
            for number in range(count):
                batches = iter(feed)
                if number % 2 == 0:
                    assert next(batches)["id"][0] == 0
                batches.close()
            del batches
            gc.collect()

        def left() -> tuple[object, ...]:
            return descriptors(), rings(), descriptors(sidecar), rings(sidecar)

        # What the first ones leave is what all share.
        passes(5)
        assert comes_true(lambda: rings(sidecar) == 0)
        of_own, _, of_sidecar, _ = left()
        passes(1000)
        assert comes_true(lambda: left() == (of_own, 0, of_sidecar, 0)), (left(), of_own, of_sidecar)
        stats = penstock.stats()
        assert (stats.feeds, stats.held) == (0, 0)


def test_a_train_and_an_evaluation_feed_go_side_by_side(data, gateway):
    train = penstock.feed(data, batch_size=10, columns=["id"], shuffle="rows", epochs=2)
    evaluation = penstock.feed(gateway, dataset="train", batch_size=250, columns=["id", "name"], filter="id < 500")
    seen = []
    for number, batch in enumerate(train):
        seen += batch["id"].tolist()
        if number % 50 == 49:
            of_evaluation = [(i, name) for rest in evaluation for i, name in zip(rest["id"].tolist(), rest["name"])]
            assert of_evaluation == [(i, f"row-{i}") for i in range(500)]
        if number == 100:
            evaluation.close()
            evaluation = penstock.feed(gateway, dataset="train", batch_size=250, columns=["id", "name"], filter="id < 500")
    assert sorted(seen) == sorted(2 * list(range(ROWS)))
    train.close()
    evaluation.close()


PENDING = """
import sys, threading, penstock
feed = penstock.feed()
{take}
waits = threading.Thread(target=lambda: next(batches), daemon=True)
waits.start()
print("waiting", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "take",
    [
        "batches = iter(feed)",
        pytest.param("batches = iter(feed.tf(prefetch=0))", marks=pytest.mark.tensorflow),
        pytest.param("batches = iter(feed.tf(prefetch=2))", marks=pytest.mark.tensorflow),
    ],
)
def test_an_interpreter_ends_while_a_thread_waits_for_a_batch(produce, take):
    # The first batch would come in a day: whoever waited for it would be killed by this test's patience.
    produce(steps=3, pace_ms=86_400_000)
    process = subprocess.Popen([sys.executable, "-c", PENDING.format(take=take)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "waiting\n"
        process.communicate("\n", timeout=PATIENCE)
        assert process.returncode == 0
    finally:
        process.kill()


ABANDONED = """
import sys, penstock
feed = penstock.feed(sys.argv[1], dataset="train", batch_size=10, columns=["id"], epochs=None, name="mine")
print("begins", flush=True)
sys.stdin.readline()
for batch in {batches}:
    print("feeds", flush=True)
"""


@pytest.mark.parametrize(
    "when, batches",
    [
        ("before", "feed"),
        ("amid", "feed"),
        pytest.param("amid", "feed.tf()", marks=pytest.mark.tensorflow),
    ],
)
def test_who_waits_for_a_gateway_that_is_gone_is_told_before_it_is_an_error(data, binary, when, batches):
    serve = [binary, "gateway", "--listen", "127.0.0.1:0", "--dataset", f"train={data}"]
    gateway = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = gateway.stdout.readline().removeprefix("listening on ").strip()
    command = [sys.executable, "-c", ABANDONED.format(batches=batches), address]
    trainer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert trainer.stdout.readline() == "begins\n"
        if when == "before":
            gateway.kill()
        trainer.stdin.write("\n")
        trainer.stdin.flush()
        if when == "amid":
            assert trainer.stdout.readline() == "feeds\n"
            gateway.kill()
        # What is on the way meanwhile, the trainer takes.
        threading.Thread(target=trainer.stdout.read, daemon=True).start()
        told = rf"penstock: feed 'mine': no gateway has served the feed for \d+s: {address}: .*refused.*; looking for one for \d+s more\n"
        assert any(re.search(told, line) for line in trainer.stderr)
    finally:
        for process in (gateway, trainer):
            process.kill()
            process.wait()


RANK = """
import sys, penstock
address, rank = sys.argv[1:]
feed = dict(dataset="d", batch_size=64, shuffle="blocks", lanes=16, world_size=2, rank=int(rank), memory="4MiB", name="mine")
with penstock.feed(address, **feed) as feed:
    for batch in feed:
        print("feeds", flush=True)
        sys.stdin.readline()
"""


def test_a_rank_for_which_a_gateway_has_no_memory_is_told_why_at_once(tmp_path, binary):
    """Two ranks, one of which finds room: what a trainer reads that waits for the other at every step."""
    rows = np.random.default_rng(3).integers(0, 256, (8192, 8192), np.uint8)
    table = pa.table({"x": pa.array([row.tobytes() for row in rows], pa.binary())})
    pq.write_table(table, tmp_path / "part.parquet", row_group_size=256)
    serve = [binary, "gateway", "--listen", "127.0.0.1:0", "--dataset", f"d={tmp_path}", "--memory", "96MiB"]
    gateway = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = gateway.stdout.readline().removeprefix("listening on ").strip()
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, address, "0"], **pipes)]
    try:
        assert any(re.search("2 ranks of 1 gateway.* do not find room at once", line) for line in ranks[0].stderr)
        assert ranks[0].stdout.readline() == "feeds\n"
        ranks.append(subprocess.Popen([sys.executable, "-c", RANK, address, "1"], **pipes))
        assert any(re.search("2 ranks of 1 gateway.* do not find room at once", line) for line in ranks[1].stderr)
        told = rf"penstock: feed 'mine': gateway {address}.*: the stream waits for memory: it needs \d+ MiB, .*--memory \d+MiB"
        assert any(re.search(told, line) for line in ranks[1].stderr)
        # It is only waiting: what is left free is its.
        ranks[0].kill()
        assert ranks[1].stdout.readline() == "feeds\n"
    finally:
        for process in (gateway, *ranks):
            process.kill()
            process.wait()


@pytest.fixture
def limited(tmp_path, binary):
    """Starts sidecars in a control group that may hold so many bytes."""
    old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root, file = (old, "memory.limit_in_bytes") if (old / "memory.limit_in_bytes").is_file() else (new, "memory.max")
    group = root / f"penstock-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        missing(f"a memory limit: no control group can be made here, {error.strerror}")
    started = []

    def start(limit: int) -> str:
        try:
            (group / file).write_text(str(limit))
        except OSError as error:
            missing(f"a memory limit: control groups limit nothing here, {error.strerror}")
        command = f'echo $$ > {group}/cgroup.procs && exec {binary} sidecar --listen {tmp_path}/s.sock --memory 4GiB'
        started.append(subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        assert started[-1].stdout.readline().startswith("listening on unix:")
        return f"{tmp_path}/s.sock"

    yield start
    for process in started:
        process.kill()
        process.wait()

    def removed() -> bool:
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    assert comes_true(removed)


#: Says what became of two passes over large batches, some of them held.
FED = """
import sys, penstock
try:
    with penstock.feed(sys.argv[1], dataset="wide", batch_size=8192, memory=sys.argv[2], lanes=1, epochs=2) as feed:
        rows = 0
        for batch in feed:
            assert (batch["x"] == 7).all() and batch["x"].shape == (8192, 1024)
            rows += len(batch["x"])
    print("fed", rows)
except penstock.PenstockError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    "memory, told",
    [
        # Eight slots of 8 MiB, and pages beside them.
        ("1GiB", ["FeedError feed 'wide': no memory for a ring: cannot reserve"]),
        # Less than the limit, but for what the sidecar has beside it: it may live, or be killed by the kernel.
        ("96MiB", ["fed 65536", "SidecarError feed 'wide': the sidecar at", "FeedError feed 'wide': no memory"]),
    ],
)
def test_a_memory_limit_is_an_error_and_no_signal(limited, binary, tmp_path, memory, told):
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.full(32_768 * 1024, 7, "uint8")), 1024)
    pq.write_table(pa.table({"x": values}), tmp_path / "wide.parquet", row_group_size=4096)
    serve = [binary, "gateway", "--listen", "127.0.0.1:0", "--dataset", f"wide={tmp_path / 'wide.parquet'}"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as gateway:
        address = gateway.stdout.readline().removeprefix("listening on ").strip()
        env = {**os.environ, "PENSTOCK_SIDECAR": limited(60 << 20)}
        trainer = subprocess.run([sys.executable, "-c", FED, address, memory], env=env, capture_output=True, text=True, timeout=PATIENCE)
        gateway.kill()
    assert trainer.returncode == 0, (trainer.returncode, trainer.stderr)
    assert trainer.stdout.startswith(tuple(told)), trainer.stdout
