"""Penstock feeds training: batches of a Parquet dataset in an exact order, in shared memory.

    feed = penstock.feed("data/*.parquet", batch_size=256, shuffle="rows", epochs=3)
    for batch in feed: ...          # dict of numpy arrays
    for batch in feed.tf(): ...     # dict of TensorFlow tensors
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Union

from . import _request, _source
from ._batch import Batch
from ._feed import Column, Feed, FeedIterator
from ._native import Stats, stats
from ._ragged import Ragged
from .errors import (
    AllSlotsHeldError,
    ArgumentError,
    ClosedError,
    CopyWarning,
    FeedError,
    ForkedError,
    NativeError,
    PenstockError,
    SidecarError,
)

__version__ = "0.1.0"

__all__ = [
    "AllSlotsHeldError",
    "ArgumentError",
    "Batch",
    "ClosedError",
    "Column",
    "CopyWarning",
    "Feed",
    "FeedError",
    "FeedIterator",
    "ForkedError",
    "NativeError",
    "PenstockError",
    "Ragged",
    "SidecarError",
    "Stats",
    "feed",
    "stats",
]


def feed(
    source: _source.Source = None,
    *,
    dataset: Optional[_request.Dataset] = None,
    batch_size: int = 1024,
    columns: Optional[Sequence[str]] = None,
    shuffle: str = "none",
    seed: int = 0,
    epochs: Optional[int] = 1,
    remainder: str = "drop",
    nulls: _request.Nulls = None,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    start: Optional[Mapping[str, Any]] = None,
    lanes: Optional[int] = None,
    shuffle_bytes: Optional[int] = None,
    memory: Union[None, int, str] = None,
    filter: Optional[str] = None,
    select: _request.Select = None,
    exhausted: str = "first",
    compression: Optional[str] = None,
    units: _request.Units = None,
    codes: _request.Codes = None,
    name: Optional[str] = None,
) -> Feed:
    """A feed of a dataset.

    source
        A path, a glob or a directory of Parquet files, or a list of such, whose files then come in the list's order (a gateway and
        a sidecar are started for this process and end with it); ``grpc://HOST:PORT[,HOST:PORT]`` for running gateways, ``grpc+tls://`` for
        those with certificates (PENSTOCK_TLS_CA names the file of their authorities), ``grpc+unix:///PATH``
        for a socket of this machine; None in a task of ``penstock run``, whose environment says where. Several
        datasets are a dict of places, or of lists of them, by name, ``{"web": "web/*.parquet", "books": "books/"}``.
    dataset
        Which dataset of the gateway; may be left out in a task whose job has one input. Several are mixed by weights
        of any scale, ``{"web": 0.7, "books": 0.3}``: every batch holds the same number of rows of each, evenly
        spread, so that every rank sees them all. They need the same columns (``columns`` and ``select`` make them so;
        ``filter`` is one of all). No column says where a row comes from: write one into the files, with one value a dataset.
    exhausted
        When the epoch of several datasets ends: with the ``"first"`` that is used up, or once ``"all"`` have been.
        Each goes through epochs of its own, one after the other, and none of its rows comes twice in one of them; under
        ``"all"`` the smaller ones go through several within an epoch of all. A cursor keeps the place in each.
    batch_size
        Rows of the **global** batch, which all ranks consume together.
    columns
        Names in the order wanted; None for all. Columns of files go by name, in whatever order they lie; those that are fed, or
        that ``select`` and ``filter`` read, must be in all files with one type, others need not.
    select
        Instead of ``columns``, SQL expressions in the order wanted, ``["label", "log1p(price) AS price"]``, or by
        name, ``{"label": "label", "price": "log1p(price)"}``.
    filter
        A SQL condition, ``"x > 3 AND y IS NOT NULL"``: rows for which it is true are fed, as if there were no
        others. They are counted before the first step.
    shuffle
        ``"none"`` (file order), ``"blocks"`` (row groups change places) or ``"rows"`` (and rows inside
        windows of ``shuffle_bytes`` bytes in all). ``seed`` and the epoch decide the order.
    epochs
        Passes over the dataset; None for a feed without end.
    remainder
        What becomes of the rows that fill no batch: ``"drop"`` (of several datasets always that), ``"pad"`` (a last batch that repeats them;
        the bool column ``_valid`` says which rows count) or ``"keep"`` (a short last batch). Dropped are the last rows in file order
        (``shuffle="none"``), and else others every epoch, each row as often as any other, so that over the epochs all are trained on.
    nulls
        (Like ``units`` and ``codes``, of columns that are fed: a name that ``columns`` or ``select`` leaves out is refused, as a
        misspelt one is.) What a null becomes, by column or ``"*"``: ``"mask"`` (a bool column ``NAME_valid`` follows) or a
        value to fill in. A null that is not declared is an error, before the first step where the files' statistics tell of it.
    units
        What a decimal becomes, by column or ``"*"``: int64 in a unit, ``{"price": "0.01"}`` for cents, or the nearest
        ``"float64"``. Dates, times, timestamps and durations come as the integers of their Arrow type, in its unit, which ``penstock
        inspect`` tells: days of a date32, milliseconds of a date64 (though Parquet may hold days of both); ``"day"``, ``"s"``, ``"ms"``,
        ``"us"`` or ``"ns"`` makes them int64 in that unit. A value that is no whole number of its unit, or none that int64
        holds, is an error that names column, value and step. What ``nulls`` fills in counts in the unit.
    codes
        Columns of texts that come as int32 codes: places in ``feed.vocabulary(NAME)``, all different texts of the column in the
        files, sorted by their UTF-8. They are collected before the first step, whatever the filter, and are the same for all ranks,
        epochs, restarts and gateways. **Other files have other codes**: keep the vocabulary with the model. All of a feed's
        together may have 8 MiB; beyond that, or without a list, there is ``select=["hash_bucket(NAME, 100000) AS NAME"]``. A null
        has no code: ``nulls={NAME: -1}``, or a mask. A dict gives lists of your own, ``{"color": ["red", "green"], "city": None}``, up to
        96 KiB of them: a code is a text's place in its list, whatever the files hold, and None instead of a list has the texts collected.
        A text that is not in its list is -1; or, with a None among them (``["red", "green", None]``), the place of that.
    rank, world_size
        This consumer's share of every batch; by default that of the task, else 0 of 1.
    start
        The ``cursor`` of a batch: the feed goes on after it, at any world size.
    lanes
        How many stretches of the order are read at once; by default the plan decides.
    memory
        Bytes that the sidecar may hold for this feed at most, also as ``"64MiB"``; less will do if less is free. By default 256 MiB
        to begin with, and what steps need that are larger. More means more batches ahead, and more that this process may keep
        without copying. All feeds whose sidecar belongs to this process may have a quarter of the machine's memory (1 GiB at least);
        ``PENSTOCK_SIDECAR_MEMORY=8GiB`` in the environment before the first feed says how much instead.
    compression
        How batches cross the network: ``"lz4"`` or ``"zstd"`` for a link that is slower than the gateway's cores; by
        default as they are. On one machine nothing is compressed.
    name
        What errors and metrics call this feed; by default the dataset's name.

    Raises ArgumentError for arguments that cannot be. What needs the dataset is reported when the feed
    is described or opened: FeedError, SidecarError.
    """
    plan = _source.plan(source, dataset, os.environ)
    request = _request.build(
        dataset=plan.dataset,
        name=name,
        batch_size=batch_size,
        columns=columns,
        shuffle=shuffle,
        seed=seed,
        epochs=epochs,
        remainder=remainder,
        nulls=nulls,
        rank=rank,
        world_size=world_size,
        start=start,
        lanes=lanes,
        shuffle_bytes=shuffle_bytes,
        memory=memory,
        filter=filter,
        select=select,
        exhausted=exhausted,
        compression=compression,
        units=units,
        codes=codes,
    )
    return Feed(plan, request, start)
