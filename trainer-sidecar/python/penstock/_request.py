"""From the arguments of :func:`penstock.feed` to the request that a sidecar understands.

Pure: checks what can be checked without the dataset; the gateway checks the rest.
"""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import sys
from collections.abc import Set as AbstractSet
from typing import Any, Mapping, Optional, Sequence, Union

from . import _cursor
from ._checks import MOST_U32, MOST_U64, amount, texts, whole
from .errors import ArgumentError

VERSION = 1
SHUFFLES = ("none", "blocks", "rows")
REMAINDERS = ("drop", "pad", "keep")
EXHAUSTED = ("first", "all")
COMPRESSIONS = ("lz4", "zstd")
#: A request is one message to the sidecar, of 128 KiB with all that it says.
MOST_VOCABULARY = 96 << 10

Nulls = Union[None, str, int, float, bool, Mapping[str, Any]]
Units = Optional[Mapping[str, str]]
Codes = Union[None, Sequence[str], Mapping[str, Optional[Sequence[Optional[str]]]]]
Select = Union[None, Sequence[str], Mapping[str, str]]
#: A dataset's name, or several with their weights.
Dataset = Union[str, Mapping[str, float]]


def build(
    *,
    dataset: Dataset,
    name: Optional[str],
    batch_size: int,
    columns: Optional[Sequence[str]],
    shuffle: str,
    seed: int,
    epochs: Optional[int],
    remainder: str,
    nulls: Nulls,
    rank: Optional[int],
    world_size: Optional[int],
    start: Optional[Mapping[str, Any]],
    lanes: Optional[int],
    shuffle_bytes: Optional[int],
    memory: Union[None, int, str] = None,
    filter: Optional[str] = None,
    select: Select = None,
    exhausted: str = "first",
    compression: Optional[str] = None,
    units: Units = None,
    codes: Codes = None,
) -> dict[str, Any]:
    """The request as a JSON-able dict. Rank and world size stay open when they are not given."""
    feed: dict[str, Any] = {
        **_datasets(dataset, exhausted, remainder, lanes),
        "batch_size": whole("batch_size", batch_size, 1),
        "shuffle": _choice("shuffle", shuffle, SHUFFLES),
        "seed": whole("seed", seed, 0),
        "remainder": _choice("remainder", remainder, REMAINDERS),
    }
    if columns is not None and select is not None:
        raise ArgumentError("columns and select are both given: name all that is wanted in select")
    if columns is not None:
        feed["columns"] = _columns(columns)
    if select is not None:
        feed["select"] = _select(select)
    if compression is not None:
        feed["compression"] = _choice("compression", compression, COMPRESSIONS)
    collected, given = _codes(codes)
    if collected:
        feed["codes"] = collected
    if filter is not None:
        feed["filter"] = _filter(filter)
    if (rank is None) != (world_size is None):
        raise ArgumentError("rank and world_size go together: give both or neither")
    if rank is not None and world_size is not None:
        feed["world_size"] = whole("world_size", world_size, 1, MOST_U32)
        feed["rank"] = whole("rank", rank, 0, MOST_U32)
        if rank >= world_size:
            raise ArgumentError(f"rank {rank} is not in a world of {world_size}: ranks count from 0")
        if batch_size < world_size:
            raise ArgumentError(
                f"batch_size {batch_size} is smaller than the world of {world_size}: it is the global batch, "
                f"raise it to at least {world_size}"
            )
    if lanes is not None:
        feed["lanes"] = whole("lanes", lanes, 1, MOST_U32)
    if shuffle_bytes is not None:
        feed["shuffle_bytes"] = whole("shuffle_bytes", shuffle_bytes, 1)
    request: dict[str, Any] = {
        "version": VERSION,
        "name": name or (dataset if isinstance(dataset, str) else "+".join(sorted(dataset))),
        "feed": feed,
        "epochs": None if epochs is None else whole("epochs", epochs, 1),
    }
    declared = _nulls(nulls)
    if declared:
        request["nulls"] = declared
    if units:
        request["units"] = _units(units)
    if given:
        request["codes"] = given
    if memory is not None:
        request["memory"] = amount("memory", memory)
    for argument, said in (*feed.items(), *request.items()):
        if argument != "feed":
            texts("dataset" if argument == "mixture" else argument, said)
    return request if start is None else started(request, start)


def started(request: Mapping[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """The same feed from a cursor on."""
    cursor = _cursor.parse(start)
    feed = dict(request["feed"])
    _cursor.check_mixture(cursor, [component["dataset"] for component in feed.get("mixture", ())])
    for field in ("seed", "batch_size"):
        _cursor.check_field(cursor, field, feed[field])
    feed.update(epoch=cursor["epoch"], start_step=cursor["step"], snapshot=cursor["snapshot"])
    return {**request, "feed": feed}


def one_epoch(request: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """The same feed for one epoch; it begins where the feed does if that lies in the epoch."""
    epoch = whole("epoch", epoch, 0)
    epochs = request["epochs"]
    if epochs is not None and epoch >= epochs:
        raise ArgumentError(f"epoch {epoch} is not in a feed of {epochs} epochs: they count from 0")
    feed = dict(request["feed"])
    if feed.get("epoch", 0) != epoch:
        feed.update(epoch=epoch, start_step=0)
    return {**request, "feed": feed, "epochs": epoch + 1}


def shared(request: Mapping[str, Any], index: int, count: int) -> dict[str, Any]:
    """Of the same feed every ``count``-th step, beginning with the ``index``-th."""
    return {**request, "share": {"index": index, "count": count}}


def acknowledged(request: Mapping[str, Any], delivery: str, patience: float) -> dict[str, Any]:
    """The same feed as part of a delivery: a step is done when it is acknowledged.

    The end is held until all ranks that say this name are done, or until nobody gets on for ``patience`` seconds.
    """
    if request["epochs"] is None:
        raise ArgumentError("an endless feed cannot be trained to its end: give it epochs, or take one with feed.epoch(N)")
    return {**request, "acknowledgement": {"delivery": delivery, "patience_seconds": patience}}


def _datasets(dataset: Dataset, exhausted: str, remainder: str, lanes: Optional[int]) -> dict[str, Any]:
    _choice("exhausted", exhausted, EXHAUSTED)
    if isinstance(dataset, str):
        if exhausted != "first":
            raise ArgumentError(f"exhausted is {exhausted!r} but dataset is one, {dataset!r}: leave it out, or give a dict of datasets and weights")
        return {"dataset": dataset}
    if not isinstance(dataset, Mapping) or not dataset:
        raise ArgumentError(f'dataset is {dataset!r}: give a name, or datasets with their weights like {{"web": 0.7, "books": 0.3}}')
    for name, weight in dataset.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"dataset names {name!r}: it must be the name of a dataset")
        if isinstance(weight, bool) or not isinstance(weight, numbers.Real) or not 0 < weight <= sys.float_info.max:
            raise ArgumentError(f"the weight of dataset {name!r} is {weight!r}: give a number above 0, or leave the dataset out")
    if remainder != "drop":
        raise ArgumentError(f"remainder is {remainder!r} but the batches of a mixture are all whole: leave it out, what one epoch does not come to comes in the next")
    if lanes is not None:
        raise ArgumentError("lanes is given, but those of a mixture follow from its datasets: leave it out")
    return {"mixture": [{"dataset": name, "weight": float(weight)} for name, weight in dataset.items()], "exhausted": exhausted}


def _choice(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ArgumentError(f"{name} is {value!r}: use {', '.join(repr(choice) for choice in choices)}")
    return value


def _columns(columns: Sequence[str], argument: str = "columns") -> list[str]:
    if isinstance(columns, str):
        raise ArgumentError(f"{argument} is the text {columns!r}: give a list, [{columns!r}]")
    listed = list(columns)
    if not listed or not all(isinstance(column, str) for column in listed):
        none = "all" if argument == "columns" else "none"
        raise ArgumentError(f"{argument} must be a list of at least one column name, or None for {none}")
    return listed


def _codes(codes: Codes) -> tuple[list[str], dict[str, list[Optional[str]]]]:
    """Columns whose texts are collected from the files, and lists of the texts of others."""
    if codes is None:
        return [], {}
    if not isinstance(codes, Mapping):
        return _columns(codes, "codes"), {}
    given: dict[str, list[Optional[str]]] = {}
    for column, texts in codes.items():
        if texts is None:
            continue
        # A set has no order that another process would know.
        listed = [] if isinstance(texts, (str, AbstractSet)) else list(texts)
        if not listed or not all(text is None or isinstance(text, str) for text in listed):
            raise ArgumentError(
                f'codes says {texts!r} for {column!r}: give a list of its texts like ["red", "green"], or None to have them collected from the files'
            )
        given[column] = [text if text is None else str(text) for text in listed]
    taken = len(json.dumps(given))
    if taken > MOST_VOCABULARY:
        raise ArgumentError(
            f"the lists of codes take {taken} bytes and a feed can carry {MOST_VOCABULARY}: give None for a column to have its texts collected "
            'from the files, or make numbers of it that need no list, with select=["hash_bucket(NAME, 100000) AS NAME"]'
        )
    collected = [column for column, texts in codes.items() if texts is None]
    return (_columns(collected, "codes") if collected else []), given


def _select(select: Union[Sequence[str], Mapping[str, str]]) -> list[str]:
    if isinstance(select, str):
        raise ArgumentError(f"select is the text {select!r}: give a list, [{select!r}]")
    if isinstance(select, Mapping):
        # Only here are names not read as SQL, so they may be anything.
        named = [(name, text) for name, text in select.items() if isinstance(name, str) and isinstance(text, str)]
        listed = ["{} AS \"{}\"".format(text, name.replace('"', '""')) for name, text in named]
    else:
        listed = [text for text in select if isinstance(text, str)]
    if not listed or len(listed) != len(select):
        raise ArgumentError('select must be a list of expressions like ["label", "log1p(price) AS price"], or a dict of them by name')
    return listed


def _filter(filter: str) -> str:
    if not isinstance(filter, str) or not filter.strip():
        raise ArgumentError(f"filter is {filter!r}: give a condition like 'x > 3 AND y IS NOT NULL', or None for all rows")
    return filter.strip()


def _nulls(nulls: Nulls) -> dict[str, Any]:
    if nulls is None:
        return {}
    if not isinstance(nulls, Mapping):
        nulls = {"*": nulls}
    return {column: _fill(column, choice) for column, choice in nulls.items()}


def _fill(column: Any, choice: Any) -> Any:
    if isinstance(column, str) and isinstance(choice, (str, bool)):
        return choice
    if isinstance(column, str) and isinstance(choice, numbers.Integral) and -(2**63) <= choice <= MOST_U64:
        return int(choice)
    if isinstance(column, str) and isinstance(choice, numbers.Real):
        with contextlib.suppress(OverflowError):
            number = float(choice)
            # JSON has no such numbers.
            return number if math.isfinite(number) else {"float": str(number)}
    raise ArgumentError(f"nulls says {choice!r} for {column!r}: use \"mask\" or a value to fill in, by column name or \"*\"")


def _units(units: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(units, Mapping):
        raise ArgumentError(f'units is {units!r}: give a dict of units by column, like {{"price": "0.01", "seen": "ms"}}')
    for column, unit in units.items():
        if not isinstance(column, str) or not isinstance(unit, str):
            raise ArgumentError(f'units says {unit!r} for {column!r}: write the unit as a text, "0.01", "float64" or "ms"')
    return dict(units)
