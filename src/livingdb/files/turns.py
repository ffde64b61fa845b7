"""Turns: an ordered queue of those who write, through locks on a small file.

Each takes a number, holds the lock of that number, and waits until nobody holds a lower one.  The
locks belong to open files: who ends, however that comes, leaves the queue at once, and those
behind go on.  A turn saves work that would be lost to somebody faster and promises nothing else:
where there are no such locks, or who is ahead takes long, one goes on without it.

Whoever comes back at once goes on with the same turn for a while, though others wait: a process
that writes several times in a row has what it needs at hand, and one that begins has not.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

__all__ = ["Turns"]

_HAS_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
"""Whether there are locks of open files, as they are written down here."""
_LOCK = struct.Struct("hhqqi4x")  # type, from where, start, length, of which process
_NUMBER = struct.Struct("<q")
_KEPT = struct.Struct("<qq")  # the number of the turn that is kept, and until when
_QUEUES = 4096
_NUMBERS = 1 << 40
"""Of each queue; nobody gets to see the last."""
_LOOK_SECONDS = 0.02
"""After so long somebody who waits looks whether the one ahead is still there."""
_DEAF_SECONDS = 0.001
"""The same where nobody can be heard, or a turn is kept for somebody."""
_KEPT_SECONDS = 0.0015
"""So long a turn is kept for who came back as soon as that the last time."""
_LONGEST_TURN_SECONDS = 0.025
"""After so long a turn is kept no more."""


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
        queue = _queue_of(name)
        goes_on = _HAS_LOCKS and known.last[0] == name and known.resume()
        number = known.enter(self._path, queue) if _HAS_LOCKS and not goes_on else None
        if number is None and not goes_on:
            yield True
            return
        try:
            others = False
            if number is not None:
                has_waited = known.wait(self._patience_seconds)
                others = has_waited or known.last != (name, number - 1)
                known.last = name, number
            known.is_taken = True
            yield others
        finally:
            known.is_taken = False
            known.leave()


def _queue_of(name: str) -> int:
    """The queue of a name: two may share one, and then wait for each other in vain."""
    return int.from_bytes(name.encode()[-16:], "little") * 0x9E3779B97F4A7C15 % (1 << 64) % _QUEUES


class _Place:
    """One thread's place in a queue.

    Who has a turn holds the lock of number 0, which nobody gets, along with all up to their own.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self.last = "", 0
        """Whose turn it had last, and its number."""
        self._file: int | None = None
        self._queue = self._number = 0
        self._begun_at = self._left_at = -_LONGEST_TURN_SECONDS
        self._is_quick = False
        """Whether it came back at once the last time."""
        self._is_kept = self._was_kept = False
        """Whether its turn is kept for it, and was so before."""
        self._bells = ""
        """How the bells of those who wait at this file are called."""
        self._ringing: socket.socket | None = None

    @property
    def _base(self) -> int:
        return (self._queue + 1) * _NUMBERS

    def resume(self) -> bool:
        """Go on with the turn that was kept, if nobody had one since."""
        now = time.monotonic()
        self._is_quick = now - self._left_at < _KEPT_SECONDS
        self._was_kept, self._is_kept = self._is_kept, False
        is_over = now - self._begun_at >= _LONGEST_TURN_SECONDS
        if not self._was_kept or is_over or self._file is None:
            return False
        try:
            _lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, self._base, 1)
            if self._kept()[0] == self._number:
                return True
            _unlock(self._file, self._base, 1)
        except OSError:
            pass
        return False

    def enter(self, path: Path, queue: int) -> int | None:
        """Take a number; None if there is no file to be had."""
        try:
            if self._file is None:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                known = os.fstat(self._file)
                self._bells = f"\0livingdb-turn-{known.st_dev:x}-{known.st_ino:x}"
            self._queue, self._was_kept = queue, False
            gate = queue
            _lock(self._file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, gate, 1)
            try:
                number = (self._last_number() + 1) % _NUMBERS or 1
                os.pwrite(self._file, _NUMBER.pack(number), queue * _NUMBER.size)
                _lock(self._file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, self._base + number, 1)
            finally:
                _unlock(self._file, gate, 1)
        except OSError:
            self.leave()
            return None
        self._number = number
        return number

    def _last_number(self) -> int:
        """The number that was taken last in the queue; 0 if none was."""
        assert self._file is not None
        given = os.pread(self._file, _NUMBER.size, self._queue * _NUMBER.size)
        return int(_NUMBER.unpack(given)[0]) if len(given) == _NUMBER.size else 0

    @property
    def _kept_at(self) -> int:
        """Where the file says which turn of the queue is kept."""
        return _QUEUES * _NUMBER.size + self._queue * _KEPT.size

    def _kept(self) -> tuple[int, float]:
        """The number of the turn that is kept, 0 if none is, and for how many seconds still."""
        assert self._file is not None
        given = os.pread(self._file, _KEPT.size, self._kept_at)
        if len(given) < _KEPT.size:
            return 0, 0.0
        number, until = _KEPT.unpack(given)
        seconds = (until - time.monotonic_ns()) / 1e9
        # Of another machine, or of one that was started anew since, is another clock.
        return number, seconds if seconds <= _KEPT_SECONDS else 0.0

    def _keep(self, number: int, seconds: float) -> None:
        """Say which turn is kept, and for how long."""
        assert self._file is not None
        until = time.monotonic_ns() + int(seconds * 1e9)
        os.pwrite(self._file, _KEPT.pack(number, until), self._kept_at)

    def wait(self, seconds: float) -> bool:
        """Wait until nobody has a lower number, or for so long; whether there was a wait."""
        if self._begin() is None:
            return False
        # A lock cannot be waited for so long and no longer.  Whoever is just before rings when it
        # leaves; who was killed rings no more, so that it is looked for now and then.
        deadline = time.monotonic() + seconds
        with _Bell(self._bell_of(self._number)) as bell:
            while (pause := self._begin()) is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._is_quick = False
                    break
                bell.listen(min(left, pause))
        return True

    def _begin(self) -> float | None:
        """Have the turn if it has come; else for how many seconds to listen before the next look.

        It has come if nobody has a lower number, and no turn is kept for who left.
        """
        assert self._file is not None
        try:
            _lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, self._base, self._number)
        except OSError:
            # Who goes on with a turn that was kept may not come back once more.
            is_next = self._kept()[0] == self._number - 1 > 0
            return _DEAF_SECONDS if is_next else _LOOK_SECONDS
        number, seconds = self._kept()
        if seconds > 0:
            _unlock(self._file, self._base, self._number)
            return seconds
        if number:
            self._keep(0, 0.0)
        self._begun_at = time.monotonic()
        return None

    def _bell_of(self, number: int) -> str:
        return f"{self._bells}-{self._queue:x}-{number:x}"

    def leave(self) -> None:
        """Let those behind go on: at once, or if one does not come back soon."""
        if self._file is None:
            return
        with suppress(OSError):
            self._left_at = time.monotonic()
            is_short = self._left_at - self._begun_at < _LONGEST_TURN_SECONDS
            if self._is_quick and is_short and self._last_number() != self._number:
                self._keep(self._number, _KEPT_SECONDS)
                self._is_kept = True
            elif self._was_kept:
                self._keep(0, 0.0)
            _unlock(self._file, self._base, _NUMBERS)
            is_told = self._is_kept and self._was_kept
            if is_told or self._last_number() == self._number:
                return
            if self._ringing is None:
                self._ringing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._ringing.setblocking(False)
            self._ringing.sendto(b"!", self._bell_of(self._number + 1))

    def __del__(self) -> None:
        if self._ringing is not None:
            self._ringing.close()
        if self._file is not None:
            os.close(self._file)


class _Bell:
    """What somebody who waits listens to: a socket that lasts as long, and lies in no folder.

    Where it cannot be had, as in another container than who rings, one looks again soon.
    """

    def __init__(self, name: str):
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(name)
        except OSError:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def listen(self, seconds: float) -> None:
        """Wait until somebody rings, or for so long."""
        if self._socket is None:
            time.sleep(min(seconds, _DEAF_SECONDS))
            return
        self._socket.settimeout(seconds)
        with suppress(TimeoutError):
            self._socket.recv(1)


def _unlock(file: int, start: int, length: int) -> None:
    _lock(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, start, length)


def _lock(file: int, how: int, kind: int, start: int, length: int) -> None:
    fcntl.fcntl(file, how, _LOCK.pack(kind, os.SEEK_SET, start, length, 0))
