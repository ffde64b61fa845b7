"""Offers: work that somebody who waits for a turn leaves to the one who has it.

An offer lies in a slot of the file of the turns, in two cells.  One belongs to who offers: the
work, and whether it is withdrawn.  The other belongs to the one that took it: under which name the
outcome will be known, and that it is done.  Each of them writes its own cell first and then reads
the other's, so that of an offer that is withdrawn while it is done at least one of them knows:
who does the work announces its outcome before it counts, and gives it up if the offer was
withdrawn by then; who withdraws and finds it announced has to look whether it counts.

Both hold a lock of the slot as long as they have to do with it, so that nobody else uses it.
Nobody does what was offered before the machine was started, or in another file of which this is a
copy: an offer says which start and which file it belongs to.  What was offered does not stay in
the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from livingdb.files.file_locks import is_held, try_lock, unlock

__all__ = ["NAME_BYTES", "Outcome", "Slots", "TakenOffer", "clear_slots"]

NAME_BYTES = 32
"""The length of the name of an outcome."""
_OFFERED, _WITHDRAWN = 1, 2
_TAKEN, _ANNOUNCED, _DONE, _DECLINED = 1, 2, 3, 4

_SLOTS, _SLOT_BYTES = 64, 1 << 16
_SLOTS_AT = 1 << 20
"""Where the slots begin in the file."""
_STATE = struct.Struct("<q")
_FILE, _LOW = struct.Struct("<II"), (1 << 32) - 1
_OFFER = struct.Struct("<qqqq16s16s")  # state, queue, number, length, start and file, digest
_ANSWER = struct.Struct(f"<qqq{NAME_BYTES}s")  # queue, number, state, name
_ANSWER_AT, _WORK_AT = 128, 256
_MOST_BYTES = _SLOT_BYTES - _WORK_AT
_FIRST_BYTES = 4096
_OFFER_LOCKS = 1 << 60
"""Where the locks of those are who offer, and then of those who take; no number is as high."""
_TAKER_LOCKS = _OFFER_LOCKS + _SLOTS


@dataclass(frozen=True)
class Outcome:
    """What became of an offer: its outcome by name."""

    state: int
    name: bytes

    @property
    def is_done(self) -> bool:
        """Whether it counts."""
        return self.state == _DONE

    @property
    def is_announced(self) -> bool:
        """Whether it counts, or may: the name tells."""
        return self.state in (_ANNOUNCED, _DONE)

    @property
    def is_declined(self) -> bool:
        """Whether who took it cannot do such work."""
        return self.state == _DECLINED


class Slots:
    """The offers in one file that is open, for one thread that may offer or take some."""

    def __init__(self, file: int):
        self._file = file
        known = os.fstat(file)
        self._here = _this_start() + _FILE.pack(known.st_dev & _LOW, known.st_ino & _LOW)
        self._taken: dict[int, TakenOffer] = {}
        """By slot: a lock does not keep its own holder away."""

    # --- who offers --------------------------------------------------------------------------

    def put(self, queue: int, number: int, work: bytes) -> bool:
        """Offer work; whether there is a place for it."""
        slot = _slot_of(queue, number)
        if len(work) > _MOST_BYTES or not try_lock(self._file, _OFFER_LOCKS + slot):
            return False
        if is_held(self._file, _TAKER_LOCKS + slot):  # by who took the one that was here before
            unlock(self._file, _OFFER_LOCKS + slot)
            return False
        at, told = _place_of(slot), bytes(_WORK_AT - _ANSWER_AT) + work
        offer = (_OFFERED, queue, number, len(work), self._here, _digest(work))
        try:
            if os.pwrite(self._file, told, at + _ANSWER_AT) == len(told):
                os.pwrite(self._file, _OFFER.pack(*offer), at)
                return True
        except OSError:
            pass
        self.clear(queue, number)  # there is no room for it
        return False

    def outcome(self, queue: int, number: int) -> Outcome | None:
        """What became of what was offered under that number so far; None if nothing did."""
        at = _place_of(_slot_of(queue, number)) + _ANSWER_AT
        told = os.pread(self._file, _ANSWER.size, at)
        if len(told) < _ANSWER.size:
            return None
        of_queue, of_number, state, name = _ANSWER.unpack(told)
        is_meant = (of_queue, of_number) == (queue, number)
        return Outcome(state, name) if is_meant and state else None

    def withdraw(self, queue: int, number: int) -> Outcome | None:
        """Let nobody do it who has not announced it; what became of it by then."""
        os.pwrite(self._file, _STATE.pack(_WITHDRAWN), _place_of(_slot_of(queue, number)))
        return self.outcome(queue, number)

    def clear(self, queue: int, number: int) -> None:
        """Leave the slot to others, with nothing of the work in it."""
        slot = _slot_of(queue, number)
        with suppress(OSError):
            _clear_work(self._file, slot)
        unlock(self._file, _OFFER_LOCKS + slot)

    # --- who takes ---------------------------------------------------------------------------

    def take(
        self, queue: int, number: int, wake: Callable[[int], None] = lambda number: None
    ) -> TakenOffer | None:
        """What is offered under a number, if nobody took it; nobody else does from now on.

        `wake` is called with the number when it is done.
        """
        slot = _slot_of(queue, number)
        if slot in self._taken or self._offered(queue, number) is None:
            return None
        if not try_lock(self._file, _TAKER_LOCKS + slot):
            return None
        work = self._offered(queue, number)  # by now somebody else may have been here
        if work is None or self.outcome(queue, number) is not None:
            unlock(self._file, _TAKER_LOCKS + slot)
            return None
        taken = TakenOffer(self._file, queue, number, work, wake, self._taken)
        self._taken[slot] = taken
        taken.write(_TAKEN)
        return taken

    def leave(self) -> None:
        """Leave what was taken and is not done to those who offered it."""
        for taken in list(self._taken.values()):
            taken.decline()

    def is_done(self, queue: int, number: int) -> bool:
        """Whether what was offered under a number is done: who offered it is about to leave."""
        found = self.outcome(queue, number)
        return found is not None and found.is_done

    def _offered(self, queue: int, number: int) -> bytes | None:
        """What somebody who is still there offers under a number."""
        slot = _slot_of(queue, number)
        if not is_held(self._file, _OFFER_LOCKS + slot):
            return None
        at = _place_of(slot)
        told = os.pread(self._file, _FIRST_BYTES, at)
        if len(told) < _WORK_AT:
            return None
        state, of_queue, of_number, length, here, digest = _OFFER.unpack_from(told)
        if (state, of_queue, of_number, here) != (_OFFERED, queue, number, self._here):
            return None
        if not 0 <= length <= _MOST_BYTES:
            return None
        work = told[_WORK_AT : _WORK_AT + length]
        if len(work) < length:
            work += os.pread(self._file, length - len(work), at + len(told))
        return work if len(work) == length and _digest(work) == digest else None


@dataclass(eq=False)
class TakenOffer:
    """Work of somebody who waits, taken by the one whose turn it is."""

    file: int
    queue: int
    number: int
    work: bytes
    wake: Callable[[int], None]
    taken: dict[int, TakenOffer] = field(default_factory=dict)
    """What its taker has, by slot."""
    is_announced: bool = False
    """Whether who waits knows under which name to look for it."""
    is_done: bool = False
    is_lost: bool = False
    """Whether who waits cannot be told any more."""

    @property
    def _slot(self) -> int:
        return _slot_of(self.queue, self.number)

    @property
    def is_withdrawn(self) -> bool:
        """Whether it is not to be done any more."""
        if self.is_lost:
            return True
        with suppress(OSError, struct.error):
            told = os.pread(self.file, _OFFER.size, _place_of(self._slot))
            state, queue, number, *_ = _OFFER.unpack(told)
            return bool((state, queue, number) != (_OFFERED, self.queue, self.number))
        return True

    def announce(self, name: bytes) -> bool:
        """Say under which name the outcome will be known; whether it is still wanted."""
        self.is_announced = True
        try:
            self.write(_ANNOUNCED, name)
        except OSError:
            self.is_lost = True
        return not self.is_withdrawn

    def finish(self, name: bytes) -> None:
        """It counts, under that name."""
        self.is_done = True
        self._end(_DONE, name)
        self.wake(self.number)

    def decline(self) -> None:
        """Leave it to who offered it; what was announced is for them to look for."""
        self._end(None if self.is_announced else _DECLINED)

    def _end(self, state: int | None, name: bytes = b"") -> None:
        """Have nothing to do with it any more; who is not told looks for what was announced."""
        if self.taken.pop(self._slot, None) is None:
            return
        try:
            if state is not None:
                with suppress(OSError):
                    self.write(state, name)
        finally:
            unlock(self.file, _TAKER_LOCKS + self._slot)

    def write(self, state: int, name: bytes = b"") -> None:
        """Say what became of it so far."""
        told = _ANSWER.pack(self.queue, self.number, state, name)
        os.pwrite(self.file, told, _place_of(self._slot) + _ANSWER_AT)


def clear_slots(file: int) -> bool:
    """Remove what was offered by processes that were killed; whether nothing is there any more."""
    is_clear = True
    for slot in range(_SLOTS):
        mine = [lock + slot for lock in (_OFFER_LOCKS, _TAKER_LOCKS)]
        held = [lock for lock in mine if try_lock(file, lock)]
        try:
            if held == mine:
                _clear_work(file, slot)
            is_clear &= held == mine
        finally:
            for lock in held:
                unlock(file, lock)
    os.fsync(file)
    return is_clear


def _clear_work(file: int, slot: int) -> None:
    at = _place_of(slot)
    told = os.pread(file, _OFFER.size, at)
    if len(told) < _OFFER.size:
        told = bytes(_OFFER.size)
    length = min(max(0, _OFFER.unpack(told)[3]), _MOST_BYTES)
    os.pwrite(file, bytes(_OFFER.size), at)
    os.pwrite(file, bytes(length), at + _WORK_AT)


def _digest(work: bytes) -> bytes:
    return blake3(work).digest(16)


def _slot_of(queue: int, number: int) -> int:
    return (queue + number) % _SLOTS


def _place_of(slot: int) -> int:
    return _SLOTS_AT + slot * _SLOT_BYTES


def _this_start() -> bytes:
    """What tells this start of the machine from others, in eight bytes."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text()
        return bytes.fromhex(text.strip().replace("-", ""))[:8]
    except (OSError, ValueError):  # then nobody takes what another process offers
        return os.urandom(8)
