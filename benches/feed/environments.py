"""Makes an environment for every peer that needs one of its own, and for the plot: DIRECTORY/PEER, of the pinned packages in environments/PEER.txt.

Prints {PEER: {"python": PATH}} or {PEER: {"missing": WHY}} as one JSON line. What was made of the same packages stays.

TensorFlow, which all end in, is two gigabytes: it has an environment that is lent to the peers'. What these have
themselves, numpy foremost, they take of their own.

PyPI's torch brings gigabytes of CUDA along, so that peers on torch take Debian's, which is of the CPU alone: for them
`apt install python3-torch` comes first. Packages are installed without what they depend on, for all is listed.
"""

import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass

#: The interpreter that Debian's packages are for.
DEBIAN = "/usr/bin/python3"
TENSORFLOW = "tensorflow"


@dataclass(frozen=True)
class Peer:
    """``module`` is what it is called in Python."""

    module: str
    on_torch: bool = False
    on_tensorflow: bool = True


#: TensorFlow's comes before those that it is lent to.
PEERS = {
    TENSORFLOW: Peer("tensorflow", on_tensorflow=False),
    "grain": Peer("grain"),
    "huggingface": Peer("datasets"),
    "litdata": Peer("litdata", on_torch=True),
    "mosaicml": Peer("streaming", on_torch=True),
    "petastorm": Peer("petastorm"),
    "plot": Peer("matplotlib.pyplot", on_tensorflow=False),
    "ray": Peer("ray.data"),
    "torch": Peer("torch", on_torch=True),
}


def make(directory, name, peer):
    """The interpreter of a peer's environment. RuntimeError with the last words of what failed."""
    wanted = packages(name) + (["and of TensorFlow's environment:", *packages(TENSORFLOW)] if peer.on_tensorflow else [])
    done, python = directory / name / "installed.json", directory / name / "bin" / "python"
    if done.exists() and json.loads(done.read_text()) == wanted:
        return python
    options = ["--system-site-packages"] if peer.on_torch else []
    if peer.on_torch:
        run(DEBIAN, "-c", "import torch")
    run(DEBIAN if peer.on_torch else sys.executable, "-m", "venv", "--clear", *options, directory / name)
    # Also what the system has of another version is installed here.
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed", "--no-deps", *packages(name))
    if peer.on_tensorflow:
        lent = site_packages(directory / TENSORFLOW / "bin" / "python")
        (site_packages(python) / "tensorflow.pth").write_text(f"{lent}\n")
    run(python, "-c", f"import {peer.module}" + (", tensorflow" if peer.on_tensorflow else ""))
    done.write_text(json.dumps(wanted))
    return python


def packages(name):
    lines = (pathlib.Path(__file__).parent / "environments" / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def site_packages(python):
    return pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def run(*command):
    """What it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip().splitlines()[-1])
    return done.stdout


def main():
    directory = pathlib.Path(sys.argv[1]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, peer in PEERS.items():
        try:
            found[name] = {"python": str(make(directory, name, peer))}
        except (RuntimeError, OSError) as error:
            found[name] = {"missing": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
