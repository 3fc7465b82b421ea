"""The model of `train.py` as TensorFlow 1 trains it: between-graph replication, a feed as an input queue.

Run by `penstock run --file job_tf1.yaml`: two workers, a parameter server. The server counts how often each row
was trained, each worker keeps the ids that came out of its queue, and worker 0 tests the model when all
are done. `report.py` judges them.
"""

import argparse
import json
import os
import pathlib
import time
from typing import NamedTuple

import numpy as np
import penstock
import tensorflow as tf

import train

tf1 = tf.compat.v1


class Graph(NamedTuple):
    """What a worker runs; the queues are the server's, where the workers meet."""

    ids: tf.Tensor
    update: tf.Operation
    weights: dict[str, tf.Variable]
    seen: tf.Variable
    tell_ready: tf.Operation
    wait_ready: tf.Operation
    tell_finished: tf.Operation
    wait_finished: tf.Tensor


def build(feed: penstock.Feed, worker: str, cluster: tf.train.ClusterSpec, seed: int, rate: float) -> Graph:
    with tf1.device(tf1.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        weights = {
            name: tf1.get_variable(name, initializer=value, use_resource=True)
            for name, value in train.initial(seed).items()
        }
        zeros = tf1.zeros_initializer()
        seen = tf1.get_variable("seen", [train.ROWS], tf.int32, zeros, trainable=False, use_resource=True)
        with tf1.device(f"{worker}/cpu:0"):
            batch = feed.tf1_queue()
        rows = {name: tf.gather(weights[name], place) for name, place in train.places(batch).items()}
        # A flight that never arrived was neither late nor in time: it weighs nothing.
        weight = tf.cast(batch["arr_delay_valid"], tf.float32)
        late = tf.cast(batch["arr_delay"] > train.LATE, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(late, train.logits(rows, batch, weights))
        loss = tf.reduce_sum(losses * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)
        trained = tf1.train.AdagradOptimizer(rate).minimize(loss, tf1.train.get_or_create_global_step())
        with tf1.control_dependencies([trained]):
            update = seen.scatter_add(tf.IndexedSlices(tf.ones_like(batch["id"], tf.int32), batch["id"]))
    with tf1.device("/job:ps/task:0/cpu:0"):
        workers = cluster.num_tasks("worker")
        ready, finished = (tf1.FIFOQueue(workers, tf.int32, [], shared_name=name) for name in ("ready", "finished"))
        return Graph(
            *(batch["id"], update.op, weights, seen),
            # Whoever has seen that all is ready leaves word for the next.
            *(ready.enqueue(0), ready.enqueue(ready.dequeue())),
            *(finished.enqueue(0), finished.dequeue()),
        )


def evidence(taken: list[tuple[float, np.ndarray]], epochs: int, steps_per_epoch: int) -> dict[str, np.ndarray]:
    """The ids of each epoch's rows, and when it was over, in seconds."""
    seconds, ids = zip(*taken)
    steps = [slice(n * steps_per_epoch, (n + 1) * steps_per_epoch) for n in range(epochs)]
    of_epochs = {f"ids-{n}": np.concatenate(ids[own]) for n, own in enumerate(steps)}
    return {**of_epochs, "ends": np.array([max(seconds[own]) for own in steps])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=2048, help="of all workers together")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    # That all of this is deprecated is known.
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf1.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        # Until the launcher ends it.
        server.join()
    run, worker = pathlib.Path(os.environ["PENSTOCK_RUN_DIR"]), f"/job:worker/task:{index}"
    feed = penstock.feed(
        dataset="flights",
        batch_size=args.batch_size,
        shuffle="rows",
        seed=args.seed,
        epochs=args.epochs,
        remainder="keep",
        nulls=train.NULLS,
    )
    # No worker waits for another one's devices.
    session_config = tf1.ConfigProto(device_filters=["/job:ps", worker])
    with tf.Graph().as_default():
        graph = build(feed, worker, cluster, args.seed, args.learning_rate)
        if index != 0:
            # A monitored session that is not the chief's looks every 30 s only whether there are variables.
            with tf1.Session(server.target, config=session_config) as session:
                session.run(graph.wait_ready)
        with tf1.train.MonitoredTrainingSession(server.target, is_chief=index == 0, config=session_config) as session:
            if index == 0:
                session.run(graph.tell_ready)
            taken, started = [], time.monotonic()
            # The end of the queue ends the session's block, in the midst of a step.
            while not session.should_stop():
                ids, _ = session.run([graph.ids, graph.update])
                taken.append((time.monotonic() - started, ids))
        np.savez(run / f"worker-{index}.npz", **evidence(taken, args.epochs, feed.steps_per_epoch))
        print(f"{sum(ids.size for _, ids in taken):,} rows in {len(taken)} steps, {taken[-1][0]:.1f} s")
        with tf1.Session(server.target, config=session_config) as session:
            session.run(graph.tell_finished)
            if index != 0:
                return
            for _ in range(cluster.num_tasks("worker")):
                session.run(graph.wait_finished)
            weights, seen = session.run([graph.weights, graph.seen])
    np.save(run / "seen.npy", seen)
    result = train.held_out(weights)
    (run / "result.json").write_text(json.dumps(result))
    train.tell(result)


if __name__ == "__main__":
    main()
