"""Where a feed's batches come from.

In: the ``source`` argument and the environment of the task. Out: a socket, a dataset's name, and the
gateways to name in the request. Starting private daemons is left to :mod:`penstock._daemons`.
"""

from __future__ import annotations

import os
from typing import Callable, Mapping, NamedTuple, Optional, Union

from . import _daemons
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


class Plan(NamedTuple):
    """What a source means; pure. ``uri`` is set when a private gateway must serve it."""

    dataset: str
    gateways: tuple[str, ...]
    uri: Optional[str]
    launched: bool


class Place(NamedTuple):
    """An opened source; ``close`` may be called once."""

    socket: str
    gateways: tuple[str, ...]
    close: Callable[[], None]


def plan(source: Union[None, str, os.PathLike[str]], dataset: Optional[str], env: Mapping[str, str]) -> Plan:
    """Decides what ``source`` means in this environment."""
    launched = bool(env.get(SIDECAR))
    if source is None:
        if not launched:
            raise ArgumentError(
                "no source: give penstock.feed a path, a glob or grpc://HOST:PORT, or start the script with `penstock run --input NAME=URI`"
            )
        return Plan(_only(dataset, env), (), None, True)
    text = os.path.expanduser(os.fspath(source))
    if not text:
        raise ArgumentError("source is empty: give a path, a glob or grpc://HOST:PORT")
    if text.startswith(_SCHEMES):
        if dataset is None:
            raise ArgumentError(f"{text} is a gateway: say which of its datasets with dataset=")
        return Plan(dataset, _gateways(text), None, launched)
    uri = text if "://" in text else os.path.abspath(text)
    return Plan(dataset or PRIVATE_DATASET, (), uri, False)


def open_place(plan: Plan) -> Place:
    """Makes sure that somebody listens; starts private daemons where the plan needs them."""
    if plan.launched:
        return Place(LAUNCHED_SOCKET, plan.gateways, lambda: None)
    daemons = _daemons.of_this_process()
    gateways = plan.gateways
    if plan.uri is not None:
        gateways = (daemons.take_gateway(plan.uri, plan.dataset),)
    try:
        socket = daemons.take_sidecar()
    except BaseException:
        if plan.uri is not None:
            daemons.give_back_gateway(plan.uri, plan.dataset)
        raise

    def close() -> None:
        daemons.give_back_sidecar()
        if plan.uri is not None:
            daemons.give_back_gateway(plan.uri, plan.dataset)

    return Place(socket, gateways, close)


def _only(dataset: Optional[str], env: Mapping[str, str]) -> str:
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
