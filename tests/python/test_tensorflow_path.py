"""The whole path into a real TensorFlow: files, gateway, sidecar, tensors; and what breaks on the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import penstock
from conftest import ROWS, gone_within, running
from penstock import _daemons

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


def test_rows_masks_and_padding_reach_the_model_as_they_are(tf, data):
    order = dict(batch_size=64, shuffle="rows", seed=2, epochs=2, remainder="pad", nulls="mask")
    with penstock.feed(data, **order) as feed:
        dataset = feed.tf()
        assert dataset.element_spec["age_valid"] == tf.TensorSpec([64], tf.bool)
        assert dataset.element_spec["image"] == tf.TensorSpec([64, 6], tf.uint8)
        seen = []
        for batch in dataset:
            ids = batch["id"].numpy()
            np.testing.assert_array_equal(batch["age_valid"], ids % 3 != 0)
            np.testing.assert_array_equal(tf.boolean_mask(batch["age"], batch["age_valid"]), ids[ids % 3 != 0])
            np.testing.assert_array_equal(batch["image"], np.repeat(ids[:, None] % 256, 6, axis=1))
            assert batch["name"].numpy().tolist() == [f"row-{i}".encode() for i in ids]
            seen.append(ids[batch["_valid"].numpy()].tolist())
        assert len(seen) == len(feed) == 2 * feed.steps_per_epoch
        first, second = (sum(seen[e * feed.steps_per_epoch :][: feed.steps_per_epoch], []) for e in (0, 1))
        assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second
        assert [i for batch in feed for i in batch["id"][batch["_valid"]].tolist()] == first + second


def test_a_short_last_batch_has_an_open_shape(tf, data):
    with penstock.feed(data, batch_size=300, remainder="keep", columns=["id"]) as feed:
        dataset = feed.tf()
        assert dataset.element_spec == {"id": tf.TensorSpec([None], tf.int64)}
        assert [int(tf.shape(batch["id"])[0]) for batch in dataset] == [300, 300, 300, 100]


def test_fit_of_several_epochs_takes_one_feed(tf, data):
    with penstock.feed(data, batch_size=100, shuffle="rows", epochs=3, columns=["id", "image"]) as feed:
        inputs = feed.tf().map(lambda batch: (tf.cast(batch["image"], tf.float32) / 255, tf.cast(batch["id"] % 2, tf.float32)))
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid")])
        model.compile("sgd", "binary_crossentropy")
        model.fit(inputs, epochs=3, steps_per_epoch=feed.steps_per_epoch, verbose=0)
        assert int(model.optimizer.iterations) == 30 == len(feed)


def test_a_cursor_by_count_of_steps_goes_on(tf, data):
    order = dict(batch_size=100, shuffle="rows", seed=1, epochs=2, columns=["id"])
    with penstock.feed(data, **order) as feed:
        whole = [batch["id"].numpy().tolist() for batch in feed.tf()]
        cursor = json.loads(json.dumps(feed.cursor(13)))
    with penstock.feed(data, **order, start=cursor) as feed:
        assert [batch["id"].numpy().tolist() for batch in feed.tf()] == whole[13:]
        assert feed.cursor(7)["epoch"] == 2


def test_a_killed_sidecar_is_an_error_within_five_seconds(tf, data):
    with penstock.feed(data, batch_size=10, columns=["id"], epochs=None, name="train") as feed:
        iterator = iter(feed.tf())
        next(iterator)
        os.kill(_daemons.of_this_process().sidecar.process.pid, signal.SIGKILL)
        started = time.monotonic()
        error = (tf.errors.UnavailableError, tf.errors.InternalError)
        with pytest.raises(error, match="feed 'train': the sidecar at .* died"):
            for _ in iterator:
                pass
        assert time.monotonic() - started < 5


TRAINER = """
import sys, penstock, tensorflow as tf
from penstock import _daemons
feed = penstock.feed(sys.argv[1], batch_size=10, columns=["id"], epochs=None)
iterator = iter(feed.tf(prefetch=4))
held = [next(iterator) for _ in range(5)]
daemons = _daemons.of_this_process()
print(daemons.sidecar.process.pid, *(daemon.process.pid for daemon, _ in daemons.gateways.values()), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["returns", "killed"])
def test_nothing_is_left_of_a_trainer_however_it_ends(data, how):
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2 and running(pids) == pids
    if how == "killed":
        process.kill()
    process.communicate("\n", timeout=60)
    assert process.returncode == (0 if how == "returns" else -signal.SIGKILL)
    assert gone_within(5, pids), "shared memory goes with the processes that map it"


WORKER = """
import json, os, sys
import penstock, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, world = int(sys.argv[2]), int(sys.argv[3])
feed = penstock.feed(
    sys.argv[1], dataset="train", batch_size=96, shuffle="rows", seed=9, remainder="pad", columns=["id", "image"],
    rank=rank, world_size=world,
)
inputs = strategy.distribute_datasets_from_function(lambda context: feed.tf())
with strategy.scope():
    weight = tf.Variable(1.0)

@tf.function
def step(batch):
    def replica(batch):
        context = tf.distribute.get_replica_context()
        # Every step meets the other worker: uneven shares would hang here.
        rows = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(tf.cast(batch["_valid"], tf.int64)))
        weight.assign_add(tf.reduce_mean(tf.cast(batch["image"], tf.float32)))
        return rows, batch["id"], batch["_valid"]
    return strategy.run(replica, args=(batch,))

ids, rows, shapes = [], [], set()
for batch in inputs:
    total, shared, valid = step(batch)
    rows.append(int(total))
    ids += tf.boolean_mask(shared, valid).numpy().tolist()
    shapes.add(tuple(shared.shape))
print(json.dumps({"ids": ids, "rows": rows, "shapes": sorted(shapes)}), flush=True)
feed.close()
"""


def held_port() -> socket.socket:
    """A port that stays ours: TensorFlow binds it beside us."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held


def test_two_workers_of_a_strategy_share_every_batch(gateway):
    ports = [held_port() for _ in range(2)]
    cluster = {"worker": [f"127.0.0.1:{port.getsockname()[1]}" for port in ports]}
    workers = []
    for rank in range(2):
        task = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
        env = {**os.environ, "TF_CONFIG": json.dumps(task), "TF_GRPC_REUSE_PORT": "true"}
        command = [sys.executable, "-c", WORKER, gateway, str(rank), "2"]
        workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
    outputs = [worker.communicate(timeout=120) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    reports = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    assert sorted(reports[0]["ids"] + reports[1]["ids"]) == list(range(ROWS))
    assert reports[0]["rows"] == reports[1]["rows"] == [96] * 10 + [40]
    assert reports[0]["shapes"] == reports[1]["shapes"] == [[48]]
