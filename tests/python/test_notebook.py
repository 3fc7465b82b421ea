"""What a feed shows to whoever sits before it."""

from __future__ import annotations

import io
import inspect
import re
import types

import penstock
from penstock import _show


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def batches(self, *waits: float):
        for i, seconds in enumerate(waits):
            self.now += seconds
            yield i


class Sized(list):
    """Batches whose length is known, from an iterator."""

    def __init__(self, length: int, iterator) -> None:
        super().__init__([None] * length)
        self.iterator = iterator

    def __iter__(self):
        return self.iterator


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_notebook_shows_schema_steps_and_order(produce):
    produce(steps=5, rows=8)
    feed = penstock.feed(name="<train>")
    shown = feed._repr_html_()
    assert "penstock.feed(&#x27;&lt;train&gt;&#x27;)" in shown and "<train>" not in shown
    assert "40 rows, 5 steps an epoch of 8 rows, 1 epoch" in shown and "order: shuffle none, seed 0" in shown
    assert "<tr><td>c_float32</td><td>float32</td><td>[2, 3]</td></tr>" in shown
    assert "<td>c_int8</td><td>int8</td><td>[]</td>" in shown
    assert "  c_float32: float32[2, 3]" in repr(feed).splitlines()


def test_a_feed_that_cannot_be_described_is_shown_all_the_same(produce):
    producer = produce(steps=1)
    feed = penstock.feed()
    producer.kill()
    for shown in (repr(feed), feed._repr_html_()):
        assert "cannot be described: feed" in shown and "no sidecar answers" in shown


def test_a_bar_says_how_far_how_fast_and_who_waits(produce):
    produce(steps=4)
    stream = Terminal()
    assert [batch.step for batch in penstock.feed(name="train").progress(stream=stream)] == [0, 1, 2, 3]
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith(f"train  {'█' * 24}  4/4  ") and last.endswith("% of the time\x1b[K\n")


def test_a_terminal_has_one_line_that_is_drawn_again():
    clock, stream = Clock(), Terminal()
    for _ in _show.Progress(Sized(4, clock.batches(0.5, 0.05, 0.05, 0.4)), "train", stream, clock):
        clock.now += 0.1
    assert [line.removesuffix("\x1b[K") for line in stream.getvalue().rstrip().split("\r")[1:]] == [
        "train  ██████░░░░░░░░░░░░░░░░░░  1/4  2 steps/s  0:02 left  waited for the feed 100 % of the time",
        "train  ██████████████████░░░░░░  3/4  3.75 steps/s  0:00 left  waited for the feed 75 % of the time",
        "train  ████████████████████████  4/4  3.08 steps/s  waited for the feed 77 % of the time",
        "train  ████████████████████████  4/4  2.86 steps/s  waited for the feed 71 % of the time",
    ]


def test_a_file_has_a_line_now_and_then_and_one_at_an_early_end():
    clock, stream = Clock(), io.StringIO()
    progress = iter(_show.Progress(clock.batches(*[4.0] * 9), "train", stream, clock))
    for _ in range(7):
        next(progress)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "train  3 steps  0.25 steps/s  waited for the feed 100 % of the time",
        "train  6 steps  0.25 steps/s  waited for the feed 100 % of the time",
        "train  7 steps  0.25 steps/s  waited for the feed 100 % of the time",
    ]


def test_a_bar_holds_no_batch_longer_than_the_loop(produce):
    produce(steps=6, slots=2)
    for batch in penstock.feed().progress(stream=io.StringIO()):
        del batch
    assert penstock.stats().held == 0


def public(owner) -> "list[tuple[str, object]]":
    """What a user can call or read of it."""
    return [(name, member) for name, member in vars(owner).items() if not name.startswith("_")]


def test_every_public_name_says_what_it_is():
    undocumented = [name for name in penstock.__all__ if not inspect.getdoc(getattr(penstock, name))]
    for name in penstock.__all__:
        owner = getattr(penstock, name)
        if isinstance(owner, type):
            told = (types.FunctionType, property)
            undocumented += [f"{name}.{part}" for part, member in public(owner) if isinstance(member, told) and not inspect.getdoc(member)]
    assert undocumented == []
    words = re.findall(r"\w+", inspect.getdoc(penstock.feed))
    assert [name for name in inspect.signature(penstock.feed).parameters if name not in words] == []
