"""kill -9 at any moment of every operation that writes.

After each one the database opens, its heads are the old ones or the new ones, every commit that
was acknowledged is there, `check` is clean and the next commit works.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.conftest import Victim
from tests.crash.moments import killing_moments, states
from tests.crash.scenarios import (
    ORDERS,
    SCENARIOS,
    Contents,
    check_trail,
    collect,
    contents,
    noise,
    orders,
)
from tests.thinned import thinned

import livingdb
from livingdb import AlreadyExists, Database, Forgotten, NotFound

DAY_SECONDS = 86_400
SAMPLE, KILLS = 1, 30
EXISTING = [name for name in SCENARIOS if name != "create"]
PEOPLE = [name for name in EXISTING if SCENARIOS[name].check is check_trail]
SAMPLED = [name for name in EXISTING if name not in ("tag and commit", "upkeep", "merge")]


class Trial:
    """One scenario, started over and over and killed somewhere else each time."""

    def __init__(self, name: str, victim: Victim, folder: Path):
        self.name, self.victim, self.folder = name, victim, folder
        self.start = folder / "start"
        SCENARIOS[name].start(self.start)
        with livingdb.open(self.start) as db:
            self.before = contents(db)
            self.history = {snapshot.id: tables(snapshot) for snapshot in db.snapshots()}
        whole = self.copy("whole")
        outcome = victim.run(name, whole)
        assert outcome.acknowledged
        assert not outcome.failed
        self.moments = outcome.moments
        with livingdb.open(whole) as db:
            self.after = contents(db)
        assert (self.before != self.after) == SCENARIOS[name].changes_rows

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(self.start, self.folder / name))

    def kill(self, moment: int) -> None:
        """Kill it there and look at what is left."""
        path = self.copy("killed")
        outcome = self.victim.run(self.name, path, moment)
        assert not outcome.failed
        try:
            with livingdb.open(path) as db:
                found = contents(db)
                assert found == self.after or (found == self.before and not outcome.acknowledged)
                self.check_history(db)
                SCENARIOS[self.name].check(db)
                assert db.check().problems == []
            with livingdb.open(path) as db:
                if SCENARIOS[self.name].forgets:
                    collect(db)
                    assert contents(db) == found
                check_next_commit(db, found)
            assert len(temporary(path)) <= 1
        except BaseException as error:
            error.add_note(f"{self.name}, killed {describe(self.moments, moment)}")
            raise
        shutil.rmtree(path)

    def check_history(self, db: Database) -> None:
        """All that was committed before can be read, and each branch has at most one more."""
        there = {snapshot.id for snapshot in db.snapshots()}
        assert set(self.history) <= there
        assert len(there) <= len(self.history) + len(db.syncs()) + 1
        for address, expected in self.history.items():
            try:
                assert tables(db.at(address)) == expected
            except Forgotten:
                assert SCENARIOS[self.name].forgets


def tables(snapshot: livingdb.Snapshot) -> dict[str, object]:
    return {name: snapshot.table(name).to_arrow() for name in snapshot.tables()}


def check_next_commit(db: Database, found: Contents) -> None:
    main = db.branch("main")
    main.upsert("blobs", noise(5_000, 2, 20))
    rows = main.table("blobs")
    assert len(rows) == found["main"]["blobs"].num_rows + 2
    assert rows.to_arrow().slice(0, len(rows) - 2) == found["main"]["blobs"]
    assert db.check().problems == []


def temporary(path: Path) -> list[Path]:
    return list(path.rglob(".tmp-*"))


def describe(moments: list[str], moment: int) -> str:
    before = moments[max(0, moment - 3) : moment - 1]
    return f"at moment {moment} ({moments[moment - 1]}; before that: {', '.join(before)})"


def sample(moments: list[str], count: int) -> list[int]:
    """Moments of every name, the first one and the last, and more evenly between them.

    What was killed before something is as it was after what came last: one of them is enough.
    """
    first = {name: number for number, name in reversed(list(enumerate(moments, 1)))}
    named = {n for n in first.values() if n == 1 or not moments[n - 2].startswith("after ")}
    spread = range(1, len(moments) + 1, max(1, len(moments) // count))
    return sorted({1, len(moments), *named, *spread})


@pytest.mark.parametrize("name", thinned(SAMPLED))
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in sample(trial.moments, SAMPLE):
        trial.kill(moment)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in EXISTING if name not in PEOPLE])
def test_killed_at_many_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in killing_moments(trial.moments, KILLS, name):
        trial.kill(moment)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PEOPLE)
def test_changes_of_people_killed_at_every_moment(name: str, victim: Victim, folder: Path) -> None:
    """A right, a token and what the audit says of it: all as before, or all as after."""
    trial = Trial(name, victim, folder)
    for moment in states(trial.moments):
        trial.kill(moment)


def test_what_a_killed_runner_was_doing_is_free_at_once(victim: Victim, folder: Path) -> None:
    """Nobody waits until it is taken for lost: its process is known to have ended."""
    trial = Trial("upkeep", victim, folder)
    is_left = []
    for moment in range(10, len(trial.moments), len(trial.moments) // 8):
        path = trial.copy("killed")
        assert victim.run("upkeep", path, moment).killed
        with livingdb.open(path) as db:
            jobs = db._graph.catalog.jobs
            is_left += [row.name for row in jobs.all().values() if row.state == "running"]
            assert db.status().ok
            assert not db.upkeep(seconds=60, propagate=False).failed
            assert {row.state for row in jobs.all().values()} == {"idle"}
            assert not db.upkeep(seconds=60, propagate=False).runs
            assert contents(db) == trial.before
            trial.check_history(db)
            assert db.check().problems == []
        shutil.rmtree(path)
    assert is_left


def kill_creation(victim: Victim, folder: Path, chosen: Callable[[list[str]], list[int]]) -> None:
    moments = victim.run("create", folder / "whole").moments
    for moment in chosen(moments):
        path = folder / str(moment)
        outcome = victim.run("create", path, moment)
        try:
            check_created(path, outcome.acknowledged)
        except BaseException as error:
            error.add_note(f"create, killed {describe(moments, moment)}")
            raise
        shutil.rmtree(path, ignore_errors=True)


def test_killed_at_some_moments_of_creation(victim: Victim, folder: Path) -> None:
    kill_creation(victim, folder, lambda moments: sample(moments, SAMPLE))


@pytest.mark.slow
def test_killed_at_every_moment_of_creation(victim: Victim, folder: Path) -> None:
    kill_creation(victim, folder, states)


def check_created(path: Path, acknowledged: bool) -> None:
    """There is a whole database or none, and then there can be one."""
    try:
        db = livingdb.open(path)
    except NotFound:
        assert not acknowledged
        db = livingdb.create(path)
    with db:
        assert [branch.name for branch in db.branches()] == ["main"]
        assert db.branch("main").tables() == []
        db.branch("main").create_table("orders", ORDERS, key="id")
        db.branch("main").insert("orders", orders(0, 5))
        assert db.check().problems == []
    with pytest.raises(AlreadyExists):
        livingdb.create(path)


def test_killed_again_and_again(victim: Victim, folder: Path) -> None:
    """Commits on one database, killed in turn at all their moments; nothing is ever lost."""
    path = folder / "shop"
    SCENARIOS["small commit"].start(path)
    moments = victim.run("small commit", path).moments
    with livingdb.open(path) as db:
        db.branch("main").reset("main~1")
        known = {snapshot.id for snapshot in db.snapshots()}
        before = contents(db)
    for moment in range(2, len(moments), 9):
        outcome = victim.run("small commit", path, moment)
        with livingdb.open(path) as db:
            there = {snapshot.id for snapshot in db.snapshots()}
            assert known <= there
            known = there
            if outcome.acknowledged:
                assert contents(db) != before
            if contents(db) != before:
                db.branch("main").reset("main~1")
            assert contents(db) == before
    with livingdb.open(path) as db:
        assert db.check().problems == []


def test_what_killed_writers_leave_is_removed(victim: Victim, folder: Path) -> None:
    """Half-written files do not pile up: `compact` removes those that are a day old."""
    path = folder / "shop"
    SCENARIOS["large commit"].start(path)
    whole = Path(shutil.copytree(path, folder / "whole"))
    moments = victim.run("large commit", whole).moments
    middle = moments.index("middle write of a temporary file") + 1
    for _ in range(3):
        assert victim.run("large commit", path, middle).killed
    left = temporary(path)
    assert len(left) == 3
    for file in left[1:]:
        past = file.stat().st_mtime - 2 * DAY_SECONDS
        os.utime(file, (past, past))
    with livingdb.open(path) as db:
        db.compact()
        assert temporary(path) == left[:1]
        assert db.check().problems == []
