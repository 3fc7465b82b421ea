"""A feed as a dataset of PyTorch's.

In: a feed. Out: dicts of tensors over shared memory, in this process or in the workers of a ``DataLoader``. The promise:
however many workers there are, every batch comes once and in the feed's order. Each worker opens a ring of its own at
the sidecar and is handed every n-th step; a ``DataLoader`` asks its workers in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from . import _batch, _native
from ._batch import Batch
from ._feed import FeedIterator
from .errors import ArgumentError

if TYPE_CHECKING:
    from ._feed import Feed

_LISTS = ("string", "bytes")


class TorchDataset(IterableDataset):  # type: ignore[misc, type-arg]
    """Batches of a feed as dicts of tensors. Made by :meth:`penstock.Feed.torch`.

    ``state_dict`` and ``load_state_dict`` are those that torchdata's ``StatefulDataLoader`` asks for. With any other loader
    a worker's position is that of what it read ahead: save the ``cursor`` of the last batch that was trained on, and
    give it to :meth:`load_state_dict` or to ``penstock.feed(start=…)``.
    """

    def __init__(self, feed: "Feed", writable: bool) -> None:
        super().__init__()
        self._feed = feed
        self._writable = writable
        self._loaded: Optional[Mapping[str, Any]] = None
        #: Of the newest pass the feed, among how many it is shared, and batches given.
        self._reached: "Optional[tuple[Feed, int, int]]" = None

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        index, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        feed = self._next_feed(count)
        # What is loaded counts for one pass: the next one is whole again.
        self._loaded = None
        self._reached = (feed, count, 0)
        return _Pass(self, FeedIterator(feed if count == 1 else feed._share(index, count), self._column))

    def __len__(self) -> int:
        """Batches of the next pass. TypeError for an endless feed."""
        return len(self._feed if self._loaded is None else self._feed._from(_cursor_of(self._loaded)))

    def loader(self, num_workers: int = 0, **options: Any) -> "DataLoader[Batch]":
        """A ``DataLoader`` whose batches are this dataset's, with their ``cursor``; ``options`` are its own.

        Each worker takes its part of the feed's ``memory``. What comes from a worker, torch copies into shared memory of
        its own, so that a worker pays off where it does more than hand on: see ``Feed.torch``.
        """
        return DataLoader(self, **{"batch_size": None, "collate_fn": _as_it_is, "num_workers": num_workers, **options})

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that the newest pass gave; in a worker, that of its share."""
        if self._reached is None or self._loaded is not None:
            return {"cursor": self._feed.cursor()} if self._loaded is None else dict(self._loaded)
        feed, count, given = self._reached
        return {"cursor": feed.cursor(given * count), "workers": count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on after this position: a ``state_dict``, or the ``cursor`` of a batch.

        Raises ArgumentError for the position of a feed in another order, and FeedError for one whose files are not
        served any more; the dataset then stays as it is.
        """
        self._feed._from(_cursor_of(state)).description
        self._loaded = dict(state)

    def _next_feed(self, count: int) -> "Feed":
        if self._loaded is None:
            return self._feed
        if self._loaded.get("workers", count) != count:
            raise ArgumentError(
                f"feed '{self._feed.name}': the position is one of {self._loaded['workers']} workers and there are {count}: "
                "load the cursor of the last batch instead, which goes on with any number"
            )
        return self._feed._from(_cursor_of(self._loaded))

    def _column(self, owner: _batch.Owner, column: _native.ColumnStruct, name: str) -> Any:
        if column.offsets:
            return _batch.objects(column).tolist()
        if column.dtype == _batch.BFLOAT16:
            tensor = torch.from_numpy(_batch.numbers(owner, column, np.dtype(np.int16), read_only=False)).view(torch.bfloat16)
        else:
            # Said to be writable, for torch would warn of every array that is not.
            tensor = torch.from_numpy(_batch.numbers(owner, column, _batch.numpy_dtype(column.dtype, name), read_only=False))
        return tensor.clone() if self._writable else tensor


class _Pass(Iterator[Batch]):
    """One pass over a dataset, which is told how far it got. It keeps no batch, as a generator would."""

    def __init__(self, dataset: TorchDataset, batches: FeedIterator) -> None:
        self._dataset = dataset
        self._batches = batches
        self._reached = dataset._reached
        assert self._reached is not None

    def __next__(self) -> Batch:
        batch = next(self._batches)
        if self._dataset._reached is self._reached:
            feed, count, given = self._reached
            self._dataset._reached = self._reached = (feed, count, given + 1)
        return batch


def dataset(feed: "Feed", writable: bool) -> TorchDataset:
    """See :meth:`penstock.Feed.torch`."""
    for column in feed.schema.values():
        if column.dtype not in _LISTS and not hasattr(torch, column.dtype):
            raise ArgumentError(
                f"feed '{feed.name}': column {column.name} is {column.dtype}, which torch {torch.__version__} does not have: "
                f"take it as another with select=[…, \"CAST({column.name} AS BIGINT) AS {column.name}\"], or leave it out with columns="
            )
    return TorchDataset(feed, writable)


def _cursor_of(state: Mapping[str, Any]) -> Mapping[str, Any]:
    cursor: Mapping[str, Any] = state.get("cursor", state)
    return cursor


def _as_it_is(batch: Batch) -> Batch:
    return batch
