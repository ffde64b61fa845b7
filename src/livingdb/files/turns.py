"""Turns: an ordered queue of those who write, through locks on a small file.

Each takes a number, holds the lock of that number, and waits until nobody holds a lower one.  The
locks belong to open files: who ends, however that comes, leaves the queue at once, and those
behind go on.  A turn saves work that would be lost to somebody faster and promises nothing else:
where there are no such locks, or who is ahead takes long, one goes on without it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Turns"]

_HAS_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
"""Whether there are locks of open files, as they are written down here."""
_LOCK = struct.Struct("hhqqi4x")  # type, from where, start, length, of which process
_NUMBER = struct.Struct("<q")
_QUEUES = 4096
_NUMBERS = 1 << 40
"""Of each queue; nobody gets to see the last."""


class Turns:
    """The queues of one file; threads and processes may share them."""

    def __init__(self, path: Path, patience_seconds: float = 2.0):
        self._path = path
        self._patience_seconds = patience_seconds
        self._local = threading.local()

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether nobody else does what has that name at the moment; nobody waits for it."""
        file = None
        try:
            if _HAS_LOCKS:
                with suppress(OSError):
                    file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if file is None:
                yield True
                return
            try:
                place = (_QUEUES + 1) * _NUMBERS + _queue_of(name)
                _lock(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, place, 1)
            except OSError:
                yield False
            else:
                yield True
        finally:
            if file is not None:
                os.close(file)

    @contextmanager
    def take(self, name: str) -> Iterator[bool]:
        """Be the one whose turn it is among those who take one of a name.

        Gives whether others may have had one since this thread's last.  Who has a turn takes no
        second one.
        """
        known: _Place | None = getattr(self._local, "place", None)
        if known is None:
            known = self._local.place = _Place()
        if known.is_taken:
            yield False
            return
        number = known.enter(self._path, _queue_of(name)) if _HAS_LOCKS else None
        if number is None:
            yield True
            return
        try:
            has_waited = known.wait(number, self._patience_seconds)
            is_next = known.last == (name, number - 1)
            known.last = name, number
            known.is_taken = True
            yield has_waited or not is_next
        finally:
            known.is_taken = False
            known.leave()


def _queue_of(name: str) -> int:
    """The queue of a name: two may share one, and then wait for each other in vain."""
    return int.from_bytes(name.encode()[-16:], "little") * 0x9E3779B97F4A7C15 % (1 << 64) % _QUEUES


class _Place:
    """One thread's place in a queue."""

    def __init__(self) -> None:
        self.is_taken = False
        self.last = "", 0
        """Whose turn it had last, and its number."""
        self._file: int | None = None
        self._waiting: _Waiting | None = None
        self._base = 0

    def enter(self, path: Path, queue: int) -> int | None:
        """Take a number; None if there is no file to be had."""
        try:
            if self._file is None:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._base = (queue + 1) * _NUMBERS
            gate = queue
            _wait_for(self._file, gate, 1)
            try:
                given = os.pread(self._file, _NUMBER.size, queue * _NUMBER.size)
                number = _NUMBER.unpack(given)[0] + 1 if len(given) == _NUMBER.size else 1
                number = number % _NUMBERS or 1
                os.pwrite(self._file, _NUMBER.pack(number), queue * _NUMBER.size)
                _wait_for(self._file, self._base + number, 1)
            finally:
                _unlock(self._file, gate, 1)
        except OSError:
            self.leave()
            return None
        return number

    def wait(self, number: int, seconds: float) -> bool:
        """Wait until nobody has a lower number, or for so long; whether there was a wait."""
        assert self._file is not None
        try:
            _lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, self._base, number)
        except OSError:
            pass
        else:
            return False
        # A lock can be waited for, and for how long cannot be said: another thread waits, and who
        # does not want to wait any longer leaves the file to it.
        if self._waiting is None or not self._waiting.is_alive():
            self._waiting = _Waiting(self._file)
            self._waiting.start()
        if not self._waiting.wait(self._base, number, seconds):
            self._file = self._waiting = None
        return True

    def leave(self) -> None:
        """Let those behind go on."""
        if self._file is not None:
            with suppress(OSError):
                _unlock(self._file, self._base, _NUMBERS)

    def __del__(self) -> None:
        if self._waiting is not None:
            self._waiting.leave()
        if self._file is not None:
            os.close(self._file)


class _Waiting(threading.Thread):
    """Waits for locks of a file; if nobody wants one any more when it comes, the file is closed."""

    def __init__(self, file: int):
        super().__init__(name="livingdb-turn", daemon=True)
        self._file = file
        self._base = self._number = 0
        self._asked, self._got = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._got.acquire()
        self._deciding = threading.Lock()
        self._has_come = self._is_left = False

    def run(self) -> None:
        """Wait whenever that is asked for, until it is left."""
        while self._asked.acquire() and not self._is_left:
            with suppress(OSError):  # one goes on without
                # Who is just before is waited for first, so that each who leaves wakes one.
                _wait_for(self._file, self._base + self._number - 1, 1)
                if not self._is_left:
                    _wait_for(self._file, self._base, self._number)
            with self._deciding:
                self._has_come = True
                if self._is_left:
                    os.close(self._file)
                    return
                self._got.release()

    def wait(self, base: int, number: int, seconds: float) -> bool:
        """Wait until nobody has a lower number, or for so long; if so, the file is not ours."""
        self._base, self._number, self._has_come = base, number, False
        self._asked.release()
        if self._got.acquire(timeout=seconds):
            return True
        with self._deciding:
            if self._has_come:
                return self._got.acquire()
            self._is_left = True
            _unlock(self._file, base, _NUMBERS)
            return False

    def leave(self) -> None:
        """There is nothing to wait for any more."""
        self._is_left = True
        self._asked.release()


def _wait_for(file: int, start: int, length: int) -> None:
    _lock(file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, start, length)


def _unlock(file: int, start: int, length: int) -> None:
    _lock(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, start, length)


def _lock(file: int, how: int, kind: int, start: int, length: int) -> None:
    fcntl.fcntl(file, how, _LOCK.pack(kind, os.SEEK_SET, start, length, 0))
