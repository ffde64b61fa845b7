"""kill -9 in the middle of an erasure: history is as it was or without the row, never between.

Run as a program, this file is the one whose children are killed: that of `victim`, with the
scenario below.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.conftest import Victim
from tests.crash.moments import killing_moments
from tests.crash.scenarios import SCENARIOS, Scenario, opened
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import Database

CANARY, KEY = "zebra-canary", 7
KILLS = 80

Rows = dict[tuple[str, str], list[dict[str, Any]]]


def people(path: Path) -> None:
    """A table in packs and in the journal, a branch and a view."""
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        columns = {"id": "bigint", "name": "string", "n": "bigint"}
        main.create_table("people", columns, key="id", layout=livingdb.Layout(target_rows=16))
        names = [CANARY if i == KEY else f"name {i}" for i in range(60)]
        main.insert("people", {"id": range(60), "name": names, "n": range(60)})
        main.derive("named", "SELECT id, name FROM people", when="immediate")
        db.compact()
        main.update("people", [{"id": KEY, "n": 1}, {"id": 8, "n": 2}])
        main.clone("side").update("people", [{"id": KEY, "name": f"{CANARY} aside"}])


def erase(db: Database) -> None:
    db.erase("people", [KEY], reason="she asked")


ERASURE = {"erase": Scenario(people, opened(erase))}


def main() -> None:
    """Be the program whose children are killed."""
    from tests.crash import victim

    SCENARIOS.update(ERASURE)
    victim.WARM += (
        "livingdb.database.erase",
        "livingdb.database.derive",
        "livingdb.engines.embedded.session",
        "livingdb.commit.deriving.refresh",
        "livingdb.commit.carrying.carry_view",
    )
    victim.main()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """One for all tests here: this file knows the scenario."""
    made = Victim("tests.crash.test_erase_crash")
    yield made
    made.close()


def rows(db: Database) -> Rows:
    """The rows of all tables of all snapshots."""
    return {
        (snapshot.id, name): snapshot.table(name).to_arrow().to_pylist()
        for snapshot in db.snapshots()
        for name in snapshot.tables()
    }


def without(before: Rows) -> Rows:
    return {place: [r for r in held if r["id"] != KEY] for place, held in before.items()}


class Trial:
    """The erasure, started over and over and killed somewhere else each time."""

    def __init__(self, victim: Victim, folder: Path):
        self.victim, self.folder, self.start = victim, folder, folder / "start"
        people(self.start)
        with livingdb.open(self.start) as db:
            self.before = rows(db)
        whole = Path(shutil.copytree(self.start, folder / "whole"))
        outcome = victim.run("erase", whole)
        assert outcome.acknowledged
        self.moments = outcome.moments
        self.seen: set[str] = set()

    def kill(self, moment: int) -> None:
        """Kill it there, look at what is left, and do it again."""
        path = Path(shutil.copytree(self.start, self.folder / "killed"))
        outcome = self.victim.run("erase", path, moment)
        assert not outcome.failed
        try:
            self.check(path, outcome.acknowledged)
        except BaseException as error:
            near = ", ".join(self.moments[max(0, moment - 3) : moment])
            error.add_note(f"killed at moment {moment} (the last one of: {near})")
            raise
        shutil.rmtree(path)

    def check(self, path: Path, acknowledged: bool) -> None:
        with livingdb.open(path, engine="embedded") as db:
            found = rows(db)
            old = {place: found[place] for place in self.before}
            is_after = old == without(self.before)
            assert is_after or old == self.before
            assert is_after or not acknowledged
            assert is_after == bool(db._graph.catalog.erasures.all())
            self.seen.add("after" if is_after else "before")
            assert db.check().problems == []
        with livingdb.open(path, engine="embedded") as db:
            if not is_after:
                erase(db)
            assert places_of(db._graph, CANARY) == []
            assert {place: rows(db)[place] for place in self.before} == without(self.before)
            db.branch("main").insert("people", [{"id": KEY, "name": "another"}])
            assert db.check(deep=True).problems == []


def test_killed_at_some_moments(victim: Victim, folder: Path) -> None:
    trial = Trial(victim, folder)
    commits = [n for n, name in enumerate(trial.moments, 1) if name == "before commit"]
    chosen = {n + 4 for n in commits[-4:]} | {len(trial.moments)}
    for moment in sorted(n for n in chosen if n <= len(trial.moments)):
        trial.kill(moment)
    assert trial.seen == {"before", "after"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_many_moments(victim: Victim, folder: Path) -> None:
    trial = Trial(victim, folder)
    for moment in killing_moments(trial.moments, KILLS, "erase"):
        trial.kill(moment)


if __name__ == "__main__":
    main()
