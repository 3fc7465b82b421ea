"""Positions that are saved with a model, and training that goes on there."""

from __future__ import annotations

import json

import numpy as np
import pytest

import penstock
from conftest import ROWS

ORDER = dict(batch_size=100, shuffle="rows", seed=3, epochs=3, columns=["id"])


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def whole(data):
    with penstock.feed(data, **ORDER) as feed:
        return [batch["id"].tolist() for batch in feed]


def test_a_feed_remembers_what_it_gave_and_goes_on_behind_it(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        assert feed.state_dict() == feed.cursor()
        for batch in feed:
            if (batch.epoch, batch.step) == (1, 3):
                break
        state = json.loads(json.dumps(feed.state_dict()))
    assert (state["epoch"], state["step"]) == (1, 4)

    halves = []
    for rank in range(2):
        with penstock.feed(data, **ORDER, rank=rank, world_size=2) as feed:
            feed.load_state_dict(state)
            assert feed.state_dict() == state and len(feed) == len(whole) - 14
            halves.append([batch["id"].tolist() for batch in feed])
    assert [first + second for first, second in zip(*halves)] == whole[14:]


def test_only_the_newest_pass_counts(data):
    with penstock.feed(data, **ORDER) as feed:
        first, second = iter(feed), iter(feed)
        next(second)
        next(first), next(first)
        assert feed.state_dict()["step"] == 1


def test_the_position_of_another_feed_is_refused_and_changes_nothing(data, whole):
    with penstock.feed(data, **ORDER) as feed:
        cursor = feed.cursor(5)
        with pytest.raises(penstock.ArgumentError, match="seed"):
            feed.load_state_dict({**cursor, "seed": 4})
        with pytest.raises(penstock.ArgumentError, match="a feed with shuffle 'blocks'"):
            feed.load_state_dict({**cursor, "order": {"shuffle": "blocks"}})
        with pytest.raises(penstock.FeedError, match="snapshot"):
            feed.load_state_dict({**cursor, "snapshot": "0" * 64})
        assert next(iter(feed))["id"].tolist() == whole[0]


@pytest.mark.tensorflow
def test_a_tensorflow_checkpoint_holds_the_position(tf, data, whole, tmp_path):
    def train(steps):
        seen = tf.Variable(0, dtype=tf.int64)
        with penstock.feed(data, **ORDER) as feed:
            position = feed.position()
            manager = tf.train.CheckpointManager(tf.train.Checkpoint(seen=seen, feed=position), str(tmp_path), 2)
            manager.restore_or_initialize()
            fed = []
            for batch, _ in zip(feed.tf(prefetch=4), range(steps)):
                fed.append(batch["id"].numpy().tolist())
                seen.assign_add(tf.reduce_sum(batch["id"]))
                position.advance()
                if len(fed) == steps // 2:
                    manager.save()
        return fed, int(seen)

    first, _ = train(14)
    assert first == whole[:14]
    # What came after the checkpoint is trained again, by a model that has not seen it.
    second, seen = train(100)
    assert second == whole[7:]
    assert seen == 3 * ROWS * (ROWS - 1) // 2


@pytest.mark.tensorflow
def test_a_dataset_made_before_the_restoration_is_refused(tf, data, tmp_path):
    with penstock.feed(data, **ORDER) as feed:
        position = feed.position()
        position.advance(4)
        path = tf.train.Checkpoint(feed=position).save(str(tmp_path / "at"))
    with penstock.feed(data, **ORDER) as feed:
        dataset = feed.tf()
        with pytest.raises(penstock.ArgumentError, match="restore the checkpoint first"):
            tf.train.Checkpoint(feed=feed.position()).restore(path)
        del dataset


class Interrupted(Exception):
    pass


@pytest.mark.tensorflow
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_keras_goes_on_at_the_epoch_that_was_saved(tf, data, tmp_path, package):
    keras = pytest.importorskip(package)

    class Sum(keras.Model):
        """Knows the sum of all ids that it was trained on."""

        def __init__(self):
            super().__init__()
            self.seen = self.add_weight(name="seen", shape=(), dtype="int64", initializer="zeros", trainable=False)
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(tf.cast(inputs["id"][:, None], tf.float32) / ROWS)

        def train_step(self, batch):
            self.seen.assign_add(tf.reduce_sum(batch["id"]))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self(batch) ** 2)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            return {"loss": loss}

    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 16:
                raise Interrupted

    def train(callbacks, initial_epoch=None):
        model = Sum()
        model({"id": np.arange(2)})
        model.compile(keras.optimizers.Adam(1e-3), steps_per_execution=2)
        with penstock.feed(data, **ORDER) as feed:
            saved = feed.keras_checkpoint(model, tmp_path)
            began = saved.epoch
            model.fit(
                feed.tf(), epochs=3, initial_epoch=began if initial_epoch is None else initial_epoch,
                steps_per_epoch=feed.steps_per_epoch, verbose=0, callbacks=[saved, *callbacks],
            )
        return began, int(model.seen), int(model.optimizer.iterations)

    with pytest.raises(Interrupted):
        train([Interrupt()])
    # It would train the first epoch twice.
    with pytest.raises(penstock.ArgumentError, match="is a model after 1: give fit initial_epoch=checkpoint.epoch"):
        train([], initial_epoch=0)
    assert train([]) == (1, 3 * ROWS * (ROWS - 1) // 2, 30)
