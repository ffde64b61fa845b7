"""Turns: everybody in order, nobody beside another, and nobody waits for the dead or the slow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from livingdb.files import turns as files_turns
from livingdb.files.turns import Turns

HOLDER = """
import sys, time
from pathlib import Path
from livingdb.files.turns import Turns

with Turns(Path(sys.argv[1])).take("orders"):
    print("mine", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns"


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that has the turn and keeps it."""
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "mine\n"
    return started


def test_one_at_a_time_in_the_order_of_arrival(path: Path) -> None:
    turns, order = Turns(path, patience_seconds=60), []
    inside = 0

    def write(number: int) -> None:
        nonlocal inside
        with turns.take("orders"):
            inside += 1
            assert inside == 1
            order.append(number)
            inside -= 1

    waiting = []
    with turns.take("orders"):
        for number in range(6):
            thread = threading.Thread(target=write, args=(number,))
            thread.start()
            waiting.append(thread)
            while queue_length(path) < number + 2:
                pass
    for thread in waiting:
        thread.join()
    assert order == list(range(6))


def queue_length(path: Path) -> int:
    """How many took a number so far."""
    data = path.read_bytes()[: 8 * 4096] if path.exists() else b""
    return max(
        (int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)), default=0
    )


def test_it_is_told_whether_others_had_a_turn_since(path: Path) -> None:
    turns = Turns(path)
    with turns.take("orders") as turn:
        assert turn.others
    with turns.take("orders") as turn:
        assert not turn.others
        with turns.take("orders") as inner:  # who has a turn takes no second one
            assert not inner.others
    thread = threading.Thread(target=lambda: turns.take("orders").__enter__())
    thread.start()
    thread.join()
    with turns.take("orders") as turn:
        assert turn.others
    with turns.take("orders") as turn:
        assert not turn.others


BUSY = """
import sys, time
from pathlib import Path
from livingdb.files.turns import Turns

turns, told = Turns(Path(sys.argv[1]), patience_seconds=60), []
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with turns.take("orders") as turn:
        with open(sys.argv[3], "a") as order:
            order.write(sys.argv[4] + "\\n" if turn.others else "")
            order.flush()
        told.append(turn.others)
print(len(told), flush=True)
"""


def test_who_comes_back_at_once_goes_on_and_nobody_is_left_waiting(path: Path) -> None:
    """Each line is a turn of several writes; nobody has a second one before the others' first."""
    order = path.with_name("order")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY, str(path), "2000", str(order), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        assert process.communicate(timeout=300)[0] == "2000\n"
    turns = order.read_text().split()
    assert set(turns) == set("abc")
    assert len(turns) < 3 * 2000 / 2  # most writes go on with the turn that was kept


def test_a_turn_is_kept_for_nobody_who_stays_away(path: Path) -> None:
    """Who wrote twice in a row and then does something else is waited for no longer."""
    turns, waiting = Turns(path, patience_seconds=60), threading.Event()
    entered = threading.Event()

    def write() -> None:
        waiting.set()
        with turns.take("orders") as turn:
            assert turn.others
            entered.set()

    thread = threading.Thread(target=write)
    for _ in range(3):
        with turns.take("orders"):
            pass
    with turns.take("orders"):
        thread.start()
        waiting.wait()
        while queue_length(path) < 5:
            pass
    assert entered.wait(30)
    thread.join()
    with turns.take("orders") as turn:
        assert turn.others


def test_other_branches_do_not_wait(path: Path) -> None:
    turns = Turns(path, patience_seconds=60)
    done = threading.Event()

    def write() -> None:
        with turns.take("customers"):
            done.set()

    with turns.take("orders"):
        threading.Thread(target=write).start()
        assert done.wait(30)


def test_who_is_killed_is_waited_for_no_longer(path: Path) -> None:
    first = holder(path)
    entered = threading.Event()

    def write() -> None:
        with Turns(path, patience_seconds=300).take("orders"):
            entered.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not entered.wait(0.05)
    first.kill()
    first.wait()
    assert entered.wait(30)
    thread.join()


def test_who_takes_long_is_not_waited_for_for_ever(path: Path) -> None:
    first = holder(path)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        turns = Turns(path, patience_seconds=0.02)
        for _ in range(3):
            with turns.take("orders") as turn:
                assert turn.others
    finally:
        first.kill()
        first.wait()
    with turns.take("orders"):
        pass
    with turns.take("orders") as turn:
        assert not turn.others


def test_where_no_file_can_be_made_everybody_goes_on(tmp_path: Path) -> None:
    with Turns(tmp_path / "none" / "turns").take("orders") as turn:
        assert turn.others


def test_what_somebody_does_already_is_left_to_them(tmp_path):
    one, other = Turns(tmp_path / "turns"), Turns(tmp_path / "turns")
    with one.alone("drain") as is_first:
        assert is_first
        with other.alone("drain") as is_second, other.alone("fold") as is_alone:
            assert not is_second
            assert is_alone
        with other.take("main"):
            pass  # those who wait for turns do not notice
    with other.alone("drain") as is_alone:
        assert is_alone


def test_without_locks_everybody_is_alone(tmp_path):
    with Turns(tmp_path / "no" / "such" / "folder").alone("drain") as is_alone:
        assert is_alone


def test_a_turn_lasts_while_the_work_of_all_who_wait_is_done(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, outcomes = quick_turns(path, monkeypatch), list[object]()

    def write() -> None:
        with turns.take("orders", lambda: b"work") as turn:
            outcomes.append(turn.outcome)

    for _ in range(3):
        thread = threading.Thread(target=write)
        with turns.take("orders") as turn:
            assert not turn.others
            thread.start()
            offers = []
            while not offers:
                offers = turn.take_offers(9)
            time.sleep(0.01)
            offers[0].finish(bytes(32))
        assert turns._local.place._is_kept
        thread.join()
    assert len(outcomes) == 3
    assert None not in outcomes


def test_who_leaves_no_work_to_others_waits_for_no_more_than_one_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, entered = quick_turns(path, monkeypatch), threading.Event()

    def write() -> None:
        with turns.take("orders", lambda: None):
            entered.set()

    thread, kept = threading.Thread(target=write), []
    for number in range(2):
        with turns.take("orders") as turn:
            if not number:
                before = queue_length(path)
                thread.start()
                while queue_length(path) == before:
                    pass
            assert turn.take_offers(9) == []
            time.sleep(0.01)
        kept.append(turns._local.place._is_kept)
    assert kept == [True, False]  # it had just come, and may have been about to leave its work
    assert entered.wait(60)
    thread.join()


def quick_turns(path: Path, monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Turns that are short, of somebody who comes back at once."""
    monkeypatch.setattr(files_turns, "_LONGEST_TURN_SECONDS", 0.001)
    for name in ("_KEPT_SECONDS", "_LONGEST_KEPT_SECONDS"):
        monkeypatch.setattr(files_turns, name, 60.0)
    found = Turns(path, patience_seconds=60)
    for _ in range(2):
        with found.take("orders"):
            pass
    return found
