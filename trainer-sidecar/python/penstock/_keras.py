"""A Keras callback by which a model is never restored without the position of its feed.

In: a feed, a compiled model, a directory. Out: a callback of that model's own Keras, 3 or tf_keras. The promise: one
checkpoint holds the weights, the optimizer and the position that belong together, at the end of an epoch of ``fit``.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from .errors import ArgumentError

if TYPE_CHECKING:
    from ._feed import Feed


class KerasCheckpoint:
    """Made by :meth:`penstock.Feed.keras_checkpoint`, there with the callback of the model's Keras as its other base."""

    def __init__(self, feed: "Feed", model: Any, directory: str, keep: int) -> None:
        super().__init__()
        if not model.built or getattr(model, "optimizer", None) is None:
            raise ArgumentError("the model has no weights or no optimizer yet: build and compile it before its checkpoint")
        # Before the first step an optimizer has nothing to restore into.
        model.optimizer.build(model.trainable_variables)
        self._position = feed.position()
        self._seen = 0
        self._begins = True
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer, feed=self._position)
        self._restored = tf.train.latest_checkpoint(directory)
        if self._restored is not None:
            checkpoint.restore(self._restored).assert_existing_objects_matched()
        rank = feed.description["rank"]
        own = directory if rank == 0 else os.path.join(directory, f".rank-{rank}")
        # The strategies of several workers want all of them to save; one is enough to restore.
        self._manager = tf.train.CheckpointManager(checkpoint, own, keep if rank == 0 else 1)

    @property
    def epoch(self) -> int:
        """Epochs trained, for ``fit(initial_epoch=…)``."""
        return int(self._position.cursor["epoch"])

    def on_train_begin(self, logs: Any = None) -> None:
        """The next epoch is the first of a ``fit``."""
        self._begins = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Batches are counted from 0 again. A ``fit`` that would train again what a restored model was trained on is refused."""
        if self._begins and self._restored is not None and epoch != self.epoch:
            raise ArgumentError(
                f"fit begins with epoch {epoch}, and {self._restored} is a model after {self.epoch}: give fit initial_epoch=checkpoint.epoch"
            )
        self._begins = False
        self._seen = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts; with ``steps_per_execution`` Keras tells the last of several batches."""
        self._position.advance(batch + 1 - self._seen)
        self._seen = batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves."""
        self._manager.save()


def checkpoint(feed: "Feed", model: Any, directory: str, keep: int) -> KerasCheckpoint:
    """See :meth:`penstock.Feed.keras_checkpoint`."""
    replica = os.environ.get("PENSTOCK_REPLICA", "0")
    if replica != "0":
        # Of a model in parts each process saves and restores its own.
        directory = os.path.join(directory, f"replica-{replica}")
    bases = (KerasCheckpoint, _keras_of(model).callbacks.Callback)
    made: KerasCheckpoint = type("KerasCheckpoint", bases, {})(feed, model, directory, keep)
    return made


def _keras_of(model: Any) -> Any:
    """The Keras that a model is of: several can be installed side by side."""
    packages = [base.__module__.partition(".")[0] for base in type(model).__mro__]
    for package in packages:
        if package in ("keras", "tf_keras"):
            return importlib.import_module(package)
    raise ArgumentError(f"{type(model).__name__} is no Keras model: give a keras.Model or a tf_keras.Model")
