"""Trains a small network on handwritten digits with MultiWorkerMirroredStrategy, fed by penstock.

Run by `penstock run --file job.yaml`; the script says what it wants to be fed, and nothing of addresses,
ranks or shards. Beside training it keeps evidence: every id that arrived in a tensor, and how long each
step waited for its data. `report.py` judges it.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import penstock
import tensorflow as tf


def network() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(64,), dtype="float32"),
            tf.keras.layers.Rescaling(1 / 16),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


class Evidence:
    """What arrived in this worker's tensors, and when."""

    def __init__(self) -> None:
        self.ids, self.valid, self.waits, self.steps = [], [], [], []

    def save(self, path: pathlib.Path, steps_per_epoch: int) -> None:
        np.savez(
            path,
            ids=np.stack(self.ids),
            valid=np.stack(self.valid),
            wait_seconds=np.array(self.waits),
            step_seconds=np.array(self.steps),
            steps_per_epoch=steps_per_epoch,
        )


def train(strategy: tf.distribute.Strategy, args: argparse.Namespace) -> tuple[tf.keras.Model, Evidence, int]:
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.Adam(args.learning_rate)
        optimizer.build(model.trainable_variables)

    def replica_step(batch):
        # Under `pad` the last batch of an epoch is filled up by rows that came before: they count nothing.
        weight = tf.cast(batch["_valid"], tf.float32)
        with tf.GradientTape() as tape:
            logits = model(tf.cast(batch["image"], tf.float32), training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
            loss = tf.reduce_sum(losses * weight) / args.batch_size
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        optimizer.apply(gradients)
        return loss

    @tf.function
    def step(batch):
        losses = strategy.run(replica_step, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    feed = penstock.feed(
        dataset="digits",
        batch_size=args.batch_size,
        shuffle="rows",
        seed=args.seed,
        epochs=args.epochs,
        remainder="pad",
    )
    print(feed)
    evidence = Evidence()
    # This rank's share, iterated as it comes. `strategy.distribute_datasets_from_function(lambda _: feed.tf())`
    # gives the same batches, but asks all peers before every step whether there is another one; a feed's
    # steps are equal on all ranks, so there is nothing to ask.
    batches = iter(feed.tf())
    for number in range(feed.steps_per_epoch * args.epochs):
        begun = time.perf_counter()
        batch = next(batches)
        fed = time.perf_counter()
        loss = step(batch)
        loss = float(loss)
        done = time.perf_counter()

        evidence.ids.append(batch["id"].numpy().copy())
        evidence.valid.append(batch["_valid"].numpy().copy())
        evidence.waits.append(fed - begun)
        evidence.steps.append(done - fed)
        if (number + 1) % feed.steps_per_epoch == 0:
            print(f"epoch {number // feed.steps_per_epoch}: loss {loss:.4f}")
    assert next(batches, None) is None, "the feed has more steps than it said"
    return model, evidence, feed.steps_per_epoch


def held_out_accuracy(model: tf.keras.Model) -> tuple[float, float, int]:
    """Of the model, of the best answer that is always the same, and over how many rows."""
    right, labels = 0, []
    # Read whole by whoever asks, whatever the number of workers.
    held_out = penstock.feed(dataset="held-out", batch_size=128, remainder="keep", rank=0, world_size=1)
    for batch in held_out:
        guesses = model(batch["image"].astype(np.float32), training=False).numpy().argmax(axis=1)
        right += int((guesses == batch["label"]).sum())
        labels.append(batch["label"].copy())
    labels = np.concatenate(labels)
    return right / len(labels), np.bincount(labels).max() / len(labels), len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128, help="of all workers together")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    run = pathlib.Path(os.environ["PENSTOCK_RUN_DIR"])
    rank = int(os.environ["PENSTOCK_RANK"])
    tf.keras.utils.set_random_seed(args.seed)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    model, evidence, steps_per_epoch = train(strategy, args)
    evidence.save(run / f"evidence-{rank}.npz", steps_per_epoch)

    accuracy, baseline, rows = held_out_accuracy(model)
    weights = float(sum(tf.reduce_sum(tf.abs(v)).numpy() for v in model.trainable_variables))
    result = {"accuracy": accuracy, "baseline": baseline, "held_out_rows": rows, "weights": weights}
    (run / f"result-{rank}.json").write_text(json.dumps(result))
    print(f"held-out accuracy {accuracy:.1%} on {rows} rows; always the most frequent digit: {baseline:.1%}")


if __name__ == "__main__":
    main()
