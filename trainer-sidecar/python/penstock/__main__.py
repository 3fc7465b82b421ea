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
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
