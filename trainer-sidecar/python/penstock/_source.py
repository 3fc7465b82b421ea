"""Where a feed's batches come from.

In: the ``source`` argument and the environment of the task. Out: a socket, a dataset's name, and the
gateways to name in the request. Starting private daemons is left to :mod:`penstock._daemons`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from . import _daemons
from ._checks import texts
from ._request import Dataset
from .errors import ArgumentError

SIDECAR = "PENSTOCK_SIDECAR"
DATASETS = "PENSTOCK_DATASETS"
#: Read by the kernel in the process that runs it, so that a traced graph can move.
LAUNCHED_SOCKET = f"env:{SIDECAR}"
#: Of gateways: over TCP, over TLS, over a socket of this machine.
_UNIX = "grpc+unix://"
_SCHEMES = ("grpc://", "grpc+tls://", _UNIX)
#: The name of files given by path.
PRIVATE_DATASET = "data"


#: Files of a dataset: a path, a pattern, a directory, or several of these.
Where = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
#: A place of Parquet files, or several by the names of their datasets.
Source = Union[None, Where, Mapping[str, Where]]


class Plan(NamedTuple):
    """What a source means; pure. ``served`` are names and URIs that a private gateway must serve."""

    dataset: Dataset
    gateways: tuple[str, ...]
    served: tuple[tuple[str, str], ...]
    launched: bool


class Place(NamedTuple):
    """An opened source; ``close`` may be called once. ``again`` says where it is now, and starts anew what died of this
    process's own; what is others' stays where it is."""

    socket: str
    gateways: tuple[str, ...]
    close: Callable[[], None]
    again: Optional[Callable[[], Optional[tuple[str, tuple[str, ...]]]]] = None

    def alive(self) -> "Place":
        """The place where a pass that begins now finds it."""
        found = self.again() if self.again is not None else None
        if found is None:
            return self
        socket, own = found
        return self._replace(socket=socket, gateways=own or self.gateways)


def plan(source: Source, dataset: Optional[Dataset], env: Mapping[str, str]) -> Plan:
    """Decides what ``source`` means in this environment."""
    _check_names(source)
    texts("dataset", dataset)
    launched = bool(env.get(SIDECAR))
    if source is None:
        if not launched and _is_parameter_server(env):
            raise ArgumentError(
                "no source: this task is a parameter server, which is fed nothing: call penstock.ps.serve_unless_chief() before penstock.feed, "
                "or for a program of TensorFlow 1 let its server join first"
            )
        if not launched:
            raise ArgumentError(
                "no source: give penstock.feed a path, a glob or grpc://HOST:PORT, or start the script with `penstock run --input NAME=URI`"
            )
        return Plan(_only(dataset, env), (), (), True)
    if isinstance(source, Mapping):
        return Plan(_named(source, dataset), (), tuple((name, _uri(place)) for name, place in source.items()), False)
    if not isinstance(source, (str, os.PathLike)):
        files = _uri(source)
        if isinstance(dataset, Mapping):
            raise ArgumentError('source is one dataset of several files and dataset names several datasets: give a dict of places, {"web": [...], "books": "books/"}')
        name = dataset or PRIVATE_DATASET
        return Plan(name, (), ((name, files),), False)
    text = os.path.expanduser(os.fspath(source))
    if not text:
        raise ArgumentError("source is empty: give a path, a glob or grpc://HOST:PORT")
    if text.startswith(_SCHEMES):
        if dataset is None:
            raise ArgumentError(f"{text} is a gateway: say which of its datasets with dataset=")
        return Plan(dataset, _gateways(text), (), launched)
    if isinstance(dataset, Mapping):
        raise ArgumentError(f'{text} is one place and dataset names several: give a dict of places, {{"web": "web/*.parquet", "books": "books/"}}')
    name = dataset or PRIVATE_DATASET
    return Plan(name, (), ((name, _uri(text)),), False)


def open_place(plan: Plan) -> Place:
    """Makes sure that somebody listens; starts private daemons where the plan needs them."""
    if plan.launched:
        return Place(LAUNCHED_SOCKET, plan.gateways, lambda: None)
    daemons = _daemons.of_this_process()
    gateways = plan.gateways
    if plan.served:
        gateways = (daemons.take_gateway(plan.served),)
    try:
        socket = daemons.take_sidecar()
    except BaseException:
        if plan.served:
            daemons.give_back_gateway(plan.served)
        raise

    def close() -> None:
        daemons.give_back_sidecar()
        if plan.served:
            daemons.give_back_gateway(plan.served)

    return Place(socket, gateways, close, lambda: daemons.again(plan.served))


def _check_names(source: Any) -> None:
    """Refuses names that no gateway can be told."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fsdecode(source)
        texts("source", text)
        if "\0" in text:
            raise ArgumentError(f"source says {text!r}: no path holds a zero character")
    elif isinstance(source, Mapping):
        for name, place in source.items():
            _check_names(name)
            _check_names(place)
    elif isinstance(source, Sequence) and not isinstance(source, bytes):
        for place in source:
            _check_names(place)


def task_type(env: Mapping[str, str]) -> str:
    """What a job calls this task; nothing where there is none."""
    kind: str = json.loads(env.get("TF_CONFIG", "{}")).get("task", {}).get("type", "")
    return kind


def _is_parameter_server(env: Mapping[str, str]) -> bool:
    try:
        return task_type(env) == "ps"
    except (ValueError, AttributeError):
        return False


def _uri(place: Where) -> str:
    if isinstance(place, (str, os.PathLike)):
        text = os.path.expanduser(os.fspath(place))
        return text if "://" in text else os.path.abspath(text)
    advice = "give a path, a directory, or a pattern like data/*.parquet, or a list of such; several datasets go into a dict of places"
    if not isinstance(place, Sequence) or isinstance(place, bytes):
        raise ArgumentError(f"source is {place!r}: {advice}")
    if not place:
        raise ArgumentError(f"source is an empty list: {advice}")
    for each in place:
        if not isinstance(each, (str, os.PathLike)) or not os.fspath(each):
            raise ArgumentError(f"source lists {each!r}: {advice}")
        if os.fspath(each).startswith(_SCHEMES):
            raise ArgumentError(f"source lists {each!r}, which is a gateway: give those as one text, grpc://A:1,B:2")
    if len(place) == 1:
        return _uri(place[0])
    # The gateway tells them apart by the spaces between; those inside are written as URIs have them.
    texts = [_uri(each) for each in place]
    return " ".join(text if "://" in text else Path(text).as_uri() for text in texts)


def _named(source: Mapping[str, Any], dataset: Optional[Dataset]) -> Dataset:
    """Which of a source's datasets are fed."""
    if dataset is None and len(source) == 1:
        return next(iter(source))
    known = ", ".join(map(repr, source)) or "nothing"
    if not dataset:
        raise ArgumentError(f"source has {known}: say how much of each with dataset=, a dict of weights, or name one")
    missing = [name for name in ([dataset] if isinstance(dataset, str) else dataset) if name not in source]
    if missing:
        raise ArgumentError(f"source has no dataset {missing[0]!r}: it has {known}")
    return dataset


def _only(dataset: Optional[Dataset], env: Mapping[str, str]) -> Dataset:
    names = [name for name in env.get(DATASETS, "").split(",") if name]
    if dataset is not None:
        # The sidecar's gateway knows what is there, and lists it when the name is wrong.
        return dataset
    if len(names) == 1:
        return names[0]
    known = f"one of {', '.join(names)}" if names else "the name given to `penstock run --input NAME=URI`"
    raise ArgumentError(f"say which dataset with dataset=: {known}")


def _gateways(text: str) -> tuple[str, ...]:
    """``grpc://A:1,B:2`` and ``grpc://A:1,grpc://B:2`` are the same."""
    scheme = next(scheme for scheme in _SCHEMES if text.startswith(scheme))
    parts = [part.strip() for part in text.split(",")]
    parts = [part if part.startswith(_SCHEMES) else f"{scheme}{part}" for part in parts]
    for part in parts:
        host, _, port = part.partition("://")[2].rpartition(":")
        if part.startswith(_UNIX):
            if not os.path.isabs(part[len(_UNIX) :]):
                raise ArgumentError(f"{part} is no gateway's address: write {_UNIX}/PATH")
        elif not host or not port.isdigit():
            raise ArgumentError(f"{part} is no gateway's address: write grpc://HOST:PORT")
    return tuple(parts)
