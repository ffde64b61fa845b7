"""Locks on bytes of a file that belong to whoever opened it, and end with them.

A process that ends, however that comes, holds none any more, at once.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

__all__ = ["HAS_LOCKS", "find_holder", "is_held", "try_lock", "unlock", "wait_for_lock"]

HAS_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
"""Whether there are locks of open files, as they are written down here."""
_LOCK = struct.Struct("hhqqi4x")  # type, from where, start, length, of which process


def try_lock(file: int, start: int, length: int = 1) -> bool:
    """Lock bytes that nobody else holds; whether that is so."""
    try:
        _ask(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, start, length)
    except (BlockingIOError, PermissionError):
        return False
    return True


def wait_for_lock(file: int, start: int) -> None:
    """Lock a byte as soon as nobody else holds it."""
    _ask(file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, start, 1)


def unlock(file: int, start: int, length: int = 1) -> None:
    """Hold bytes no longer."""
    _ask(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, start, length)


def find_holder(file: int, start: int, length: int = 1) -> tuple[int, int] | None:
    """Where bytes that somebody else holds begin among these, and how many; None if none are."""
    told = _ask(file, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, start, length)
    kind, _, found, count, _ = _LOCK.unpack(told)
    return None if kind == fcntl.F_UNLCK else (found, count)


def is_held(file: int, place: int) -> bool:
    """Whether somebody else holds a byte."""
    return find_holder(file, place) is not None


def _ask(file: int, how: int, kind: int, start: int, length: int) -> bytes:
    given = _LOCK.pack(kind, os.SEEK_SET, start, length, 0)
    return bytes(fcntl.fcntl(file, how, given))
