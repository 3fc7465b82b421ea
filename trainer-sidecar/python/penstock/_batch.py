"""One batch as numpy arrays over shared memory, and what any other kind of array is made of.

In: a batch of the C ABI. Out: read-only arrays that own their slot: the slot goes back when the last
array (or view of one) is gone. Numbers are not copied, unless the slot must go back at once; strings become Python objects.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Mapping, Sequence, TypeVar, Union

import numpy as np

from . import _native
from ._ragged import Ragged, joined
from .errors import NativeError

T = TypeVar("T")

#: Wire number, name and numpy type; string and bytes become objects.
_DTYPES: dict[int, tuple[str, Any]] = {
    1: ("bool", np.bool_),
    2: ("int8", np.int8),
    3: ("int16", np.int16),
    4: ("int32", np.int32),
    5: ("int64", np.int64),
    6: ("uint8", np.uint8),
    7: ("uint16", np.uint16),
    8: ("uint32", np.uint32),
    9: ("uint64", np.uint64),
    10: ("float16", np.float16),
    11: ("bfloat16", None),
    12: ("float32", np.float32),
    13: ("float64", np.float64),
    14: ("string", object),
    15: ("bytes", object),
}
BFLOAT16 = 11
_STRING = 14
#: Where columns begin, in a slot and in copies.
_ALIGNMENT = 128


class Batch(dict[str, Any]):
    """A dict of column name to array, ``[rows, …]`` each; a column of lists of many lengths is a :class:`Ragged`.

    The arrays are numpy's, torch's (:meth:`penstock.Feed.torch`) or JAX's (:meth:`penstock.Feed.jax`).
    ``epoch``, ``step`` and ``rows`` say which batch it is; ``cursor`` is the position after it, a
    JSON-able dict for ``penstock.feed(start=…)``.
    """

    __slots__ = ("epoch", "step", "rows", "_cursor")

    def __init__(
        self,
        arrays: dict[str, Any],
        epoch: int,
        step: int,
        rows: int,
        cursor: Callable[[int, int], dict[str, Any]],
    ) -> None:
        super().__init__(arrays)
        self.epoch = epoch
        self.step = step
        self.rows = rows
        self._cursor = cursor

    @property
    def cursor(self) -> dict[str, Any]:
        """The position after this batch."""
        return self._cursor(self.epoch, self.step)


class Slot:
    """Possession of a batch of the library; given back when nobody refers to it."""

    __slots__ = ("pointer", "_free")

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        # Bound here: at the interpreter's end the module may be gone before the last array.
        self._free = _native.library().penstock_batch_free

    def __del__(self) -> None:
        self._free(self.pointer)


class _Memory:
    """What numpy takes as the owner of an array's memory."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: "Owner", address: int, shape: tuple[int, ...], dtype: np.dtype, read_only: bool) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, read_only),
            "shape": shape,
            "typestr": dtype.str,
        }


#: What keeps a column's memory: its slot, or an array that is a copy.
Owner = Union[Slot, np.ndarray]
#: Makes whatever a column shall be from who owns it, the column, and its name.
Maker = Callable[[Owner, _native.ColumnStruct, str], T]


def columns(
    slot: Slot, count: int, described: Sequence[Mapping[str, Any]], maker: Maker[T], copy: bool
) -> "dict[str, T | Ragged]":
    """What ``maker`` makes of each of ``count`` columns, by name; of copies, if the slot is to go back at once."""
    if count != len(described):
        raise NativeError(f"the batch has {count} columns, the description {len(described)}: install one release")
    parts = []
    for i, column in enumerate(described):
        struct = _native.ColumnStruct()
        _native.check(_native.library().penstock_column(slot.pointer, i, ctypes.byref(struct)))
        # Texts become objects in any case.
        owner = _copied(struct) if copy and not struct.offsets else slot
        parts.append(maker(owner, struct, column["name"]))
    return joined(described, parts, lambda values, splits: Ragged(values, tuple(splits)))


def _copied(column: _native.ColumnStruct) -> np.ndarray:
    """Points a column of numbers to a copy, and gives what keeps that."""
    memory = np.empty(column.bytes + _ALIGNMENT, np.uint8)
    begin = memory.ctypes.data + -memory.ctypes.data % _ALIGNMENT
    ctypes.memmove(begin, column.data, column.bytes)
    column.data = begin
    return memory


def array(owner: Owner, column: _native.ColumnStruct, name: str) -> np.ndarray:
    """A column as numpy has it: numbers where they lie, strings and bytes as objects."""
    if column.offsets:
        return objects(column)
    dtype = numpy_dtype(column.dtype, name)
    if column.dtype == BFLOAT16:
        # The array interface has no word for it; its bytes do.
        return numbers(owner, column, np.dtype(np.uint16)).view(dtype)
    return numbers(owner, column, dtype)


def numbers(owner: Owner, column: _native.ColumnStruct, dtype: np.dtype, read_only: bool = True) -> np.ndarray:
    """A column of numbers where it lies. The memory cannot be written, whatever the array says of it."""
    shape = tuple(column.dims[: column.ndim])
    if column.bytes == 0:
        empty = np.empty(shape, dtype)
        empty.setflags(write=not read_only)
        return empty
    return np.asarray(_Memory(owner, column.data, shape, dtype, read_only))


def objects(column: _native.ColumnStruct) -> np.ndarray:
    """A column of strings or bytes as Python's own."""
    shape = tuple(column.dims[: column.ndim])
    count = int(np.prod(shape, dtype=np.int64))
    ends = np.ctypeslib.as_array(ctypes.cast(column.offsets, ctypes.POINTER(ctypes.c_int64)), (count + 1,)).tolist()
    text = ctypes.string_at(column.data, column.bytes) if column.bytes else b""
    made = np.empty(count, object)
    if column.dtype == _STRING:
        made[:] = [text[start:end].decode() for start, end in zip(ends, ends[1:])]
    else:
        made[:] = [text[start:end] for start, end in zip(ends, ends[1:])]
    made.setflags(write=False)
    return made.reshape(shape)


def numpy_dtype(wire: int, name: str) -> np.dtype[Any]:
    """The numpy type of a wire number."""
    if wire not in _DTYPES:
        raise NativeError(f"column {name} has the unknown type {wire}: install one release of penstock")
    kind = _DTYPES[wire][1]
    if kind is not None:
        return np.dtype(kind)
    try:
        import ml_dtypes
    except ImportError:
        raise NativeError(f"column {name} is bfloat16, which numpy does not know: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)
