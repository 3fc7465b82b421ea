"""What the Python suites share: the package, the native files, and a producer of made-up batches."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "trainer-sidecar" / "python"

if importlib.util.find_spec("penstock") is None:
    sys.path.insert(0, str(PACKAGE))
os.environ.setdefault("PENSTOCK_NATIVE", str(ROOT / "target" / "debug"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Scripts that tests start find the package where the tests find it.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tensorflow: needs a real TensorFlow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if any(item.iter_markers("tensorflow")) and importlib.util.find_spec("tensorflow") is None:
        absent("TensorFlow is not installed: pip install -r tests/python/requirements.txt")


_absent: set[str] = set()


def absent(reason: str) -> None:
    """A loud skip for a user, a failure where the real system is required."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    _absent.add(reason)
    pytest.skip(reason)


def missing(reason: str) -> None:
    """A loud skip everywhere: of what is too large to be fetched for every run."""
    _absent.add(reason)
    pytest.skip(reason, allow_module_level=True)


def pytest_terminal_summary(terminalreporter) -> None:
    for reason in sorted(_absent):
        terminalreporter.write_sep("!", f"NOT TESTED: {reason}", red=True)


@pytest.fixture(scope="session")
def native() -> Path:
    """The directory of the native files; built by `make`."""
    directory = Path(os.environ["PENSTOCK_NATIVE"])
    assert (directory / "libpenstock_tf.so").is_file(), f"no library in {directory}: run `make build`"
    return directory


@pytest.fixture(scope="session")
def binary(native: Path) -> Path:
    """The penstock binary."""
    assert (native / "penstock").is_file(), f"no binary in {native}: run `make build`"
    return native / "penstock"


@pytest.fixture(scope="session")
def producer_binary(native: Path) -> Path:
    """`trainer-sidecar/ring/examples/producer.rs`, built."""
    built = native / "examples" / "producer"
    if not built.is_file():
        subprocess.run(["cargo", "build", "--quiet", "-p", "penstock-ring", "--example", "producer"], cwd=ROOT, check=True)
    return built


class Producer:
    """A sidecar that makes its batches up; see the example's own page for the flags."""

    def __init__(self, binary: Path, socket: Path, **flags: int) -> None:
        arguments = [text for flag, number in flags.items() for text in (f"--{flag.replace('_', '-')}", str(number))]
        self.socket = str(socket)
        self.process = subprocess.Popen([binary, self.socket, *arguments], stdout=subprocess.PIPE)
        assert self.process.stdout.readline().startswith(b"listening on unix:")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def produce(producer_binary, tmp_path_factory, monkeypatch):
    """Starts producers; the environment is that of a task launched beside the last one."""
    started = []

    def start(**flags: int) -> Producer:
        # pytest's own directories are too long for a socket's path.
        directory = tmp_path_factory.mktemp("s")
        producer = Producer(producer_binary, directory / "s.sock", **flags)
        started.append(producer)
        monkeypatch.setenv("PENSTOCK_SIDECAR", producer.socket)
        monkeypatch.setenv("PENSTOCK_DATASETS", "made-up")
        return producer

    yield start
    for producer in started:
        producer.kill()


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def made_up(dtype: str, ids: np.ndarray):
    """What the producer puts into column `c_DTYPE` of the rows with these ids."""
    if dtype == "bool":
        return ids % 2 == 1
    if dtype in INTEGERS:
        return ids.astype(dtype)
    if dtype == "float16":
        return (ids % 1024).astype("float16")
    if dtype == "bfloat16":
        return (ids % 128).astype("float32")
    if dtype == "float32":
        return np.broadcast_to(ids.astype("float32")[:, None, None], (len(ids), 2, 3))
    if dtype == "float64":
        return ids.astype("float64")
    texts = ["" if i % 5 == 4 else f"row-{i}" + ("-größer" * 9 if i % 3 == 0 else "") for i in ids.tolist()]
    return texts if dtype == "string" else [b"\xff\0" + text.encode() for text in texts]


DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "string", "bytes"]


def in_ring(address: int) -> bool:
    """Whether an address of this process lies in a mapping of a ring."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:penstock-ring" in line:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start <= address < end:
                return True
    return False


ROWS = 1000


@pytest.fixture(scope="session")
def data(tmp_path_factory, binary) -> Path:
    """Four files of 250 rows in row groups of 40: ids, and columns that follow from them."""
    directory = tmp_path_factory.mktemp("data")
    for file in range(4):
        ids = np.arange(file * 250, file * 250 + 250)
        image = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids % 256, 6).astype("uint8")), 6)
        table = pa.table(
            {
                "id": ids,
                "image": image,
                "name": [f"row-{i}" for i in ids],
                "age": pa.array([None if i % 3 == 0 else i for i in ids.tolist()], pa.int32()),
            }
        )
        pq.write_table(table, directory / f"{file}.parquet", row_group_size=40)
    return directory


@pytest.fixture(scope="session")
def gateway(data, binary):
    """A gateway that serves the data as `train`."""
    process = subprocess.Popen(
        [binary, "gateway", "--listen", "127.0.0.1:0", "--dataset", f"train={data}"], stdout=subprocess.PIPE, text=True
    )
    yield process.stdout.readline().removeprefix("listening on ").strip()
    process.kill()
    process.wait()


def running(pids: list[int]) -> list[int]:
    """Which of these run; a zombie does not."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]


def gone_within(seconds: float, pids: list[int]) -> bool:
    deadline = time.monotonic() + seconds
    while running(pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
