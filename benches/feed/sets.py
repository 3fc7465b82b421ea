"""The data sets: what is in them, and what a batch of them must be.

A row is known by its id: the first eight bytes of an image are its id, the rest is a cut out of one block of noise;
numbers and strings of a table are sums of id and column.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable, Mapping

import numpy as np

FILES = 4
NUMBERS, CODES = [f"i{n}" for n in range(13)], [f"c{n}" for n in range(26)]


@dataclass(frozen=True)
class Set:
    """``kind`` is list, binary, codes or strings; ``length`` the bytes of an image; ``converted`` how many rows, at most,
    a peer with a format of its own is given: as many as it can feed in its time."""

    kind: str
    rows: int
    batch: int
    row_group: int
    length: int = 0
    converted: int = 0

    @property
    def images(self) -> bool:
        return self.length > 0

    @property
    def row_bytes(self) -> int:
        """Of one row as numbers in memory, strings as their characters; the same for all feeders."""
        if self.images:
            return 8 + self.length
        return 8 + 4 * len(NUMBERS) + {"codes": 4, "strings": 8}[self.kind] * len(CODES)


SETS = {
    "img3k": Set("list", 500_000, 1024, 10_000, 3072, 200_000),
    "img3k_bin": Set("binary", 500_000, 1024, 10_000, 3072, 200_000),
    "img150k": Set("list", 10_000, 256, 200, 224 * 224 * 3, 6_000),
    "img150k_bin": Set("binary", 10_000, 256, 200, 224 * 224 * 3, 6_000),
    "tab_codes": Set("codes", 2_000_000, 1024, 100_000, converted=100_000),
    "tab_strings": Set("strings", 2_000_000, 1024, 100_000, converted=100_000),
}


def converted(tool: str, name: str) -> str:
    """Where a tool keeps a format of its own: once for images as lists and as binary, whose rows are the same."""
    return f"converted/{tool}-{name.removesuffix('_bin')}"


@functools.lru_cache(maxsize=1)
def _noise() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, 16 << 20, dtype=np.uint8)


def images(length: int, ids: np.ndarray) -> np.ndarray:
    """The images of these rows, uint8 ``[rows, length]``."""
    noise = _noise()
    # So far apart that no codec's window holds two of the same.
    starts = ids * 1_000_003 % (len(noise) - length)
    out = np.empty((len(ids), length), np.uint8)
    for row, start in enumerate(starts):
        out[row] = noise[start : start + length]
    out[:, :8] = ids.astype("<i8").view(np.uint8).reshape(-1, 8)
    return out


def numbers(ids: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
    """A column of float32, and which of its rows are null."""
    mixed = _mixed(ids, column)
    return (mixed % 10_000).astype(np.float32) / 8, mixed % 11 == 0


def codes(ids: np.ndarray, column: int) -> np.ndarray:
    """A column of int32: few values of some columns, very many of others."""
    return (_mixed(ids, column + 100) % (10 ** (1 + column % 6))).astype(np.int32)


def strings(ids: np.ndarray, column: int) -> list[str]:
    """The same as Criteo has them: eight hexadecimal digits."""
    return [f"{code * 2_654_435_761 % (1 << 32):08x}" for code in codes(ids, column).tolist()]


def _mixed(ids: np.ndarray, column: int) -> np.ndarray:
    mixed = (ids.astype(np.uint64) + np.uint64(column << 32)) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _as_numpy(column: Any) -> np.ndarray:
    return column if isinstance(column, np.ndarray) else np.asarray(column.numpy() if hasattr(column, "numpy") else column)


def wrong(made: Set, batch: Mapping[str, Any]) -> str | None:
    """What is wrong with a batch, if anything: a column, a shape, a type, a value."""
    ids = _as_numpy(batch["id"]).reshape(-1).astype(np.int64)
    expected: dict[str, Callable[[], np.ndarray]] = {}
    if made.images:
        expected["image"] = lambda: images(made.length, ids)
    else:
        for index, name in enumerate(NUMBERS):
            expected[name] = functools.partial(lambda i: np.where(numbers(ids, i)[1], np.float32(0), numbers(ids, i)[0]), index)
        of_kind = {"codes": codes, "strings": lambda ids, i: np.array(strings(ids, i))}[made.kind]
        for index, name in enumerate(CODES):
            expected[name] = functools.partial(of_kind, ids, index)
    for name, values in expected.items():
        if name not in batch:
            return f"it leaves column {name} out, and no error says so"
        given, known = _as_numpy(batch[name]), values()
        if given.shape != known.shape:
            return f"{name} has shape {given.shape} instead of {known.shape}"
        if known.dtype.kind == "U":
            given = np.array([value.decode() if isinstance(value, bytes) else str(value) for value in given.tolist()])
        if given.dtype.kind != known.dtype.kind or (known.dtype.kind != "U" and given.itemsize < known.itemsize):
            return f"{name} is {given.dtype} instead of {known.dtype}"
        if not np.array_equal(given, known):
            return f"{name} has other values"
    return None
