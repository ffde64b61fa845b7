"""Writes that wait are made by another process: each once, whoever is killed, and when."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.property.trying import SEED

import livingdb
from livingdb import Branch, Database, Snapshot
from livingdb.evolution import AddColumn

LEADER = """
import os, signal, sys
from contextlib import nullcontext
import livingdb
from livingdb.commit.writing.group_commit import GroupCommits
from livingdb.files.offers import TakenOffer

path, moment, wanted, who = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
receive = GroupCommits._receive

def wait_for_some(self, branch, turn, members):
    print("mine", flush=True)
    found = []
    while len(found) + len(declined) < wanted:
        found += receive(self, branch, turn, members)
    return found

def note(self):
    declined.append(self)
    decline(self)

declined, decline = [], TakenOffer.decline
TakenOffer.decline = note

def dying(name, before):
    act = getattr(TakenOffer, name)
    def changed(self, *given):
        if before:
            os.kill(os.getpid(), signal.SIGKILL)
        told = act(self, *given)
        os.kill(os.getpid(), signal.SIGKILL)
        return told
    setattr(TakenOffer, name, changed)

GroupCommits._receive = wait_for_some
if moment != "never":
    name, when = moment.split()
    dying(name, when == "before")
with livingdb.open(path, author="leader") as db, db.acting_as(who) if who else nullcontext():
    db.branch("main").upsert("t", {"id": [100], "v": ["leader"]}, message="leader")
print("done", flush=True)
"""


@pytest.fixture
def db(tmp_path: Path) -> Database:
    db = livingdb.create(tmp_path / "db", author="ann", engine="embedded")
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.insert("t", {"id": range(10), "v": ["old"] * 10})
    main.upsert("t", {"id": [0], "v": ["old"]})  # what a table is like is known from now on
    turns = db._graph.place.turns
    assert turns is not None
    turns._patience_seconds = 60.0
    return db


def place(db: Database) -> str:
    return db._graph.place.url


class Leader:
    """A process whose turn it is, and that waits for the writes of so many others."""

    def __init__(self, db: Database, moment: str = "never", wanted: int = 1, who: str = ""):
        given = [sys.executable, "-c", LEADER, place(db), moment, str(wanted), who]
        self.process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)
        assert self.said() == "mine"

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def write(main: Branch, found: dict[int, Any], number: int, operation: str = "upsert") -> None:
    try:
        data = {"id": [number], "v": [f"ø{number}"]}
        found[number] = getattr(main, operation)("t", data, message=f"m{number}", author="bo")
    except Exception as error:
        found[number] = error


def messages(db: Database) -> Counter[str]:
    return Counter(snapshot.message for snapshot in db.branch("main").log())


def test_another_process_makes_the_write(db: Database) -> None:
    with db:
        leader, found = Leader(db), dict[int, Any]()
        write(db.branch("main"), found, 1)
        assert leader.said() == "done"
        assert isinstance(found[1], Snapshot)
        assert (found[1].message, found[1].author) == ("m1", "bo")
        assert found[1] == db.branch("main").head
        assert db.branch("main").log(2)[1].message == "leader"
        assert found[1].table("t").get(1) == {"id": 1, "v": "ø1"}
        assert db.at("main~1").table("t").get(1) == {"id": 1, "v": "old"}
        assert db.check(deep=True).problems == []


@pytest.mark.parametrize(
    "moment", ["announce before", "announce after", "finish before", "finish after"]
)
def test_who_makes_it_is_killed(db: Database, moment: str) -> None:
    """Before the announcement, inside the transaction, and after the commit."""
    with db:
        leader, found = Leader(db, moment), dict[int, Any]()
        write(db.branch("main"), found, 1)
        assert leader.process.wait() == -signal.SIGKILL
        assert isinstance(found[1], Snapshot), found
        is_stored = moment.startswith("finish")
        assert messages(db)["leader"] == int(is_stored)
        assert messages(db)["m1"] == 1
        assert found[1].table("t").get(1) == {"id": 1, "v": "ø1"}
        write(db.branch("main"), found, 2)
        assert messages(db)["m2"] == 1
        assert db.check().problems == []


def test_who_fails_is_told_why(db: Database) -> None:
    with db:
        leader, found = Leader(db), dict[int, Any]()
        write(db.branch("main"), found, 3, "insert")
        assert leader.said() == "done"
        assert type(found[3]) is livingdb.DuplicateKey
        assert "has the key 3 already" in str(found[3])
        assert messages(db)["m3"] == 0


def test_who_acts_in_the_other_process_has_nothing_to_do_with_it(db: Database) -> None:
    """Neither their rights, which are not asked, nor what they did, which is in the audit trail."""
    with db:
        db.people.add("mia", role="writer", branches="main")
        leader, found = Leader(db, who="mia"), dict[int, Any]()
        write(db.branch("main"), found, 1)
        assert leader.said() == "done"
        assert isinstance(found[1], Snapshot)
        assert found[1].author == "bo"
        assert db.branch("main").log(2)[1].author == "mia"
        told = [row for row in db.people.audit().to_pylist() if row["person"] == "mia"]
        assert len(told) == 1, told


def test_what_cannot_be_written_down_harms_nobody_else(db: Database) -> None:
    with db:
        leader = Leader(db)
        data = {"id": [1], "v": ["x"]}
        with pytest.raises(livingdb.InvalidData, match="half a character"):
            db.branch("main").upsert("t", data, author="bo\ud800")
        assert leader.said() == "done"
        assert messages(db)["leader"] == 1


def test_an_erased_row_is_not_in_what_was_offered(db: Database) -> None:
    """Neither when it was made by another process, nor when who offered it was killed."""
    file = Path(place(db)) / "turns"
    with db:
        leader = Leader(db)
        db.branch("main").upsert("t", {"id": [1], "v": ["Kari Nordmann"]})
        assert leader.said() == "done"
        assert b"Kari" not in file.read_bytes()
        leader = Leader(db, wanted=1_000_000)
        killed = subprocess.Popen([sys.executable, "-c", WRITER, place(db), "Kari", "0", "main"])
        while b"Kari 1" not in file.read_bytes():
            time.sleep(0.001)
        for one in (killed, leader.process):
            one.kill()
            one.wait()
        assert b"Kari 1" in file.read_bytes()
        db.branch("main").delete("t", [1])
        report = db.erase("t", [1], "asked for")
        assert b"Kari" not in file.read_bytes()
        assert not [line for line in report.waiting if "writes" in line]


def test_a_table_that_was_changed_meanwhile(db: Database) -> None:
    """The rows were brought into a shape that the table no longer has."""
    with db:
        with livingdb.open(place(db), author="bob") as other:
            other.branch("main").evolve(AddColumn("t", "w", "int", default=7))
        leader, found = Leader(db), dict[int, Any]()
        write(db.branch("main"), found, 1)
        assert leader.said() == "done"
        assert isinstance(found[1], Snapshot)
        assert found[1].table("t").get(1) == {"id": 1, "v": "ø1", "w": 7}
        assert messages(db)["m1"] == 1


def in_step(db: Database) -> list[Branch]:
    """Three schema versions in step, of which the process knows what their tables are like."""
    main = db.branch("main")
    main.evolve(AddColumn("t", "w", "int", default=7), keep="v1", sync="both")
    main.evolve(AddColumn("t", "x", "int", default=8), keep="v2", sync="both")
    found = [main, db.branch("v1"), db.branch("v2")]
    for branch in found:
        write(branch, {}, 5)
    return found


@pytest.mark.parametrize("at", range(3))
def test_a_branch_in_step_with_another(db: Database, at: int) -> None:
    """Who has the turn of one branch makes the writes to all that are in step with it."""
    with db:
        branches = in_step(db)
        leader, found = Leader(db), dict[int, Any]()
        write(branches[at], found, 1)
        assert leader.said() == "done"
        assert isinstance(found[1], Snapshot)
        assert found[1] == branches[at].head
        for branch in branches:
            assert [one.message for one in branch.log(2)] == ["m1", "leader"]
            assert branch.table("t").get(1)["v"] == "ø1"
            assert branch.log(2)[1].table("t").get(1)["v"] == "old"
        assert db.check(deep=True).problems == []


@pytest.mark.parametrize(
    "moment", ["announce before", "announce after", "finish before", "finish after"]
)
def test_who_makes_it_for_another_branch_is_killed(db: Database, moment: str) -> None:
    with db:
        main, v1, v2 = in_step(db)
        leader, found = Leader(db, moment), dict[int, Any]()
        write(v1, found, 1)
        assert leader.process.wait() == -signal.SIGKILL
        assert isinstance(found[1], Snapshot), found
        for branch in (main, v1, v2):
            told = Counter(snapshot.message for snapshot in branch.log())
            assert (told["leader"], told["m1"]) == (int(moment.startswith("finish")), 1)
            assert branch.table("t").get(1)["v"] == "ø1"
        assert db.check(deep=True).problems == []


def test_who_fails_on_another_branch_is_told_why(db: Database) -> None:
    with db:
        main, v1, _ = in_step(db)
        leader, found = Leader(db), dict[int, Any]()
        write(v1, found, 3, "insert")
        assert leader.said() == "done"
        assert type(found[3]) is livingdb.DuplicateKey
        assert main.head.message == "leader"


def test_what_follows_a_branch_in_step_is_made_where_it_was_written(db: Database) -> None:
    """A view has a say in it, so that nobody else makes the write."""
    with db:
        main, v1, _ = in_step(db)
        main.derive("seen", "SELECT id, v FROM t", when="immediate")
        leader, found = Leader(db), dict[int, Any]()
        write(v1, found, 1)
        assert leader.said() == "done"
        assert isinstance(found[1], Snapshot)
        assert db.branch("seen").table("seen").get(1)["v"] == "ø1"
        assert messages(db)["m1"] == 1


def test_who_cannot_wait_any_longer_is_not_made_twice(db: Database) -> None:
    """The one whose turn it is stands still with the write in its hands, and then goes on."""
    with db:
        turns = db._graph.place.turns
        assert turns is not None
        turns._patience_seconds = 0.5
        leader, found = Leader(db, wanted=2), dict[int, Any]()
        write(db.branch("main"), found, 1)
        assert isinstance(found[1], Snapshot)
        assert messages(db)["leader"] == 0
        turns._patience_seconds = 60.0
        write(db.branch("main"), found, 2)
        assert leader.said() == "done"
        assert messages(db)["m1"] == messages(db)["m2"] == messages(db)["leader"] == 1
        assert isinstance(found[2], Snapshot)
        assert db.check().problems == []


WRITER = """
import sys
import livingdb

path, name, first, branch = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
with livingdb.open(path, author=name) as db:
    main = db.branch(branch)
    print("ready", flush=True)
    for number in range(first, first + 1_000_000):
        data = {"id": [number % 7], "v": [f"{name} {number}"]}
        main.upsert("t", data, message=f"{name} {number}")
        print(number, flush=True)
"""


class Writer:
    """A process that writes until it is killed, and says what was acknowledged."""

    def __init__(self, db: Database, name: str, first: int, branch: str = "main"):
        given = [sys.executable, "-c", WRITER, place(db), name, str(first), branch]
        self.name, self.branch = name, branch
        self.process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.said.append(line.strip())

    def kill(self) -> list[str]:
        """The messages of what it was told to be stored."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        return [f"{self.name} {number}" for number in self.said if number != "ready"]


@pytest.mark.parametrize("is_in_step", [False, True])
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_writers_that_are_killed(db: Database, rounds: int, is_in_step: bool) -> None:
    """What was acknowledged is there once, what was not once at most, and all goes on."""
    chosen, acknowledged = random.Random(f"{SEED} handed"), list[str]()
    with db, ExitStack() as ended:
        names = [branch.name for branch in in_step(db)] if is_in_step else ["main"]
        writers = [Writer(db, f"w{at}", 0, names[at % len(names)]) for at in range(5)]
        ended.callback(lambda: [one.process.kill() for one in writers])
        for number in range(rounds):
            wanted = [len(one.said) + 5 for one in writers]
            deadline = time.monotonic() + 120
            while any(len(one.said) < least for one, least in zip(writers, wanted, strict=True)):
                gone = [one.name for one in writers if one.process.poll() is not None]
                assert gone == [], "a writer ended by itself"
                assert time.monotonic() < deadline, "nobody goes on"
                time.sleep(0.002)
            at = chosen.randrange(len(writers))
            time.sleep(chosen.random() * 0.01)
            acknowledged += writers[at].kill()
            writers[at] = Writer(db, f"w{at}.{number}", 0, writers[at].branch)
        for one in writers:
            acknowledged += one.kill()
        stored, history = messages(db), [one.message for one in db.branch("main").log()]
        assert [text for text in acknowledged if stored[text] != 1] == []
        assert [text for text, times in stored.items() if text.startswith("w") and times > 1] == []
        last = {row["id"]: row["v"] for row in db.branch("main").table("t").to_arrow().to_pylist()}
        for snapshot in reversed(db.branch("main").log(200)):
            name, _, count = snapshot.message.partition(" ")
            assert snapshot.table("t").get(int(count) % 7)["v"] == f"{name} {count}"
        assert set(last) == set(range(10))
        for name in names:
            rows = db.branch(name).table("t").to_arrow().to_pylist()
            assert {row["id"]: row["v"] for row in rows} == last
            told = [one.message for one in db.branch(name).log() if one.message.startswith("w")]
            assert told == [text for text in history if text.startswith("w")]
        assert db.check(deep=is_in_step).problems == []


def test_no_process_is_left(db: Database) -> None:
    """A leader that ends well leaves nothing that keeps others from going on."""
    with db:
        leader = Leader(db, wanted=0)
        assert leader.said() == "done"
        assert leader.process.wait() == os.EX_OK
        begun = time.monotonic()
        found: dict[int, Any] = {}
        for number in range(5):
            write(db.branch("main"), found, number)
        assert all(isinstance(one, Snapshot) for one in found.values())
        assert time.monotonic() - begun < 30
