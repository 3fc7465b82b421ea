"""`penstock run --tf1-compat`: a program of TensorFlow 1, unchanged, in the TensorFlow that is installed."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

#: In the style of its time: cluster and task by flags, the data by the tutorials' reader.
PROGRAM = """
import json, os
import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.framework import ops

flags = tf.app.flags
for name in ("job_name", "ps_hosts", "worker_hosts", "data_dir"):
    flags.DEFINE_string(name, None, name)
flags.DEFINE_integer("task_index", None, "task")
FLAGS = flags.FLAGS

def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    mine = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(tf.train.replica_device_setter(worker_device=mine, cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        images, labels = tf.placeholder(tf.float32, [None, 16]), tf.placeholder(tf.float32, [None, 10])
        weights = tf.get_variable("weights", [16, 10], initializer=tf.zeros_initializer())
        loss = tf.losses.softmax_cross_entropy(labels, tf.matmul(images, weights))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
    data = input_data.read_data_sets(FLAGS.data_dir, one_hot=True, validation_size=100)
    config = tf.ConfigProto(device_filters=["/job:ps", mine])
    hooks, losses = [tf.train.StopAtStepHook(last_step=100)], []
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, hooks=hooks, config=config) as session:
        while not session.should_stop():
            batch = data.train.next_batch(50)
            losses.append(float(session.run([loss, train], {images: batch[0], labels: batch[1]})[0]))
    with open(os.path.join(os.environ["PENSTOCK_RUN_DIR"], "losses-%d.json" % FLAGS.task_index), "w") as file:
        json.dump(losses, file)

tf.app.run()
"""


def idx(path: Path, array: np.ndarray) -> None:
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


@pytest.fixture
def digits(tmp_path) -> Path:
    """MNIST's four files, of 4 × 4 pixels of which one, lit, tells the digit."""
    place = tmp_path / "digits"
    place.mkdir()
    for name, rows in (("train", 1000), ("t10k", 200)):
        labels = (np.arange(rows) % 10).astype(np.uint8)
        images = np.zeros([rows, 16], np.uint8)
        images[np.arange(rows), labels] = 255
        idx(place / f"{name}-images-idx3-ubyte.gz", images.reshape(rows, 4, 4))
        idx(place / f"{name}-labels-idx1-ubyte.gz", labels)
    return place


def test_a_program_of_tensorflow_1_trains_unchanged(binary, digits, tmp_path):
    script, run = tmp_path / "program.py", tmp_path / "run"
    script.write_text(PROGRAM)
    command = [binary, "run", "--tf1-compat", "--arg-style=tf1", "--num-workers=2", "--num-ps=1"]
    command += [f"--python={sys.executable}", f"--run-dir={run}", script, f"--data_dir={digits}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [json.loads((run / f"losses-{index}.json").read_text()) for index in range(2)]
    assert sum(map(len, losses)) >= 100
    assert losses[0][0] == pytest.approx(np.log(10), abs=1e-4), "no weight is set yet"
    assert min(losses[0] + losses[1]) < 1


def test_the_reader_hands_out_every_image_once_an_epoch(digits):
    shims = Path(__file__).resolve().parents[2] / "launcher/src/backend/local/tf1"
    sys.path.insert(0, str(shims))
    try:
        import penstock_tf1_mnist as reader
    finally:
        sys.path.remove(str(shims))
    data = reader.read_data_sets(str(digits), one_hot=True, validation_size=300, seed=1)
    assert [part.num_examples for part in data] == [700, 300, 200]
    images, labels = zip(*(data.train.next_batch(100) for _ in range(7)))
    assert data.train.epochs_completed == 0
    assert np.concatenate(labels).sum(axis=0).tolist() == [70] * 10
    assert (np.concatenate(images).argmax(axis=1) == np.concatenate(labels).argmax(axis=1)).all()
    assert [part.shape for part in data.train.next_batch(900)] == [(900, 16), (900, 10)]
    assert data.train.epochs_completed == 2
    assert data.test.next_batch(10, shuffle=False)[1].argmax(axis=1).tolist() == list(range(10))
    with pytest.raises(IOError, match="downloads nothing: put train-images-idx3-ubyte.gz there"):
        reader.read_data_sets("/absent")
