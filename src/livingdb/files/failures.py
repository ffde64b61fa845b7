"""From what the operating system says to LivingDB's error tree."""

from __future__ import annotations

import errno
import os

from livingdb.errors import LivingDBError, NotFound, StorageFailure

__all__ = ["ABSENT", "not_found", "storage_failure"]

ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""The ways an operating system says that a name is not that of a file."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def not_found(location: str) -> NotFound:
    """The error for a file that is not there."""
    return NotFound(f"there is no file {location}")


def storage_failure(error: OSError, action: str, location: str) -> LivingDBError:
    """The error for an action that failed; it names the file and the reason."""
    if error.errno in _FULL:
        reason = "the disk is full"
    elif error.errno is not None:
        reason = os.strerror(error.errno)
    else:
        reason = str(error)
    return StorageFailure(f"cannot {action} {location}: {reason}")
