"""Leases: who has a folder in use, so that nobody takes away what they read.

Everybody who opens the folder shares a lock on a small file in it.  Who is alone with it knows
that nothing is being read.  A process that ends, however it ends, lets go.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from livingdb.errors import StorageFailure

__all__ = ["Lease"]


class Lease:
    """One share of a folder's use."""

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        try:
            self._file = os.open(path, flags | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_SH)
        except OSError as error:
            raise StorageFailure(f"cannot lock {path}: {error.strerror}") from None

    @classmethod
    def for_reading(cls, path: Path) -> Lease | None:
        """A share for somebody who cannot write the folder; None if there is nothing to share."""
        try:
            return cls(path, os.O_RDONLY)
        except StorageFailure:
            return None

    def is_alone(self) -> bool:
        """Whether nobody else has the folder in use at this moment."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            fcntl.flock(self._file, fcntl.LOCK_SH)
        return True

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)
