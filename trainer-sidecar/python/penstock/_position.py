"""How far training has come, in TensorFlow's checkpoints.

What a ``tf.data`` pipeline has read ahead was not trained on, and only the training loop knows how far it is: it
counts its steps here, and the count is saved and restored with the model that the steps made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from .errors import ArgumentError

if TYPE_CHECKING:
    from ._feed import Feed


class Position(tf.train.experimental.PythonState):
    """Steps trained of a feed. Made by :meth:`penstock.Feed.position`; the same on every rank."""

    def __init__(self, feed: "Feed") -> None:
        self._feed = feed
        self._steps = 0

    @property
    def cursor(self) -> dict[str, Any]:
        """Where training goes on, for ``penstock.feed(start=…)``."""
        return self._feed.cursor(self._steps)

    def advance(self, steps: int = 1) -> None:
        """Says that the model has taken this many further steps."""
        self._steps += steps

    def serialize(self) -> str:
        """What TensorFlow saves."""
        return json.dumps(self.cursor)

    def deserialize(self, string_value: str) -> None:
        """Moves the feed to what TensorFlow restores; datasets made from now on go on there."""
        restored = json.loads(string_value)
        if restored != self._feed.cursor() and self._feed._has_datasets():
            raise ArgumentError(
                f"feed '{self._feed.name}' was made a dataset before its position was restored, and that dataset "
                "begins elsewhere: restore the checkpoint first, then call feed.tf()"
            )
        self._feed.load_state_dict(restored)
        self._steps = 0
