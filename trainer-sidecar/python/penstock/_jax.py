"""A feed as batches of JAX's arrays.

In: a feed. Out: dicts of ``jax.Array`` over shared memory, handed over by DLPack. The promise: JAX's arrays cannot be
written, so neither can a slot be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _batch, _native
from ._batch import Batch
from ._feed import FeedIterator
from .errors import ArgumentError

if TYPE_CHECKING:
    from ._feed import Feed


class JaxBatches:
    """Batches of a feed as dicts of JAX's arrays; each iteration is a pass. Made by :meth:`penstock.Feed.jax`.

    :meth:`penstock.Feed.state_dict` knows the position of the newest pass.
    """

    def __init__(self, feed: "Feed") -> None:
        self._feed = feed

    def __iter__(self) -> FeedIterator:
        self._feed._check_open()
        return FeedIterator(self._feed, _column)

    def __len__(self) -> int:
        """Batches of a pass. TypeError for an endless feed."""
        return len(self._feed)


def batches(feed: "Feed") -> JaxBatches:
    """See :meth:`penstock.Feed.jax`."""
    for column in feed.schema.values():
        if column.dtype in ("string", "bytes"):
            raise ArgumentError(
                f"feed '{feed.name}': column {column.name} is {column.dtype}, for which JAX has no type: leave it out with columns=, "
                f"or make a number of it with select=[…, \"hash_bucket({column.name}, 1000) AS {column.name}\"]"
            )
    return JaxBatches(feed)


# In a function of JAX's a batch is the dict that it is: where it comes from would make every step another function.
jax.tree_util.register_pytree_node(Batch, lambda batch: (list(batch.values()), tuple(batch)), lambda names, arrays: dict(zip(names, arrays)))


def _column(owner: _batch.Owner, column: _native.ColumnStruct, name: str) -> Any:
    if column.dtype == _batch.BFLOAT16:
        return jax.dlpack.from_dlpack(_batch.numbers(owner, column, np.dtype(np.uint16), read_only=False)).view(jnp.bfloat16)
    # Said to be writable, for DLPack as most speak it has no word for what is not.
    return jax.dlpack.from_dlpack(_batch.numbers(owner, column, _batch.numpy_dtype(column.dtype, name), read_only=False))
