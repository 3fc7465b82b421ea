"""Learns which flights arrive late, with embeddings on a parameter server, fed by penstock.

Run by `penstock run --file job.yaml`: a chief, two workers, a parameter server. Beside the model the server
keeps evidence: how often each row was trained. `report.py` judges it.
"""

import argparse
import json
import os
import pathlib

import numpy as np
import penstock
import penstock.ps
import tensorflow as tf

#: Minutes from which on a flight counts as late.
LATE = 15
#: Buckets of each feature that is embedded.
BUCKETS = {"month": 13, "weekday": 7, "hour": 24, "carrier": 64, "origin": 8, "dest": 512, "tailnum": 8192}
WIDTH, HIDDEN = 8, 32
ROWS = 336_776
#: What a null becomes: an unknown plane, no delay at departure; whether a flight arrived at all is a mask.
NULLS = {"tailnum": "", "dep_delay": 0, "arr_delay": "mask"}


def initial(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    inputs = WIDTH * len(BUCKETS) + 2
    tables = {name: random.normal(0, 0.05, [size, WIDTH]) for name, size in BUCKETS.items()}
    tables["hidden"] = random.normal(0, inputs**-0.5, [inputs, HIDDEN])
    tables["hidden_bias"] = np.zeros(HIDDEN)
    tables["out"] = random.normal(0, HIDDEN**-0.5, [HIDDEN, 1])
    tables["out_bias"] = np.zeros(1)
    return {name: table.astype(np.float32) for name, table in tables.items()}


def places(batch) -> dict[str, tf.Tensor]:
    """Which row of each table a flight needs."""
    texts = ("carrier", "origin", "dest", "tailnum")
    return {
        name: tf.strings.to_hash_bucket_fast(batch[name], size) if name in texts else tf.cast(batch[name], tf.int64)
        for name, size in BUCKETS.items()
    }


def logits(embedded: dict[str, tf.Tensor], batch, dense) -> tf.Tensor:
    numbers = [
        tf.clip_by_value(tf.cast(batch["dep_delay"], tf.float32) / 30.0, -1.0, 4.0),
        tf.cast(batch["distance"], tf.float32) / 1000.0,
    ]
    inputs = tf.concat([*embedded.values(), *(number[:, tf.newaxis] for number in numbers)], axis=1)
    hidden = tf.nn.relu(inputs @ dense["hidden"] + dense["hidden_bias"])
    return (hidden @ dense["out"] + dense["out_bias"])[:, 0]


class Model:
    """Variables on the parameter server, trained by Adagrad."""

    def __init__(self, strategy: tf.distribute.Strategy, seed: int, rate: float) -> None:
        self.rate = rate
        with strategy.scope():
            self.weights = {name: tf.Variable(value) for name, value in initial(seed).items()}
            self.squares = {name: tf.Variable(tf.fill(w.shape, 0.1)) for name, w in self.weights.items()}
            self.seen = tf.Variable(tf.zeros([ROWS], tf.int32))

    def step(self, batch) -> None:
        where = places(batch)
        rows = {name: tf.gather(self.weights[name], where[name]) for name in BUCKETS}
        dense = {name: tf.convert_to_tensor(w) for name, w in self.weights.items() if name not in BUCKETS}
        # A flight that never arrived was neither late nor in time: it weighs nothing.
        weight = tf.cast(batch["arr_delay_valid"], tf.float32)
        late = tf.cast(batch["arr_delay"] > LATE, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch([rows, dense])
            losses = tf.nn.sigmoid_cross_entropy_with_logits(late, logits(rows, batch, dense))
            loss = tf.reduce_sum(losses * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)
        of_rows, of_dense = tape.gradient(loss, [rows, dense])
        for name, gradient in of_rows.items():
            # Rows that a batch needs twice get the sum.
            unique, position = tf.unique(where[name])
            summed = tf.math.unsorted_segment_sum(gradient, position, tf.size(unique))
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                **self._slots(name), lr=self.rate, epsilon=1e-7, grad=summed, indices=unique
            )
        for name, gradient in of_dense.items():
            tf.raw_ops.ResourceApplyAdagradV2(**self._slots(name), lr=self.rate, epsilon=1e-7, grad=gradient)
        self.seen.scatter_add(tf.IndexedSlices(tf.ones_like(batch["id"], tf.int32), batch["id"]))

    def _slots(self, name: str) -> dict[str, tf.Tensor]:
        return {"var": self.weights[name].handle, "accum": self.squares[name].handle}


def held_out(weights: dict[str, np.ndarray]) -> dict[str, float]:
    """Accuracy over the flights that arrived, beside the answer that is always the same."""
    weights = {name: tf.constant(weight) for name, weight in weights.items()}
    right, late, rows = 0, 0, 0
    # All of them, whichever task asks.
    whole = {"rank": 0, "world_size": 1, "remainder": "keep"}
    for batch in penstock.feed(dataset="held-out", batch_size=8192, nulls=NULLS, **whole):
        batch = {name: tf.constant(column) for name, column in batch.items()}
        embedded = {name: tf.gather(weights[name], place) for name, place in places(batch).items()}
        guesses = logits(embedded, batch, weights).numpy() > 0
        arrived, was_late = batch["arr_delay_valid"].numpy(), batch["arr_delay"].numpy() > LATE
        right += int(((guesses == was_late) & arrived).sum())
        late += int((was_late & arrived).sum())
        rows += int(arrived.sum())
    return {"accuracy": right / rows, "baseline": max(late, rows - late) / rows, "held_out_rows": rows}


def tell(result: dict) -> None:
    print(
        f"held-out accuracy {result['accuracy']:.1%} on {result['held_out_rows']:,} flights; "
        f"always in time: {result['baseline']:.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=2048, help="of all workers together")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    # Workers and the parameter server stay in here until the launcher ends them.
    penstock.ps.serve_unless_chief()
    run = pathlib.Path(os.environ["PENSTOCK_RUN_DIR"])
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    model = Model(strategy, args.seed, args.learning_rate)
    feed = penstock.feed(
        dataset="flights",
        batch_size=args.batch_size,
        shuffle="rows",
        seed=args.seed,
        epochs=args.epochs,
        remainder="keep",
        nulls=NULLS,
    )
    print(feed)
    epochs, seen = [], []
    step = model.step
    for epoch in range(args.epochs):
        counts = penstock.ps.epoch(coordinator, feed.epoch(epoch), step)
        epochs.append(counts._asdict())
        seen.append(model.seen.numpy())
        print(f"epoch {epoch}: {counts.rows:,} rows in {counts.steps} steps, {counts.rows / counts.seconds:,.0f} rows/s")
    np.save(run / "seen.npy", seen)
    result = {**held_out({name: weight.numpy() for name, weight in model.weights.items()}), "epochs": epochs}
    (run / "result.json").write_text(json.dumps(result))
    tell(result)


if __name__ == "__main__":
    main()
