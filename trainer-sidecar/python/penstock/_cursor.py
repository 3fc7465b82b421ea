"""Positions in a feed: plain dicts that a trainer saves in its own checkpoint.

A cursor names the next step to be read. Pure: nothing here opens anything.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ._checks import texts, whole
from .errors import ArgumentError

VERSION = 1
_FIELDS = ("version", "epoch", "step", "snapshot", "seed", "batch_size", "lanes", "order")
#: What a gateway takes when a feed says nothing.
_SHUFFLE_BYTES = 256 << 20
#: Of orders whose remainder, if there is one, is the last rows of every epoch; what releases meant that knew no others.
FIRST_RULES = 1


def order(feed: Mapping[str, Any], mixture: Iterable[Mapping[str, Any]] = (), rules: int = FIRST_RULES) -> dict[str, Any]:
    """What beside seed, batch size and lanes decides which row comes when, from a request's ``feed`` and what a
    gateway says of its ``mixture`` and of the rules of the order.

    Of a mixture the rows of a batch count, by whatever weights they came about. Windows are cut by the bytes of the columns that are read, so under ``rows`` these count too.
    """
    order: dict[str, Any] = {"shuffle": feed["shuffle"]}
    # Absent where it says nothing, as in cursors of releases that knew it not.
    if rules != FIRST_RULES:
        order["rules"] = rules
    if "filter" in feed:
        order["filter"] = feed["filter"]
    if "mixture" in feed:
        order["mixture"] = {component["dataset"]: component["rows_per_batch"] for component in mixture}
        order["exhausted"] = feed["exhausted"]
    if feed["shuffle"] != "rows":
        return order
    columns = feed.get("columns")
    order["shuffle_bytes"] = feed.get("shuffle_bytes", _SHUFFLE_BYTES)
    order["columns"] = sorted(columns) if columns else None
    if "select" in feed:
        order["select"] = sorted(feed["select"])
    return order


def after(description: Mapping[str, Any], seed: int, epoch: int, step: int) -> dict[str, Any]:
    """The cursor behind this step; behind an epoch's last step it is the next epoch's first."""
    return at(description, seed, epoch, step + 1)


def at(description: Mapping[str, Any], seed: int, epoch: int, step: int) -> dict[str, Any]:
    """The cursor before this step; ``step`` may lie beyond its epoch."""
    further, step = divmod(step, max(description["steps_per_epoch"], 1))
    return {
        "version": VERSION,
        "snapshot": description["snapshot"],
        "seed": seed,
        "batch_size": description["batch_size"],
        "lanes": description["lanes"],
        "order": description["order"],
        "epoch": epoch + further,
        "step": step,
    }


def basis(description: Mapping[str, Any]) -> dict[str, Any]:
    """What of a description cursors are made of: every batch carries it."""
    return {name: description[name] for name in ("steps_per_epoch", "snapshot", "batch_size", "lanes", "order")}


def parse(cursor: Mapping[str, Any]) -> dict[str, Any]:
    """Checks what a user gives as ``start``."""
    if not isinstance(cursor, Mapping):
        raise ArgumentError(f"start is {cursor!r}, no cursor: give it a batch's .cursor")
    missing = [name for name in _FIELDS if name not in cursor]
    if missing:
        raise ArgumentError(f"start is no cursor, it lacks {', '.join(missing)}: give it a batch's .cursor")
    if cursor["version"] != VERSION:
        raise ArgumentError(f"start is a cursor of version {cursor['version']}, this release reads version {VERSION}")
    for name in ("epoch", "step", "seed", "batch_size", "lanes"):
        whole(f"start[{name!r}]", cursor[name], 0)
    if not isinstance(cursor["snapshot"], str) or not isinstance(cursor["order"], Mapping):
        raise ArgumentError(f"start is no cursor, its snapshot is {cursor['snapshot']!r}: give it a batch's .cursor")
    texts("start", cursor)
    return dict(cursor)


def check(cursor: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    """Refuses a cursor of another feed: its position would mean other rows."""
    for field in ("snapshot", "batch_size"):
        check_field(cursor, field, description[field])
    # Before the lanes, which follow from it.
    was, now = cursor["order"], description["order"]
    for name in dict.fromkeys((*was, *now)):
        if name != "rules":
            _check(name, was.get(name), now.get(name))
    _check_rules(was.get("rules", FIRST_RULES), now.get("rules", FIRST_RULES))
    check_field(cursor, "lanes", description["lanes"])


def check_mixture(cursor: Mapping[str, Any], datasets: Iterable[str]) -> None:
    """Refuses a cursor of other datasets than a mixture's, or of a mixture where there are none."""
    was, now = sorted(cursor["order"].get("mixture", ())), sorted(datasets)
    if was != now:
        told = [f"a mixture of {', '.join(map(repr, names))}" if names else "one dataset" for names in (was, now)]
        raise ArgumentError(
            f"start is a cursor of {told[0]}, this feed is of {told[1]}: give the feed the arguments it had, or start "
            "anew without a cursor"
        )


def check_field(cursor: Mapping[str, Any], field: str, actual: Any) -> None:
    """Refuses a cursor whose ``field`` is not the feed's."""
    _check(field, cursor[field], actual)


def _check_rules(was: int, now: int) -> None:
    if was != now:
        said = [
            "takes the last rows of every epoch for its remainder ('keep', 'pad', or 'drop' in an older release)"
            if rules == FIRST_RULES
            else "drops other rows every epoch"
            for rules in (was, now)
        ]
        raise ArgumentError(
            f"start is a cursor of a feed that {said[0]}, this feed {said[1]}, so that its steps hold other rows: "
            "give the feed the remainder it had, or start anew without a cursor"
        )


def _check(name: str, was: Any, now: Any) -> None:
    if was != now:
        raise ArgumentError(
            f"start is a cursor of a feed with {name} {was!r}, this feed has {now!r}: "
            "give the feed the arguments it had, or start anew without a cursor"
        )
