"""Columns whose rows are lists of many lengths: their values laid end to end, and where each list begins.

The ring holds them as columns of their own, the values first, then the bounds of every level of lists, the
outermost first. Pure: nothing here opens anything.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")


class Ragged(NamedTuple):
    """A column of lists of many lengths, as numpy arrays in shared memory.

    List ``i`` of the outermost level is what lies between ``row_splits[0][i]`` and ``row_splits[0][i + 1]``: of the next
    level's lists, or of ``values`` ``[elements, …]``. Iterating gives ``values`` and ``row_splits``, as of any tuple;
    :meth:`rows` gives the rows.
    """

    values: np.ndarray
    row_splits: tuple[np.ndarray, ...]

    def rows(self) -> list[Any]:
        """Every row; with one level of lists an array each, which is a view, else a list of rows of the next."""
        outer, inner = self.row_splits[0].tolist(), self.row_splits[1:]
        held: Any = Ragged(self.values, inner).rows() if inner else self.values
        return [held[start:end] for start, end in zip(outer, outer[1:])]


def joined(columns: Sequence[Mapping[str, Any]], parts: Sequence[T], ragged: Callable[[T, list[T]], R]) -> "dict[str, T | R]":
    """What a ring's columns hold by the names that a user knows: bounds go to their values."""
    bounds: dict[str, list[T]] = {}
    for column, part in zip(columns, parts):
        if "splits_of" in column:
            bounds.setdefault(column["splits_of"], []).append(part)
    plain = [(column["name"], part) for column, part in zip(columns, parts) if "splits_of" not in column]
    return {name: ragged(part, bounds[name]) if name in bounds else part for name, part in plain}
