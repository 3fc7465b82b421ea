"""Parameter servers: whole jobs of `penstock run` with a real TensorFlow, undisturbed and disturbed.

Every row has an id, and one variable on the parameter server counts how often each was trained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import ROWS, running

pytestmark = pytest.mark.tensorflow

JOB = """
import json, os, pathlib, signal, sys, threading, time
import numpy as np, penstock, penstock.ps, tensorflow as tf

run, disturb, options = pathlib.Path(os.environ["PENSTOCK_RUN_DIR"]), sys.argv[1], json.loads(sys.argv[2])
task = json.loads(os.environ["TF_CONFIG"])["task"]
name = f"{task['type']}-{task['index']}"
lives = len(list(run.glob(f"{name}.pid*")))
is_first_life = lives == 0
(run / f"{name}.pid{lives}").write_text(str(os.getpid()))
if disturb == f"at start {name}" and is_first_life:
    os.kill(os.getpid(), signal.SIGKILL)
if task["type"] == "evaluator":
    sys.exit(0)
# What a step, which is the same on all workers, reads to learn how fast its worker is.
place = run / "places" / name
place.mkdir(parents=True, exist_ok=True)
os.chdir(place)
pathlib.Path("slowness").write_text("30" if (disturb, name) == ("slow worker", "worker-1") else "1")
penstock.ps.serve_unless_chief()

def tell(what, how):
    pid = sorted(run.glob(f"{what}.pid*"))[-1]
    os.kill(int(pid.read_text()), how)

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    seen = tf.Variable(tf.zeros([1000], tf.int64))

guarded = options.get("guarded", False)
def step(batch):
    # Some work first, so that a worker that is killed is most likely in the midst of it.
    work = tf.ones([200, 200])
    for _ in tf.range(4 * tf.strings.to_number(tf.io.read_file("slowness"), tf.int32)):
        work = tf.tanh(tf.matmul(work, work) * 0.01)
    with tf.control_dependencies([work]):
        ids = tf.identity(batch["id"])
    if disturb == "fail":
        tf.debugging.assert_less(tf.reduce_max(batch["id"]), tf.constant(900, tf.int64), "an id of the last hundred")
    update = lambda: seen.scatter_add(tf.IndexedSlices(tf.ones_like(ids), ids))
    if guarded:
        return update
    update()

def disturber():
    def trained(rows):
        while int(np.sum(seen.numpy())) < rows:
            time.sleep(0.01)
    if disturb == "kill worker":
        for rows in (200, 550):
            trained(rows)
            tell("worker-1", signal.SIGKILL)
            lives = len(list(run.glob("worker-1.pid*")))
            while len(list(run.glob("worker-1.pid*"))) == lives:
                time.sleep(0.01)
    elif disturb == "freeze worker":
        trained(100)
        tell("worker-1", signal.SIGSTOP)
    elif disturb.startswith("kill ") and is_first_life:
        trained(100)
        tell(disturb[5:], signal.SIGKILL)

threading.Thread(target=disturber, daemon=True).start()
feed = penstock.feed(dataset="train", batch_size=20, shuffle="rows", seed=4, epochs=2, columns=["id"])
for epoch in range(options.pop("epochs", 1)):
    counts = penstock.ps.epoch(coordinator, feed.epoch(epoch), step, **options)
    (run / f"counts-{epoch}.json").write_text(json.dumps(counts._asdict()))
np.save(run / "seen.npy", seen.numpy())
"""


class Job(NamedTuple):
    code: int
    said: str
    run: Path
    summary: dict[str, Any]

    def counts(self, epoch: int = 0) -> dict[str, Any]:
        return json.loads((self.run / f"counts-{epoch}.json").read_text())

    def seen(self) -> list[int]:
        import numpy as np

        return np.load(self.run / "seen.npy").tolist()

    def restarts(self, name: str) -> int:
        (task,) = [task for task in self.summary["tasks"] if f"{task['role']}:{task['index']}" == name]
        return task["restarts"]


@pytest.fixture
def job(binary, data, tmp_path):
    """Runs a job of a chief, two workers and a parameter server; nothing of it may be left."""

    def start(disturb: str = "nothing", *flags: str, **options: Any) -> Job:
        script, run = tmp_path / "job.py", tmp_path / "run"
        script.write_text(JOB)
        command = [binary, "run", "--chief", "--num-workers=2", "--num-ps=1", f"--input=train={data}", *flags]
        command += [f"--python={sys.executable}", f"--run-dir={run}", script, disturb, json.dumps(options)]
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=env)
        said = done.stdout + done.stderr
        pids = [int(file.read_text()) for file in run.glob("*.pid*")]
        assert pids and not running(pids), said
        return Job(done.returncode, said, run, json.loads((run / "summary.json").read_text()))

    return start


def test_every_row_is_trained_once_an_epoch_and_the_servers_end_with_the_chief(job):
    done = job("nothing", "--evaluator", epochs=2)
    assert done.code == 0, done.said
    assert done.seen() == [2] * ROWS
    for epoch in range(2):
        counts = done.counts(epoch)
        assert (counts["rows"], counts["steps"], counts["repeated_rows"]) == (ROWS, 100, 0)
        assert counts["rows_by_rank"] == [ROWS // 2] * 2
        assert counts["empty"] <= 4, "the end was held until all was done"
    assert {task["state"] for task in done.summary["tasks"]} == {"succeeded", "stopped"}


def test_a_killed_worker_comes_back_and_no_row_is_lost(job):
    done = job("kill worker")
    assert done.code == 0, done.said
    assert done.restarts("worker:1") == 2
    counts, seen = done.counts(), done.seen()
    assert min(seen) == 1, "none is lost"
    assert counts["steps"] == 100
    # Twice only what was under way at a death, and counted: here the kills come right behind an update.
    assert sum(seen) - ROWS <= counts["repeated_rows"] <= 2 * 2 * 10
    assert counts["rows"] == ROWS


def test_under_guard_a_killed_worker_repeats_nothing(job):
    done = job("kill worker", guarded=True)
    assert done.code == 0, done.said
    assert done.restarts("worker:1") == 2
    assert done.seen() == [1] * ROWS
    counts = done.counts()
    assert (counts["rows"], counts["steps"], counts["repeated_rows"]) == (ROWS, 100, 0)


def test_a_worker_killed_at_its_start_is_started_again(job):
    done = job("at start worker-1")
    assert done.code == 0, done.said
    assert (done.restarts("worker:1"), done.seen()) == (1, [1] * ROWS)


@pytest.mark.parametrize("when", ["at start", "kill"])
@pytest.mark.parametrize("task", ["chief", "ps"])
def test_a_killed_chief_or_server_takes_all_along_and_all_begin_anew(job, task, when):
    done = job(f"{when} {task}-0")
    assert done.code == 0, done.said
    assert f"{task}:0 was killed by SIGKILL" in done.said
    assert [done.restarts(name) for name in ("chief:0", "ps:0", "worker:0", "worker:1")] == [1] * 4
    assert done.seen() == [1] * ROWS, "the feed begins anew with the model"


def test_a_slow_worker_trains_all_of_its_share(job):
    done = job("slow worker")
    assert done.code == 0, done.said
    assert done.seen() == [1] * ROWS
    assert done.counts()["rows_by_rank"] == [ROWS // 2] * 2


@pytest.mark.parametrize("task", ["chief", "ps"])
def test_without_restarts_the_first_death_ends_the_job_by_name(job, task):
    done = job(f"kill {task}-0", "--max-restarts=0")
    assert done.code == 137, done.said
    assert f"failed: {task}:0 was killed by SIGKILL" in done.said


def test_a_step_that_fails_ends_the_epoch_with_its_own_error(job):
    done = job("fail")
    assert done.code == 1, done.said
    assert "an id of the last hundred" in done.said


def test_a_worker_that_never_returns_ends_the_epoch_with_its_rank(job):
    done = job("freeze worker", deadline=5)
    assert done.code == 1, done.said
    assert "failed: chief:0 exited with code 1" in done.said
    assert "rank 1 (" in done.said, done.said


TF1_JOB = """
import json, os, pathlib
import penstock, tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
cluster = tf.train.ClusterSpec(config["cluster"])
server = tf1.train.Server(cluster, job_name=job, task_index=index)
if job == "ps":
    server.join()
mine = f"/job:worker/task:{index}"
with tf1.device(tf1.train.replica_device_setter(worker_device=mine, cluster=cluster)):
    step = tf1.train.get_or_create_global_step()
    seen = tf1.get_variable("seen", [1000], tf.int64, tf1.zeros_initializer(), use_resource=True)
    feed = penstock.feed(dataset="train", batch_size=20, shuffle="rows", columns=["id", "name"])
    with tf1.device(mine + "/cpu:0"):
        batch = feed.tf1_queue()
    update = seen.scatter_add(tf.IndexedSlices(tf.ones_like(batch["id"]), batch["id"]))
    with tf1.control_dependencies([update]):
        train = step.assign_add(1)
filters = tf1.ConfigProto(device_filters=["/job:ps", mine], inter_op_parallelism_threads=1)
ids = []
with tf1.train.MonitoredTrainingSession(master=server.target, is_chief=index == 0, config=filters) as session:
    while not session.should_stop():
        trained, names, _ = session.run([batch["id"], batch["name"], train])
        assert [name.decode() for name in names] == [f"row-{i}" for i in trained]
        ids += trained.tolist()
pathlib.Path(os.environ["PENSTOCK_RUN_DIR"], f"ids-{index}.json").write_text(json.dumps(ids))
"""


def test_a_tf1_queue_feeds_every_row_once_and_ends_cleanly(binary, data, tmp_path):
    script, run = tmp_path / "job.py", tmp_path / "run"
    script.write_text(TF1_JOB)
    command = [binary, "run", "--num-workers=2", "--num-ps=1", f"--input=train={data}"]
    command += [f"--python={sys.executable}", f"--run-dir={run}", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    shares = [json.loads((run / f"ids-{index}.json").read_text()) for index in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(ROWS))
    assert len(shares[0]) == ROWS // 2
