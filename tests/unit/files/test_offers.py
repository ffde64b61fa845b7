"""Offers: work is done once, by who has the turn or by who offered it, whoever dies or is slow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livingdb.files import offers
from livingdb.files import turns as turns_module
from livingdb.files.offers import Outcome, Slots
from livingdb.files.turns import Turn, Turns

NAME = b"n" * 32
OTHER = b"o" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns"


@pytest.fixture
def slots(path: Path) -> Iterator[Callable[[], Slots]]:
    """Opens the file once more each time, as another process would."""
    opened = []

    def open_slots() -> Slots:
        opened.append(os.open(path, os.O_RDWR | os.O_CREAT))
        return Slots(opened[-1])

    yield open_slots
    for file in opened:
        os.close(file)


def test_what_is_offered_is_taken_once_and_answered(slots: Callable[[], Slots]) -> None:
    mine, leader, other = slots(), slots(), slots()
    work = bytes(range(256)) * 40
    assert leader.take(7, 1) is None
    assert mine.put(7, 1, work)
    assert mine.outcome(7, 1) is None
    taken = leader.take(7, 1)
    assert taken is not None
    assert taken.work == work
    assert other.take(7, 1) is None
    assert leader.take(8, 1) is None
    found = mine.outcome(7, 1)
    assert found is not None
    assert not found.is_announced
    assert taken.announce(NAME)
    assert not leader.is_done(7, 1)
    taken.finish(NAME)
    assert other.is_done(7, 1)
    found = mine.outcome(7, 1)
    assert found is not None
    assert (found.is_done, found.name) == (True, NAME)
    assert other.take(7, 1) is None
    mine.clear(7, 1)


def test_what_was_withdrawn_is_not_done(slots: Callable[[], Slots]) -> None:
    mine, leader = slots(), slots()
    assert mine.put(7, 1, b"work")
    assert mine.withdraw(7, 1) is None
    assert leader.take(7, 1) is None
    mine.clear(7, 1)
    assert mine.put(7, 2, b"work")
    taken = leader.take(7, 2)
    assert taken is not None
    found = mine.withdraw(7, 2)
    assert found is not None
    assert not found.is_announced
    assert taken.is_withdrawn
    assert not taken.announce(NAME)


def test_who_withdraws_what_is_announced_learns_its_name(slots: Callable[[], Slots]) -> None:
    mine, leader = slots(), slots()
    assert mine.put(7, 1, b"work")
    taken = leader.take(7, 1)
    assert taken is not None
    assert taken.announce(NAME)
    found = mine.withdraw(7, 1)
    assert found is not None
    assert (found.is_announced, found.is_done, found.name) == (True, False, NAME)
    taken.decline()  # it failed, and whether it counts is to be looked for
    assert mine.outcome(7, 1) == found


def test_a_slot_is_free_when_both_have_left_it(slots: Callable[[], Slots]) -> None:
    mine, leader, other = slots(), slots(), slots()
    assert mine.put(7, 1, b"work")
    assert not other.put(7, 1 + 64, b"other")
    taken = leader.take(7, 1)
    assert taken is not None
    mine.clear(7, 1)
    assert not other.put(7, 1 + 64, b"other")  # who took it may still write there
    taken.decline()
    assert other.put(7, 1 + 64, b"other")
    assert other.outcome(7, 1 + 64) is None


def test_nobody_does_what_a_dead_process_offered(path: Path, slots: Callable[[], Slots]) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    assert Slots(file).put(7, 1, b"work")
    os.close(file)
    assert slots().take(7, 1) is None


def test_nobody_does_what_was_offered_elsewhere_or_before(
    path: Path, slots: Callable[[], Slots], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = slots()
    assert mine.put(7, 1, b"work")
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    file, held = (os.open(copy, os.O_RDWR) for _ in range(2))
    assert offers.try_lock(held, offers._OFFER_LOCKS + 8)  # there is somebody in that slot
    assert Slots(file).take(7, 1) is None
    os.close(file)
    os.close(held)
    monkeypatch.setattr(offers, "_this_start", lambda: b"another.")
    assert slots().take(7, 1) is None
    monkeypatch.undo()
    assert slots().take(7, 1) is not None


def test_large_work_is_not_offered(slots: Callable[[], Slots]) -> None:
    assert not slots().put(7, 1, bytes(1 << 16))
    assert slots().put(7, 1, bytes((1 << 16) - 256))


def test_nothing_of_what_was_offered_stays(path: Path, slots: Callable[[], Slots]) -> None:
    mine, leader = slots(), slots()
    work = b"a name" * 1000
    assert mine.put(7, 1, work)
    assert b"a name" in path.read_bytes()
    taken = leader.take(7, 1)
    assert taken is not None
    taken.finish(NAME)
    mine.clear(7, 1)
    assert b"a name" not in path.read_bytes()


def test_what_a_killed_process_offered_is_removed(path: Path, slots: Callable[[], Slots]) -> None:
    killed, other = os.open(path, os.O_RDWR | os.O_CREAT), slots()
    assert Slots(killed).put(7, 1, b"of the dead")
    assert other.put(7, 2, b"of the living")
    os.close(killed)
    turns = Turns(path)
    assert not turns.clear_offers()
    assert b"of the dead" not in path.read_bytes()
    assert b"of the living" in path.read_bytes()
    other.clear(7, 2)
    assert turns.clear_offers()
    assert Turns(path.with_name("never made")).clear_offers()


def test_what_was_written_in_part_is_not_offered(
    slots: Callable[[], Slots], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, leader, write = slots(), slots(), os.pwrite
    monkeypatch.setattr(
        offers.os, "pwrite", lambda file, data, at: write(file, data[: len(data) // 2], at)
    )
    assert not mine.put(7, 1, bytes(range(256)) * 40)
    monkeypatch.undo()
    assert leader.take(7, 1) is None
    assert mine.put(7, 1, b"work")


def test_what_is_not_as_it_was_written_is_not_done(path: Path, slots: Callable[[], Slots]) -> None:
    mine, leader = slots(), slots()
    assert mine.put(7, 1, b"work")
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(b"work"))
        file.write(b"worm")
    assert leader.take(7, 1) is None


def test_two_queues_meet_in_one_slot(slots: Callable[[], Slots]) -> None:
    """What one of them is told is not for the other, whose number is the same place."""
    mine, leader, other = slots(), slots(), slots()
    assert mine.put(7, 5, b"work")
    taken = leader.take(7, 5)
    assert taken is not None
    assert taken.announce(NAME)
    mine.clear(7, 5)
    assert taken.is_withdrawn
    assert not other.put(71, 5, b"other")
    taken.finish(NAME)
    assert other.put(71, 5, b"other")
    assert other.outcome(71, 5) is None
    assert not other.is_done(7, 5)
    again = leader.take(71, 5)
    assert again is not None
    assert leader.take(7, 5) is None
    assert (again.work, again.is_withdrawn) == (b"other", False)


@pytest.mark.parametrize(("mode", "beside"), [(0o666, 0o644), (0o600, 0o664)])
def test_who_writes_the_file_of_turns_is_who_writes_the_one_beside(
    path: Path, mode: int, beside: int
) -> None:
    other = path.with_name("catalog")
    other.touch()
    other.chmod(beside)
    path.touch()
    path.chmod(mode)
    turns = Turns(path, patience_seconds=60, beside=other)
    with turns.take("orders") as turn:
        assert path.stat().st_mode & 0o777 == beside
        waiting = Waiting(turns, b"work")
        assert len(offered(turn, 1)) == 1
    assert waiting.outcome() is not None


def test_a_file_of_others_is_good_for_turns_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.with_name("catalog")
    other.touch(0o644)
    path.touch()
    path.chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    turns = Turns(path, patience_seconds=60, beside=other)
    with turns.take("orders") as turn:
        waiting = Waiting(turns, b"work")
        while _last_number(path) < 2:
            time.sleep(0.001)
        assert turn.take_offers(64) == []
    assert waiting.outcome() is None
    assert path.stat().st_mode & 0o777 == 0o666


# --- in turns ------------------------------------------------------------------------------------


class Waiting:
    """A thread that waits for a turn and offers what it has to do."""

    def __init__(self, turns: Turns, work: bytes | None):
        self.turn: Turn | None = None
        self._turns, self._work = turns, work
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        with self._turns.take("orders", lambda: self._work) as self.turn:
            pass

    def outcome(self) -> Outcome | None:
        self._thread.join(60)
        assert self.turn is not None
        return self.turn.outcome


def offered(turn: Turn, count: int) -> list[offers.TakenOffer]:
    """So many offers, as soon as they are there."""
    found: list[offers.TakenOffer] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += turn.take_offers(64)
    return found


def test_who_has_the_turn_does_the_work_of_those_behind(path: Path) -> None:
    turns = Turns(path, patience_seconds=60)
    with turns.take("orders") as turn:
        waiting = [Waiting(turns, b"%d" % number) for number in range(5)]
        taken = offered(turn, 5)
        assert sorted(one.work for one in taken) == [b"%d" % number for number in range(5)]
        for one in taken:
            assert one.announce(one.work * 32)
            one.finish(one.work * 32)
        found = [one.outcome() for one in waiting]  # though nobody else had the turn yet
    assert found == [Outcome(3, b"%d" % number * 32) for number in range(5)]


def test_who_offers_nothing_is_waited_for(path: Path) -> None:
    turns = Turns(path, patience_seconds=60)
    with turns.take("orders") as turn:
        first = Waiting(turns, b"first")
        (one,) = offered(turn, 1)
        second = Waiting(turns, None)
        deadline = time.monotonic() + 30
        while _last_number(path) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        third = Waiting(turns, b"third")
        while _last_number(path) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert turn.take_offers(64) == []
        one.finish(NAME)
    assert first.outcome() == Outcome(3, NAME)
    assert second.outcome() is None
    assert third.outcome() is None


def _last_number(path: Path) -> int:
    data = path.read_bytes()[: 8 * 4096]
    numbers = (int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8))
    return max(numbers, default=0)


def test_what_is_declined_is_done_by_who_offered_it(path: Path) -> None:
    turns = Turns(path, patience_seconds=60)
    with turns.take("orders") as turn:
        waiting = Waiting(turns, b"work")
        (one,) = offered(turn, 1)
        one.decline()
    found = waiting.outcome()
    assert found is not None
    assert not found.is_announced
    assert waiting.turn is not None
    assert waiting.turn.others


class Clock:
    """The clock of those who wait, which can be put forward."""

    sleep = staticmethod(time.sleep)
    ahead_seconds = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_seconds

    def monotonic_ns(self) -> int:
        return int(self.monotonic() * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns_module, "time", made)
    return made


def test_who_has_no_patience_takes_back_what_nobody_announced(path: Path, clock: Clock) -> None:
    with Turns(path).take("orders") as turn:
        waiting = Waiting(Turns(path, patience_seconds=100), b"work")
        (one,) = offered(turn, 1)
        clock.ahead_seconds = 200
        found = waiting.outcome()
        assert found is not None
        assert not found.is_announced
        assert one.is_withdrawn
        assert not one.announce(NAME)
        one.decline()


def test_who_has_no_patience_learns_what_is_announced(path: Path, clock: Clock) -> None:
    with Turns(path).take("orders") as turn:
        waiting = Waiting(Turns(path, patience_seconds=100), b"work")
        (one,) = offered(turn, 1)
        assert one.announce(NAME)
        clock.ahead_seconds = 200
        found = waiting.outcome()
        assert found is not None
        assert (found.is_announced, found.is_done, found.name) == (True, False, NAME)
        assert one.is_withdrawn
        one.finish(NAME)


def test_who_breaks_off_leaves_what_it_took(path: Path) -> None:
    """Nobody waits for what nobody is at any more, and the first of those behind is called."""
    turns = Turns(path, patience_seconds=60)
    with pytest.raises(KeyboardInterrupt), turns.take("orders") as turn:
        waiting = [Waiting(turns, b"%d" % number) for number in range(4)]
        taken = {one.work: one for one in offered(turn, 4)}
        assert taken[b"2"].announce(NAME)
        taken[b"3"].finish(OTHER)
        raise KeyboardInterrupt
    found = [one.outcome() for one in waiting]
    assert [one is not None and one.is_declined for one in found] == [True, True, False, False]
    assert found[2:] == [Outcome(2, NAME), Outcome(3, OTHER)]


TAKER = """
import sys, time
from pathlib import Path
from livingdb.files.turns import Turns

with Turns(Path(sys.argv[1])).take("orders") as turn:
    print("mine", flush=True)
    found = []
    while not found:
        found = turn.take_offers(64)
    if sys.argv[2] == "announced":
        found[0].announce(b"n" * 32)
    print("taken", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["announced", "taken"])
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
def test_who_took_it_is_killed_or_stops(
    path: Path, how: str, stop: signal.Signals, clock: Clock
) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", TAKER, str(path), how], stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "mine\n"
        waiting = Waiting(Turns(path, patience_seconds=100), b"work")
        assert started.stdout.readline() == "taken\n"
        started.send_signal(stop)
        clock.ahead_seconds = 200
        found = waiting.outcome()
        assert found is not None
        assert (found.is_announced, found.is_done) == (how == "announced", False)
    finally:
        started.kill()
        started.wait()
