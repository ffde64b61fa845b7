"""Offers: work that somebody who waits for a turn leaves to the one who has it.

An offer lies in a slot of the file of the turns, in two cells.  One belongs to who offers: the
work, and whether it is withdrawn.  The other belongs to the one that took it: under which name the
outcome will be known, and that it is done.  Each of them writes its own cell first and then reads
the other's, so that of an offer that is withdrawn while it is done at least one of them knows:
who does the work announces its outcome before it counts, and gives it up if the offer was
withdrawn by then; who withdraws and finds it announced waits for its end.

Both hold a lock of the slot as long as they have to do with it, so that each knows whether the
other is there.  Nobody does what was offered before the machine was started, or in another file of
which this is a copy: an offer says which start and which file it belongs to.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from livingdb.files.file_locks import is_held, try_lock, unlock

__all__ = ["NAME_BYTES", "Outcome", "Slots", "TakenOffer"]

NAME_BYTES = 32
"""The length of the name of an outcome."""
_OFFERED, _WITHDRAWN = 1, 2
_TAKEN, _ANNOUNCED, _DONE, _DECLINED = 1, 2, 3, 4

_SLOTS, _SLOT_BYTES = 64, 1 << 16
_SLOTS_AT = 1 << 20
"""Where the slots begin in the file."""
_STATE = struct.Struct("<q")
_FILE, _LOW = struct.Struct("<II"), (1 << 32) - 1
_OFFER = struct.Struct("<qqqq16s")  # state, queue, number, length of the work, start and file
_ANSWER = struct.Struct(f"<qqq{NAME_BYTES}s")  # number, state, detail, name
_ANSWER_AT, _WORK_AT = 64, 128
_MOST_BYTES = _SLOT_BYTES - _WORK_AT
_FIRST_BYTES = 4096
_OFFER_LOCKS = 1 << 60
"""Where the locks of those are who offer, and then of those who take; no number is as high."""
_TAKER_LOCKS = _OFFER_LOCKS + _SLOTS


@dataclass(frozen=True)
class Outcome:
    """What became of an offer: its outcome by name, and a number that goes with it."""

    state: int
    name: bytes
    detail: int

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

    # --- who offers --------------------------------------------------------------------------

    def put(self, queue: int, number: int, work: bytes) -> bool:
        """Offer work; whether there is a place for it."""
        slot = _slot_of(queue, number)
        if len(work) > _MOST_BYTES or not try_lock(self._file, _OFFER_LOCKS + slot):
            return False
        if is_held(self._file, _TAKER_LOCKS + slot):  # by who took the one that was here before
            unlock(self._file, _OFFER_LOCKS + slot)
            return False
        at, nothing = _place_of(slot), bytes(_WORK_AT - _ANSWER_AT)
        offer = _OFFER.pack(_OFFERED, queue, number, len(work), self._here)
        try:
            os.pwrite(self._file, nothing + work, at + _ANSWER_AT)
            os.pwrite(self._file, offer, at)
        except OSError:  # there is no room for it
            unlock(self._file, _OFFER_LOCKS + slot)
            return False
        return True

    def outcome(self, queue: int, number: int) -> Outcome | None:
        """What became of what was offered under that number so far; None if nothing did."""
        at = _place_of(_slot_of(queue, number)) + _ANSWER_AT
        told = os.pread(self._file, _ANSWER.size, at)
        if len(told) < _ANSWER.size:
            return None
        answered, state, detail, name = _ANSWER.unpack(told)
        return Outcome(state, name, detail) if answered == number and state else None

    def withdraw(self, queue: int, number: int) -> Outcome | None:
        """Let nobody do it who has not announced it; what became of it by then."""
        os.pwrite(self._file, _STATE.pack(_WITHDRAWN), _place_of(_slot_of(queue, number)))
        return self.outcome(queue, number)

    def has_taker(self, queue: int, number: int) -> bool:
        """Whether who took it is still at it."""
        return is_held(self._file, _TAKER_LOCKS + _slot_of(queue, number))

    def clear(self, queue: int, number: int) -> None:
        """Leave the slot to others."""
        slot = _slot_of(queue, number)
        os.pwrite(self._file, _STATE.pack(_WITHDRAWN), _place_of(slot))
        unlock(self._file, _OFFER_LOCKS + slot)

    # --- who takes ---------------------------------------------------------------------------

    def take(
        self, queue: int, number: int, wake: Callable[[int], None] = lambda number: None
    ) -> TakenOffer | None:
        """What is offered under a number, if nobody took it; nobody else does from now on.

        `wake` is called with the number when it is done.
        """
        slot = _slot_of(queue, number)
        work = self._offered(_place_of(slot), queue, number)
        if work is None or not is_held(self._file, _OFFER_LOCKS + slot):
            return None
        if not try_lock(self._file, _TAKER_LOCKS + slot):
            return None
        if self.outcome(queue, number) is not None:
            unlock(self._file, _TAKER_LOCKS + slot)
            return None
        taken = TakenOffer(self._file, slot, number, work, wake)
        taken.write(_TAKEN)
        return taken

    def is_done(self, queue: int, number: int) -> bool:
        """Whether what was offered under a number is done: who offered it is about to leave."""
        found = self.outcome(queue, number)
        return found is not None and found.is_done

    def _offered(self, at: int, queue: int, number: int) -> bytes | None:
        told = os.pread(self._file, _FIRST_BYTES, at)
        if len(told) < _WORK_AT:
            return None
        state, of_queue, of_number, length, here = _OFFER.unpack_from(told)
        if (state, of_queue, of_number, here) != (_OFFERED, queue, number, self._here):
            return None
        work = told[_WORK_AT : _WORK_AT + length]
        if len(work) < length <= _MOST_BYTES:
            work += os.pread(self._file, length - len(work), at + len(told))
        return work if len(work) == length else None


@dataclass
class TakenOffer:
    """Work of somebody who waits, taken by the one whose turn it is."""

    file: int
    slot: int
    number: int
    work: bytes
    wake: Callable[[int], None]
    is_announced: bool = False
    """Whether who waits knows under which name to look for it."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether it is not to be done any more."""
        told = os.pread(self.file, _OFFER.size, _place_of(self.slot))
        state, _, number, _, _ = _OFFER.unpack(told)
        return bool(state != _OFFERED or number != self.number)

    def announce(self, name: bytes) -> bool:
        """Say under which name the outcome will be known; whether it is still wanted."""
        self.is_announced = True
        self.write(_ANNOUNCED, name)
        return not self.is_withdrawn

    def finish(self, name: bytes, detail: int) -> None:
        """It counts, under that name."""
        self._end(_DONE, name, detail)
        self.wake(self.number)

    def decline(self) -> None:
        """Leave it to who offered it; what was announced is for them to look for."""
        if self.is_announced:
            unlock(self.file, _TAKER_LOCKS + self.slot)
        else:
            self._end(_DECLINED)

    def _end(self, state: int, name: bytes = b"", detail: int = 0) -> None:
        try:
            self.write(state, name, detail)
        finally:
            unlock(self.file, _TAKER_LOCKS + self.slot)

    def write(self, state: int, name: bytes = b"", detail: int = 0) -> None:
        """Say what became of it so far."""
        told = _ANSWER.pack(self.number, state, detail, name)
        os.pwrite(self.file, told, _place_of(self.slot) + _ANSWER_AT)


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
