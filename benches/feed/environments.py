"""Makes an environment for every peer that needs one of its own, and for the plot: DIRECTORY/PEER, of the pinned packages in environments/PEER.txt.

Prints {PEER: {"python": PATH}} or {PEER: {"missing": WHY}} as one JSON line. What was made of the same packages stays.

PyPI's torch brings gigabytes of CUDA along, so that peers on torch take Debian's, which is of the CPU alone: for them
`apt install python3-torch` comes first. Packages are installed without what they depend on, for all is listed.
"""

import json
import pathlib
import subprocess
import sys

#: The interpreter that Debian's packages are for.
DEBIAN = "/usr/bin/python3"
#: Peers, what they are called in Python, and whether they need torch.
PEERS = {
    "grain": ("grain", False),
    "huggingface": ("datasets", False),
    "litdata": ("litdata", True),
    "mosaicml": ("streaming", True),
    "petastorm": ("petastorm", False),
    "plot": ("matplotlib.pyplot", False),
    "ray": ("ray.data", False),
    "torch": ("torch", True),
}


def make(directory, peer, module, on_torch):
    """The interpreter of a peer's environment. RuntimeError with the last words of what failed."""
    wanted = (pathlib.Path(__file__).parent / "environments" / f"{peer}.txt").read_text()
    done, python = directory / peer / "installed.txt", directory / peer / "bin" / "python"
    if done.exists() and done.read_text() == wanted:
        return python
    options = ["--system-site-packages"] if on_torch else []
    if on_torch:
        run(DEBIAN, "-c", "import torch")
    run(DEBIAN if on_torch else sys.executable, "-m", "venv", "--clear", *options, directory / peer)
    packages = [line for line in wanted.splitlines() if line and not line.startswith("#")]
    # Also what the system has of another version is installed here.
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed", "--no-deps", *packages)
    run(python, "-c", f"import {module}")
    done.write_text(wanted)
    return python


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip().splitlines()[-1])


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    found = {}
    for peer, (module, on_torch) in PEERS.items():
        try:
            found[peer] = {"python": str(make(directory, peer, module, on_torch))}
        except (RuntimeError, OSError) as error:
            found[peer] = {"missing": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
