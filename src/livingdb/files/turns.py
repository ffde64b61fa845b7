"""Turns: an ordered queue of those who write, through locks on a small file.

Each takes a number, holds the lock of that number, and waits until nobody holds a lower one.  The
locks belong to open files: who ends, however that comes, leaves the queue at once, and those
behind go on.  A turn saves work that would be lost to somebody faster and promises nothing else:
where there are no such locks, or who is ahead takes long, one goes on without it.

Whoever comes back at once goes on with the same turn for a while, though others wait: a process
that writes several times in a row has what it needs at hand, and one that begins has not.  Who
waits may offer its work to the one whose turn it is, and then has nothing to wait for any more: so
a turn may last for as long as the work of all who wait is taken and done.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from livingdb.files.file_locks import (
    HAS_LOCKS,
    find_holder,
    try_lock,
    unlock,
    wait_for_lock,
)
from livingdb.files.offers import Outcome, Slots, TakenOffer, clear_slots

__all__ = ["Offer", "Turn", "Turns"]

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
"""So long at least a turn is kept for who came back as soon as that the last time."""
_LONGEST_KEPT_SECONDS = 0.025
_LONGEST_TURN_SECONDS = 0.025
"""After so long a turn is kept no more, if meanwhile somebody waited whose work was not taken."""

Offer = Callable[[], bytes | None]
"""The work that somebody who has to wait leaves to others; None if nobody else can do it."""


@dataclass(frozen=True)
class Turn:
    """A turn, or what became of the work of somebody who waited for one.

    `others`: whether others may have had a turn since this thread's last.  `outcome` tells what
    somebody else who took the offer made of it.
    """

    others: bool
    outcome: Outcome | None = None
    take_offers: Callable[[int], list[TakenOffer]] = field(default=lambda most: [])
    """What those who wait next have offered, so many at most."""


class Turns:
    """The queues of one file; threads and processes may share them."""

    def __init__(self, path: Path, patience_seconds: float = 2.0, beside: Path | None = None):
        """`beside` is the file for which there are turns: who cannot write that offers nothing."""
        self._path = path
        self._beside = beside
        self._patience_seconds = patience_seconds
        self._local = threading.local()

    def clear_offers(self) -> bool:
        """Remove what killed processes have offered; whether nothing that was is there any more."""
        if not HAS_LOCKS or not self._path.exists():
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                return clear_slots(file)
            finally:
                os.close(file)
        except OSError:
            return False

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether nobody else does what has that name at the moment; nobody waits for it."""
        file = None
        try:
            if HAS_LOCKS:
                with suppress(OSError):
                    file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if file is None:
                yield True
                return
            is_first = False
            with suppress(OSError):
                is_first = try_lock(file, (_QUEUES + 1) * _NUMBERS + _queue_of(name))
            yield is_first
        finally:
            if file is not None:
                os.close(file)

    @contextmanager
    def take(self, name: str, offer: Offer | None = None) -> Iterator[Turn]:
        """Be the one whose turn it is among those who take one of a name, or leave them the work.

        Who has a turn takes no second one.
        """
        known: _Place | None = getattr(self._local, "place", None)
        if known is None:
            known = self._local.place = _Place(self._path, self._beside)
        if known.is_taken:
            yield Turn(False)
            return
        queue = _queue_of(name)
        goes_on = HAS_LOCKS and known.last[0] == name and known.resume()
        number = known.enter(queue) if HAS_LOCKS and not goes_on else None
        if number is None and not goes_on:
            yield Turn(True)
            return
        try:
            others, outcome = False, None
            if number is not None:
                has_waited, outcome = known.wait(self._patience_seconds, offer)
                others = has_waited or known.last != (name, number - 1)
                known.last = (name, number) if outcome is None else ("", 0)
            known.is_taken = True
            yield Turn(others, outcome, known.take_offers)
        finally:
            known.is_taken = False
            known.leave()


def _queue_of(name: str) -> int:
    """The queue of a name: two may share one, and then wait for each other in vain."""
    return int.from_bytes(name.encode()[-16:], "little") * 0x9E3779B97F4A7C15 % (1 << 64) % _QUEUES


class _Place:
    """One thread's place in a queue.

    Who has a turn holds the lock of number 0, which nobody gets.
    """

    def __init__(self, path: Path, beside: Path | None) -> None:
        self._path, self._beside = path, beside
        self.is_taken = False
        self.last = "", 0
        """Whose turn it had last, and its number."""
        self._file: int | None = None
        self._slots: Slots | None = None
        self._is_safe = False
        """Whether only those can offer something who could do it themselves."""
        self._queue = self._number = 0
        self._next = self._told = 0
        """The first number behind it whose work it has not done, and the last one it called."""
        self._taken: list[TakenOffer] = []
        """What others offered since it took its number."""
        self._has_turn = False
        self._begun_at = self._left_at = -_LONGEST_TURN_SECONDS
        self._served_at = self._acted_at = -_LONGEST_TURN_SECONDS
        """When it had last taken the work of all who waited, and when it last went on.

        Somebody who has just come may not have offered it yet, and counts from the next time on.
        """
        self._unserved = 0
        """The first number whose work it could not take the last time."""
        self._kept_seconds = _KEPT_SECONDS
        """How soon it has to come back: in half the time that it took last."""
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
        self._is_quick = now - self._left_at < self._kept_seconds
        self._was_kept, self._is_kept = self._is_kept, False
        is_over = now - self._begun_at >= _LONGEST_TURN_SECONDS
        if not self._was_kept or is_over or self._file is None:
            return False
        with suppress(OSError):
            if try_lock(self._file, self._base):
                if self._kept()[0] == self._number:
                    self._acted_at, self._has_turn = now, True
                    return True
                unlock(self._file, self._base)
        return False

    def enter(self, queue: int) -> int | None:
        """Take a number; None if there is no file to be had."""
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                known = os.fstat(self._file)
                self._is_safe = self._has_same_writers(self._file)
                self._bells = f"\0livingdb-turn-{known.st_dev:x}-{known.st_ino:x}"
            self._queue, self._was_kept = queue, False
            gate = queue
            wait_for_lock(self._file, gate)
            try:
                number = (self._last_number() + 1) % _NUMBERS or 1
                # Whoever reads the number takes it for somebody's who is there.
                wait_for_lock(self._file, self._base + number)
                os.pwrite(self._file, _NUMBER.pack(number), queue * _NUMBER.size)
            finally:
                unlock(self._file, gate)
        except OSError:
            self.leave()
            return None
        self._number, self._next, self._told = number, number + 1, 0
        self._taken.clear()
        return number

    def _has_same_writers(self, file: int) -> bool:
        """Whether nobody can write this file who cannot write the one that it lies beside."""
        if self._beside is None:
            return True
        other, known = os.stat(self._beside), os.fstat(file)
        if known.st_uid == os.geteuid() and (known.st_mode ^ other.st_mode) & 0o777:
            os.fchmod(file, other.st_mode & 0o777)
            known = os.fstat(file)
        is_more = known.st_mode & ~other.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_shared = known.st_mode & stat.S_IWGRP and known.st_gid != other.st_gid
        return known.st_uid in (0, other.st_uid) and not is_more and not is_shared

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
        return number, seconds if seconds <= _LONGEST_KEPT_SECONDS else 0.0

    def _keep(self, number: int, seconds: float) -> None:
        """Say which turn is kept, and for how long."""
        assert self._file is not None
        until = time.monotonic_ns() + int(seconds * 1e9)
        os.pwrite(self._file, _KEPT.pack(number, until), self._kept_at)

    # --- waiting -----------------------------------------------------------------------------

    def wait(self, seconds: float, offer: Offer | None = None) -> tuple[bool, Outcome | None]:
        """Wait until nobody has a lower number, or for so long, or until what is offered is done.

        Gives whether there was a wait, and what became of the offer.
        """
        if self._begin() is None:
            return False, None
        # A lock cannot be waited for so long and no longer.  Whoever is just before rings when it
        # leaves; who was killed rings no more, so that it is looked for now and then.
        deadline = time.monotonic() + seconds
        with _Bell(self._bell_of(self._number)) as bell:
            is_offered = offer is not None and self._offer(offer())
            try:
                while (pause := self._begin()) is not None:
                    if is_offered and self._open_slots().is_done(self._queue, self._number):
                        self._next = _NUMBERS  # who did it calls the next one
                        break
                    left = deadline - time.monotonic()
                    if left <= 0:
                        self._is_quick = False
                        break
                    bell.listen(min(left, pause))
                return True, self._settle() if is_offered else None
            finally:
                if is_offered:
                    self._open_slots().clear(self._queue, self._number)

    def _offer(self, work: bytes | None) -> bool:
        """Leave work to who has a turn; whether that is possible."""
        is_possible = work is not None and self._is_safe
        return is_possible and self._open_slots().put(self._queue, self._number, work or b"")

    def _settle(self) -> Outcome | None:
        """What became of the offer, which nobody begins to do any more; None if nothing did."""
        slots, mine = self._open_slots(), (self._queue, self._number)
        found = slots.outcome(*mine)
        return found if found is not None and found.is_done else slots.withdraw(*mine)

    def _begin(self) -> float | None:
        """Have the turn if it has come; else for how many seconds to listen before the next look.

        It has come if nobody has a lower number, but for those whose work is done, and no turn is
        kept for who left.
        """
        assert self._file is not None
        if self._is_behind():
            return _LOOK_SECONDS
        if not try_lock(self._file, self._base):
            # Who goes on with a turn that was kept may not come back once more.
            return _DEAF_SECONDS if self._kept()[0] else _LOOK_SECONDS
        number, seconds = self._kept()
        if seconds > 0:
            unlock(self._file, self._base)
            return seconds
        if number:
            self._keep(0, 0.0)
        self._begun_at = self._acted_at = time.monotonic()
        self._has_turn = True
        return None

    def _is_behind(self) -> bool:
        """Whether somebody who waits has a lower number, and its work is not done."""
        assert self._file is not None
        start, end = self._base + 1, self._base + self._number
        while start < end:
            held = find_holder(self._file, start, end - start)
            if held is None:
                return False
            if not self._open_slots().is_done(self._queue, held[0] - self._base):
                return True
            start = held[0] + held[1]
        return False

    def _open_slots(self) -> Slots:
        assert self._file is not None
        if self._slots is None:
            self._slots = Slots(self._file)
        return self._slots

    # --- having a turn -----------------------------------------------------------------------

    def take_offers(self, most: int) -> list[TakenOffer]:
        """What those who wait next have offered, so many at most: the others come after them."""
        found: list[TakenOffer] = []
        if self._file is None or not self._has_turn or not self._is_safe:
            return found
        with suppress(OSError):
            last = self._last_number()
            while self._next <= last and len(found) < most:
                if find_holder(self._file, self._base + self._next) is not None:
                    taken = self._open_slots().take(self._queue, self._next, self._ring)
                    if taken is None:
                        break
                    found.append(taken)
                self._next += 1
            if self._next > last or self._next != self._unserved:
                self._served_at = time.monotonic()
            self._unserved = self._next
        self._taken = [one for one in self._taken if not one.is_done] + found
        return found

    def _bell_of(self, number: int) -> str:
        return f"{self._bells}-{self._queue:x}-{number:x}"

    def leave(self) -> None:
        """Let those behind go on: at once, or if one does not come back soon."""
        if self._file is None:
            return
        had_turn, self._has_turn = self._has_turn, False
        with suppress(OSError):
            self._left_at = time.monotonic()
            if had_turn:
                seconds = (self._left_at - self._acted_at) / 2
                self._kept_seconds = min(max(seconds, _KEPT_SECONDS), _LONGEST_KEPT_SECONDS)
            # Those whose work was taken and is not done come first.
            if self._slots is not None:
                self._slots.leave()
            left = [one.number for one in self._taken if not one.is_done]
            first = min(left, default=self._next)
            if had_turn and not left and self._served_at >= self._acted_at:
                self._begun_at = self._left_at  # who waits came while it worked for all others
            is_short = self._left_at - self._begun_at < _LONGEST_TURN_SECONDS
            last = self._last_number()
            if had_turn and self._is_quick and is_short and last != self._number:
                self._keep(self._number, self._kept_seconds)
                self._is_kept = True
            elif had_turn and self._was_kept:
                self._keep(0, 0.0)
            unlock(self._file, self._base, _NUMBERS)
            is_told = self._is_kept and self._told == first
            if not is_told and first <= last:
                self._told = first
                self._ring(first)

    def _ring(self, number: int) -> None:
        """Wake who waits with a number."""
        with suppress(OSError):
            if self._ringing is None:
                self._ringing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._ringing.setblocking(False)
            self._ringing.sendto(b"!", self._bell_of(number))

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
        self._socket: socket.socket | None = None
        with suppress(OSError):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.bind(name)
            return
        self.__exit__()
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
