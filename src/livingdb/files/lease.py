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

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_SH)
        except OSError as error:
            raise StorageFailure(f"cannot lock {path}: {error.strerror}") from None

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
