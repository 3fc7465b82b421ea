"""How a feed looks to whoever sits before it: as text, as HTML in a notebook, and as a bar while it is read.

In: what is known of a feed. Out: text. Pure, but for the bar, which writes to a stream; nothing here opens anything.
"""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Iterator, Mapping, Optional, Protocol, Sequence, TypeVar

if TYPE_CHECKING:
    from ._feed import Column

T = TypeVar("T")
_BAR = 24
#: Between two looks of the bar, on a terminal or in a notebook, and where every look is a line of its own.
_REDRAW_SECONDS, _LINE_SECONDS = 0.2, 10.0


class Stream(Protocol):
    """Where a bar is drawn."""

    def write(self, text: str, /) -> Any: ...
    def flush(self) -> Any: ...
    def isatty(self) -> bool: ...


def title(name: str, feed: Mapping[str, Any]) -> str:
    """What a request is of."""
    names = [component["dataset"] for component in feed.get("mixture", ())]
    of = f"mixture of {', '.join(map(repr, names))}" if names else f"dataset {feed['dataset']!r}"
    return f"penstock.feed({name!r}): {of}"


def facts(request: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    """Steps, share and order, from a request and its description."""
    feed, epochs = request["feed"], request["epochs"]
    total = "without end" if epochs is None else f"{epochs} epoch{'s' if epochs != 1 else ''}"
    lines = [
        f"{about['rows']} rows, {about['steps_per_epoch']} steps an epoch of {about['batch_size']} rows, {total}; "
        f"remainder {feed['remainder']} ({about['dropped']} rows dropped an epoch)"
    ]
    for part in about.get("mixture", ()):
        lines.append(f"{part['rows_per_batch']} of them from {part['dataset']!r}, whose {part['rows']} rows last {part['steps']} steps")
    lines.append(f"rank {about['rank']} of {about['world_size']}: {about['rows_per_step']} rows a step")
    lines.append(f"order: shuffle {feed['shuffle']}, seed {feed['seed']}, {about['lanes']} lanes; snapshot {about['snapshot'][:12]}")
    return lines


def text(heading: str, lines: Sequence[str], columns: "Iterable[Column]") -> str:
    """For a terminal."""
    return "\n".join([heading, *(f"  {line}" for line in lines), *(f"  {c.name}: {c.dtype}{shape(c.shape)}" for c in columns)])


def page(heading: str, lines: Sequence[str], columns: "Iterable[Column]") -> str:
    """For a notebook."""
    rows = [(c.name, c.dtype, shape(c.shape) or "[]") for c in columns]
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr><th>column</th><th>type</th><th>shape of a row</th></tr></thead><tbody>{cells}</tbody></table>" if rows else ""
    return f"<div><b>{html.escape(heading)}</b>{''.join(f'<br>{html.escape(line)}' for line in lines)}{table}</div>"


def shape(sizes: Sequence[Optional[int]]) -> str:
    """``[2, *]``; nothing for one number a row."""
    return f"[{', '.join('*' if size is None else str(size) for size in sizes)}]" if sizes else ""


class Progress(Generic[T]):
    """Batches with a bar that says how far they are, how fast, and for how much of the time the loop waited for them."""

    def __init__(self, batches: Iterable[T], name: str, stream: Optional[Stream], clock: Callable[[], float] = time.monotonic) -> None:
        self._batches, self._name, self._clock = batches, name, clock
        self._stream = sys.stderr if stream is None else stream
        self._redrawn = self._stream.isatty() or _in_notebook()

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        try:
            total: Optional[int] = len(self)
        except TypeError:
            total = None
        began = drawn = self._clock()
        iterator = iter(self._batches)
        waited, given = self._clock() - began, 0
        try:
            while True:
                asked = self._clock()
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
                now = self._clock()
                waited, given = waited + now - asked, given + 1
                if now - drawn >= (_REDRAW_SECONDS if self._redrawn else _LINE_SECONDS):
                    self._draw(line(self._name, given, total, now - began, waited))
                    drawn = now
                yield batch
                # Not held while the next one is waited for.
                del batch
        finally:
            self._draw(line(self._name, given, total, self._clock() - began, waited), last=True)

    def _draw(self, said: str, last: bool = False) -> None:
        # What is left of a longer line before is wiped out.
        self._stream.write(f"\r{said}\x1b[K" if self._redrawn else f"{said}\n")
        if last and self._redrawn:
            self._stream.write("\n")
        self._stream.flush()


def line(name: str, given: int, total: Optional[int], seconds: float, waited: float) -> str:
    """``train  ██████░░  120/400  30.1 steps/s  0:09 left  waited for the feed 2 % of the time``."""
    rate = given / seconds if seconds > 0 else 0.0
    parts = [name]
    if total is None:
        parts.append(f"{given} steps")
    else:
        full = _BAR * given // total if total else _BAR
        parts += ["█" * full + "░" * (_BAR - full), f"{given}/{total}"]
    parts.append(f"{rate:.3g} steps/s" if rate < 1000 else f"{rate:,.0f} steps/s")
    if total is not None and given < total and rate > 0:
        left = round((total - given) / rate)
        parts.append(f"{left // 3600}:{left % 3600 // 60:02}:{left % 60:02} left" if left >= 3600 else f"{left // 60}:{left % 60:02} left")
    parts.append(f"waited for the feed {100 * waited / seconds if seconds > 0 else 0:.0f} % of the time")
    return "  ".join(parts)


def _in_notebook() -> bool:
    """Jupyter's output understands a line that is drawn again, and says that it is no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
