"""The wheel: of one platform, for it holds native files, and of every Python 3, for these are loaded by ctypes.

In: the directory that PENSTOCK_NATIVE names, else ``penstock/_native``. Out: a wheel that has them; without them there is
none, but an editable install may come before its native files.
"""

import os
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

NATIVES = ("libpenstock_tf.so", "penstock")


class Platform(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", super().get_tag()[2]


class WithNatives(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        source = Path(os.environ.get("PENSTOCK_NATIVE") or Path(__file__).parent / "penstock" / "_native")
        target = Path(self.build_lib, "penstock", "_native")
        target.mkdir(parents=True, exist_ok=True)
        for name in NATIVES:
            if not (source / name).is_file():
                raise SystemExit(f"{source / name} is missing: run `make wheel`, or name the directory that has it in PENSTOCK_NATIVE")
            # Not by setuptools: it takes a file that is no older for the same.
            (target / name).write_bytes((source / name).read_bytes())
            (target / name).chmod(0o755)


setup(distclass=Platform, cmdclass={"bdist_wheel": Wheel, "build_py": WithNatives})
