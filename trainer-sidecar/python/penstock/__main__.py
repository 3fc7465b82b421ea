"""``python -m penstock`` and the console script: the binary itself."""

from __future__ import annotations

import os
import sys

from . import _native
from .errors import PenstockError


def main() -> None:
    """Becomes the binary, with this process's arguments."""
    try:
        binary = str(_native.path("penstock"))
    except PenstockError as error:
        sys.exit(f"penstock: {error}")
    # `run` starts scripts with the first python3 on the path: that of the environment that this package
    # is in, also when nobody activated it.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.execve(binary, [binary, *sys.argv[1:]], {**os.environ, "PATH": path})


if __name__ == "__main__":
    main()
