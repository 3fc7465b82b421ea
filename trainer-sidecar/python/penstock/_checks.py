"""Numbers, amounts and texts as users give them, or a line that names the argument and says what it takes. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Union

from .errors import ArgumentError

#: What a request has room for.
MOST_U32 = 2**32 - 1
MOST_U64 = 2**64 - 1


def whole(name: str, value: Any, least: int, most: int = MOST_U64) -> int:
    """A whole number of Python, numpy or whoever else has some; True and False are none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} is {value!r}: it must be a whole number {_between(least, most)}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ArgumentError(f"{name} is {value!r}: it must be a whole number {_between(least, most)}")
    return number


def amount(name: str, value: Union[int, str]) -> int:
    """Bytes, or an amount as the daemons' flags take it: MB is 10^6, MiB and M 2^20."""
    if not isinstance(value, str):
        return whole(name, value, 1)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(?:([kmgt])(i?b)?|b)?", value.strip().lower(), re.ASCII)
    if found is None:
        raise ArgumentError(f"{name} is {value!r}: write e.g. '64MiB', '1GiB' or plain bytes")
    number, prefix, suffix = found.groups()
    base = 1000 if suffix == "b" else 1024
    taken = int(Fraction(number) * base ** (" kmgt".index(prefix) if prefix else 0))
    if not 1 <= taken <= MOST_U64:
        raise ArgumentError(f"{name} is {value!r}: it must be {_between(1, MOST_U64)} bytes")
    return taken


def texts(name: str, value: Any) -> None:
    """Refuses texts that cannot be written as UTF-8, anywhere inside lists and dicts: half of a surrogate pair is a letter only to
    Python, which makes such of file names that are no UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ArgumentError(f"{name} says {ascii(value)}, which holds half a letter (a lone surrogate) and is no text: write it without") from None
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            texts(name, key)
            texts(name, inner)
    elif isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        for inner in value:
            texts(name, inner)


def _between(least: int, most: int) -> str:
    words = {MOST_U32: "2**32 - 1", MOST_U64: "2**64 - 1"}
    return f"from {least} to {words.get(most, most)}"
