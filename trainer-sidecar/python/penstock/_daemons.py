"""A gateway and a sidecar of this process's own.

In: where data is. Out: addresses. One sidecar a process, one gateway a source, started on first use;
they end when their last feed is closed, when the process ends, and when it is killed (``--exit-with``).
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO, Iterable, Optional

from . import _native
from .errors import FeedError, SidecarError

READY_SECONDS = 60.0
GRACE_SECONDS = 5.0
_READY = "listening on "
_BUSY = "reading "
_PREFIX = "penstock-"
#: Held by whoever uses a directory: a process of another container has no number here, and its lock is seen.
_LOCK = "lock"

#: How long a daemon keeps freed memory. It works for one job, which will want it again: pages that come back from the system
#: take a fifth of the time of a later epoch.
_KEEPS, _KEEPS_MS = "MIMALLOC_PURGE_DELAY", "6000"

#: Of the machine's memory, or of what the control group may have: what feeds may have whose steps are large. Whoever says
#: how much a sidecar has is not overruled.
_SHARE = 4
_SAID = "PENSTOCK_SIDECAR_MEMORY"
#: Where a container finds its limit, by version of control groups.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

#: Linux gives one argument of a command 128 KiB.
_MOST_ARGUMENTS = 64 << 10

#: What a gateway serves: names of datasets and where their files are.
Served = tuple[tuple[str, str], ...]


class Daemon:
    """One child process with a ready line."""

    def __init__(self, name: str, arguments: list[str], directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        command = [str(_native.path("penstock")), *arguments, "--exit-with", str(os.getpid())]
        environment = {_KEEPS: _KEEPS_MS, **os.environ}
        with open(self.log, "ab") as log:
            # A session of its own: Ctrl-C in the terminal is the script's to handle.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
            )
        try:
            self.address = self._ready()
        except BaseException:
            self.end()
            raise

    def _ready(self) -> str:
        """The address of the ready line."""
        pipe = self.process.stdout
        assert pipe is not None
        deadline = time.monotonic() + READY_SECONDS
        text, said = b"", 0
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while True:
                lines = text.decode(errors="replace").split("\n")[:-1]
                for line in lines[said:]:
                    if line.startswith(_READY):
                        return line[len(_READY) :].strip()
                    if line.startswith(_BUSY):
                        # Whoever gets on has time; who waits for it sees why.
                        print(f"penstock: {line}", file=sys.stderr, flush=True)
                        deadline = time.monotonic() + READY_SECONDS
                said = len(lines)
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise SidecarError(f"the {self.name} was not ready within {READY_SECONDS:.0f} s: {self._last_words()}")
                part = os.read(pipe.fileno(), 4096)
                if not part:
                    raise FeedError(f"the {self.name} did not start: {self._last_words()}")
                text += part

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip().removeprefix("error: ") if lines else "it said nothing"

    def end(self) -> None:
        """SIGTERM, a grace, SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Daemons:
    """The daemons of one process, counted by their users."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.directory: Optional[Path] = None
        self.directory_lock: Optional[BinaryIO] = None
        self.sidecar: Optional[Daemon] = None
        self.sidecar_users = 0
        self.gateways: dict[Served, tuple[Daemon, int]] = {}
        self.lock = threading.Lock()

    def take_sidecar(self) -> str:
        """The socket of the private sidecar."""
        with self.lock:
            if self.sidecar is None or self.sidecar.process.poll() is not None:
                self.sidecar = self._new_sidecar()
            self.sidecar_users += 1
            return self.sidecar.address[len("unix:") :]

    def take_gateway(self, served: Served) -> str:
        """The address of the private gateway of these files, by the names of their datasets."""
        with self.lock:
            daemon, users = self.gateways.get(served, (None, 0))
            if daemon is None or daemon.process.poll() is not None:
                daemon = self._new_gateway(served)
            self.gateways[served] = (daemon, users + 1)
            return daemon.address

    def again(self, served: Served) -> Optional[tuple[str, tuple[str, ...]]]:
        """The socket of the private sidecar, and the gateway of these files where there are any; others in the place of those
        that died. None where nobody has them, or in a forked child, whose they are not.
        """
        if os.getpid() != self.pid:
            return None
        with self.lock:
            gateway, users = self.gateways.get(served, (None, 0))
            if self.sidecar is None or (served and gateway is None):
                return None
            if self.sidecar.process.poll() is not None:
                self.sidecar = self._new_sidecar()
            if gateway is not None and gateway.process.poll() is not None:
                gateway = self._new_gateway(served)
                self.gateways[served] = (gateway, users)
            return self.sidecar.address[len("unix:") :], (gateway.address,) if gateway is not None else ()

    def _new_sidecar(self) -> Daemon:
        directory = self._directory()
        socket = directory / f"sidecar-{time.monotonic_ns()}.sock"
        memory = [] if os.environ.get(_SAID) else ["--most-memory", str(_memory_of_the_machine() // _SHARE)]
        return Daemon("sidecar", ["sidecar", "--listen", str(socket), *memory], directory)

    def _new_gateway(self, served: Served) -> Daemon:
        directory = self._directory()
        datasets = [argument for name, uri in served for argument in ("--dataset", f"{name}={uri}")]
        if sum(map(len, datasets)) > _MOST_ARGUMENTS:
            # As YAML has it, JSON is YAML.
            config = directory / f"gateway-{time.monotonic_ns()}.yaml"
            config.write_text(json.dumps({"datasets": dict(served)}))
            datasets = ["--config", str(config)]
        socket = directory / f"gateway-{time.monotonic_ns()}.sock"
        listen = ["--listen", "127.0.0.1:0", "--unix-socket", str(socket)]
        return Daemon("gateway", ["gateway", *listen, *datasets], directory)

    def give_back_sidecar(self) -> None:
        """The reverse of :meth:`take_sidecar`."""
        with self.lock:
            self.sidecar_users -= 1
            if self.sidecar_users == 0 and self.sidecar is not None:
                self.sidecar.end()
                self.sidecar = None

    def give_back_gateway(self, served: Served) -> None:
        """The reverse of :meth:`take_gateway`."""
        with self.lock:
            daemon, users = self.gateways.pop(served)
            if users > 1:
                self.gateways[served] = (daemon, users - 1)
            else:
                daemon.end()

    def end(self) -> None:
        """Ends all of them; at the process's end."""
        if os.getpid() != self.pid:
            return
        daemons = [daemon for daemon, _ in self.gateways.values()]
        if self.sidecar is not None:
            daemons.insert(0, self.sidecar)
        for daemon in daemons:
            daemon.end()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _directory(self) -> Path:
        if self.directory is None:
            # A socket's path has room for 107 bytes only.
            base = tempfile.gettempdir()
            base = base if len(base) <= 50 else "/tmp"
            _sweep(Path(base))
            self.directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{self.pid}-", dir=base))
            self.directory_lock = _locked(self.directory)
        return self.directory


def _memory_of_the_machine(limits: Iterable[Path] = _LIMITS) -> int:
    """Bytes that this process and its children can have."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in limits:
        try:
            found.append(int(limit.read_text()))
        except (OSError, ValueError):
            continue  # not there, or "max"
    return min(found)


def _locked(directory: Path) -> BinaryIO:
    """Holds a directory for as long as what is returned is open, and this process's children are."""
    lock = open(directory / f"{_LOCK}.new", "wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Seen only once it is held.
    os.rename(lock.name, directory / _LOCK)
    return lock


def _sweep(base: Path) -> None:
    """Removes what processes that were killed left behind."""
    for lock in base.glob(f"{_PREFIX}*-*/{_LOCK}"):
        try:
            with open(lock, "rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue


_current: Optional[Daemons] = None


def of_this_process() -> Daemons:
    """The daemons of this process; a forked child has its own."""
    global _current
    if _current is None or _current.pid != os.getpid():
        _current = Daemons()
        atexit.register(_current.end)
    return _current
