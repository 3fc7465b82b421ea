"""The C ABI of ``libpenstock_tf.so`` through ctypes, and where the native files are.

In: Python values. Out: Python values. Every failure is an exception of :mod:`penstock.errors` with
the library's text. ctypes releases the interpreter's lock during calls, so waiting blocks nobody.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Callable, NamedTuple

from .errors import (
    AllSlotsHeldError,
    ClosedError,
    FeedError,
    ForkedError,
    NativeError,
    PenstockError,
    SidecarError,
    ArgumentError,
)

ABI_VERSION = 1
MAX_DIMS = 8

END, NOT_YET, INTERRUPTED, ALL_SLOTS_HELD = 1, 2, 3, 7
_FAILED = 6
_ERRORS: dict[int, type[PenstockError]] = {
    4: SidecarError,
    5: ClosedError,
    7: AllSlotsHeldError,
    8: ForkedError,
    9: NativeError,
    10: SidecarError,
    11: ArgumentError,
    12: NativeError,
}


class BatchStruct(ctypes.Structure):
    _fields_ = [
        ("batch", ctypes.c_void_p),
        ("epoch", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("columns", ctypes.c_uint64),
    ]


class ColumnStruct(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_uint32),
        ("ndim", ctypes.c_uint32),
        ("dims", ctypes.c_uint64 * MAX_DIMS),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("offsets", ctypes.c_void_p),
    ]


class Stats(NamedTuple):
    """Counts of this process: open feeds, held batches, batches so far, tensors shared and copied."""

    feeds: int
    held: int
    batches: int
    shared: int
    copied: int


class _StatsStruct(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in Stats._fields]


def directory() -> Path:
    """Where the native files are: ``PENSTOCK_NATIVE``, else beside this file."""
    named = os.environ.get("PENSTOCK_NATIVE")
    return Path(named) if named else Path(__file__).parent / "_native"


def path(name: str) -> Path:
    """The native file of this name."""
    found = directory() / name
    if not found.is_file():
        raise NativeError(
            f"{found} is missing: build it with `make develop`, or set PENSTOCK_NATIVE to the directory that has it"
        )
    return found


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The loaded library."""
    file = path("libpenstock_tf.so")
    loaded = ctypes.CDLL(str(file))
    version = loaded.penstock_abi_version() if hasattr(loaded, "penstock_abi_version") else "of another release"
    if version != ABI_VERSION:
        raise NativeError(f"{file} speaks version {version}, this package {ABI_VERSION}: install both from one release")
    text, number, place = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p
    for name, arguments in {
        "penstock_register_ops": [],
        "penstock_open": [text, text, text, number, place],
        "penstock_describe": [text, text, number, place],
        "penstock_description": [number, place],
        "penstock_next": [number, number, place],
        "penstock_slots": [number, place, place],
        "penstock_column": [place, number, place],
        "penstock_batch_free": [place],
        "penstock_acknowledge": [number, number, number],
        "penstock_cancel": [text],
        "penstock_close": [number],
        "penstock_stats": [place],
    }.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    loaded.penstock_text_free.argtypes, loaded.penstock_text_free.restype = [place], None
    for name in ("penstock_error", "penstock_error_code"):
        getattr(loaded, name).restype = text
    return loaded


def failure(kind: int) -> PenstockError:
    """The exception of the last failure in this thread."""
    lib = library()
    message = (lib.penstock_error() or b"").decode()
    if kind == _FAILED:
        return FeedError(message, (lib.penstock_error_code() or b"").decode())
    return _ERRORS.get(kind, NativeError)(message)


def check(kind: int) -> None:
    """Raises unless ``kind`` is success."""
    if kind:
        raise failure(kind)


def register_ops() -> None:
    """Registers the TensorFlow ops; TensorFlow must be imported already."""
    check(library().penstock_register_ops())


def open_feed(socket: str, request: str, group: str, seconds: float) -> int:
    """Opens a feed; returns its handle."""
    handle = ctypes.c_uint64()
    _retried(
        lambda: library().penstock_open(
            socket.encode(), request.encode(), group.encode(), int(seconds * 1000), ctypes.byref(handle)
        )
    )
    return handle.value


def describe(socket: str, request: str, seconds: float) -> str:
    """The description JSON of a feed that is not opened."""
    given = ctypes.c_void_p()
    _retried(
        lambda: library().penstock_describe(
            socket.encode(), request.encode(), int(seconds * 1000), ctypes.byref(given)
        )
    )
    return _take(given)


def description(handle: int) -> str:
    """The description JSON of an open feed."""
    given = ctypes.c_void_p()
    check(library().penstock_description(handle, ctypes.byref(given)))
    return _take(given)


def slots(handle: int) -> tuple[int, int]:
    """Slots of an open feed's ring, and how many of them this process holds."""
    all_of_them, held = ctypes.c_uint64(), ctypes.c_uint64()
    check(library().penstock_slots(handle, ctypes.byref(all_of_them), ctypes.byref(held)))
    return all_of_them.value, held.value


def stats() -> Stats:
    """Counts of this process."""
    out = _StatsStruct()
    check(library().penstock_stats(ctypes.byref(out)))
    return Stats(*(getattr(out, name) for name in Stats._fields))


def _retried(call: Callable[[], int]) -> None:
    # A signal ends the call early so that Python can run its handler, for example Ctrl-C's; when the
    # handler raises nothing, the call is made again.
    kind = call()
    while kind == INTERRUPTED:
        kind = call()
    check(kind)


def _take(given: ctypes.c_void_p) -> str:
    try:
        return ctypes.string_at(given.value or 0).decode()
    finally:
        library().penstock_text_free(given)
