"""The wheel, in an environment that has nothing but numpy.

PENSTOCK_WHEEL names one that `make wheel` made; without it, one is made of the native files of these tests.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from conftest import PACKAGE, ROWS, missing


def stripped(native: Path, directory: Path) -> Path:
    """The native files without what only a debugger reads, most of their bytes."""
    for name in ("penstock", "libpenstock_tf.so"):
        subprocess.run(["strip", "-o", directory / name, native / name], check=True)
    return directory


@pytest.fixture(scope="module")
def wheel(native, tmp_path_factory) -> Path:
    if os.environ.get("PENSTOCK_WHEEL"):
        return Path(os.environ["PENSTOCK_WHEEL"]).resolve()
    made = tmp_path_factory.mktemp("wheel")
    # A build leaves its traces where the sources are.
    sources = shutil.copytree(PACKAGE, made / "sources", ignore=shutil.ignore_patterns("_native", "build", "*.egg-info"))
    environment = {**os.environ, "PENSTOCK_NATIVE": str(stripped(native, tmp_path_factory.mktemp("native")))}
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", made, sources], env=environment, check=True)
    return next(made.glob("*.whl"))


def bare_environment() -> "dict[str, str]":
    """Without what shows the package of these tests."""
    return {name: value for name, value in os.environ.items() if name not in ("PENSTOCK_NATIVE", "PYTHONPATH")}


class Bare:
    """An environment with the wheel and, from the one of these tests, such packages as are named."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.python = directory / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", self.python]
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], env=bare_environment(), check=True)
        self.packages = next(directory.glob("lib/python*/site-packages"))

    def lend(self, *names: str) -> None:
        for name in names:
            found = Path(importlib.util.find_spec(name).submodule_search_locations[0])
            for part in (found, found.with_name(f"{name}.libs")):
                if part.exists():
                    (self.packages / part.name).symlink_to(part)

    def run(self, *arguments: "str | Path") -> str:
        done = subprocess.run([self.python, *arguments], env=bare_environment(), stdout=subprocess.PIPE, text=True, cwd="/")
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Bare:
    bare = Bare(tmp_path_factory.mktemp("bare"), wheel)
    bare.lend("numpy")
    return bare


def test_it_holds_what_it_needs_for_every_python_3(wheel):
    name, version, *tags = wheel.stem.split("-")
    assert (name, tags[:2]) == ("penstock", ["py3", "none"]) and tags[2].startswith(("linux_", "manylinux"))
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        metadata = files.read(f"penstock-{version}.dist-info/METADATA").decode().splitlines()
        assert "Root-Is-Purelib: false" in files.read(f"penstock-{version}.dist-info/WHEEL").decode()
    sources = {f"penstock/{path.name}" for path in (PACKAGE / "penstock").glob("*.py")}
    assert sources | {"penstock/py.typed", "penstock/_native/penstock", "penstock/_native/libpenstock_tf.so"} <= names
    assert [line for line in metadata if line.startswith("Requires-Dist") and "extra" not in line] == ["Requires-Dist: numpy>=1.22"]
    extras = {line.split(": ")[1] for line in metadata if line.startswith("Provides-Extra")}
    assert extras == {"tensorflow", "keras", "torch", "jax"}


def test_a_feed_is_read_and_the_binary_is_on_the_path(bare, data):
    script = f"""if True:
        import json, penstock
        ids = [batch["id"].tolist() for batch in penstock.feed({str(data)!r}, columns=["id"], batch_size=100, shuffle="rows", seed=1)]
        print(json.dumps([penstock.__file__, ids]))
    """
    place, ids = json.loads(bare.run("-c", script))
    assert Path(place).is_relative_to(bare.packages)
    assert sorted(np.concatenate(ids)) == list(range(ROWS)) and ids[0] != list(range(100))
    told = subprocess.run([bare.python.with_name("penstock"), "version"], stdout=subprocess.PIPE, text=True, check=True)
    assert told.stdout.startswith("penstock ")


TENSORFLOW = """if True:
    import sys, penstock, tensorflow as tf
    with penstock.feed(sys.argv[1], columns=["id", "image", "name"], batch_size=100, epochs=2) as feed:
        dataset = feed.tf()
        assert dataset.element_spec["image"] == tf.TensorSpec([100, 6], tf.uint8), dataset.element_spec
        total = tf.function(lambda: dataset.reduce(tf.constant(0, tf.int64), lambda sum, batch: sum + tf.reduce_sum(batch["id"])))
        first = next(iter(dataset))
        assert first["name"].numpy().tolist() == [b"row-%d" % i for i in range(100)]
        print(tf.__version__, int(total()), penstock.stats().copied)
"""


@pytest.mark.tensorflow
def test_tensorflow_loads_its_op(wheel, data, tmp_path):
    bare = Bare(tmp_path / "bare", wheel)
    (bare.packages / "lent.pth").write_text(str(Path(importlib.util.find_spec("tensorflow").origin).parents[1]))
    _, total, copied = bare.run("-c", TENSORFLOW, str(data)).split()
    assert (int(total), copied) == (2 * ROWS * (ROWS - 1) // 2, "0")


def test_the_oldest_tensorflow_loads_its_op(wheel, data, tmp_path):
    """Another 200 MB and another Python environment: for whoever has them, and before a release."""
    oldest = os.environ.get("PENSTOCK_TF_OLDEST")
    if oldest is None:
        missing("TensorFlow 2.15: PENSTOCK_TF_OLDEST names no Python that has it")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path)
    for name in ("penstock", "libpenstock_tf.so"):
        (tmp_path / "penstock" / "_native" / name).chmod(0o755)
    environment = {**bare_environment(), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([oldest, "-c", TENSORFLOW, str(data)], env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stdout.startswith("2.15."), done
    assert done.stdout.split()[1:] == [str(2 * ROWS * (ROWS - 1) // 2), "0"]
