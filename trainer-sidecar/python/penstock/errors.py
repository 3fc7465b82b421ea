"""What can go wrong, one class a kind; every text is one line that says what to do."""

from __future__ import annotations


class PenstockError(Exception):
    """Anything that penstock reports."""


class ArgumentError(PenstockError, ValueError):
    """An argument that cannot be, noticed before anything is started."""


class FeedError(PenstockError):
    """The feed was refused or cannot go on: unknown dataset, missing column, bad file, null, …

    ``code`` is the machine-readable kind, for example ``"UnknownColumn"``.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class SidecarError(PenstockError):
    """The sidecar died, is not there, or does not answer."""


class AllSlotsHeldError(PenstockError):
    """No batch can come because this process holds them all, and must say of each that it is done with it."""


class CopyWarning(UserWarning):
    """Batches are copied, because this process keeps as many as their feed has slots."""


class ClosedError(PenstockError):
    """The feed was closed."""


class ForkedError(PenstockError):
    """A feed was used in a forked child of the process that opened it."""


class NativeError(PenstockError):
    """The library or the binary is missing, of another release, or failed inside."""
