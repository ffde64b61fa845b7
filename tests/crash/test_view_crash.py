"""kill -9 in the middle of work on views: every view is in step with what it says it was made from.

Run as a program, this file is the one whose children are killed: that of `victim`, with the
scenarios below.

A commit and its immediate views are one transaction of the catalog, and so are deriving a view,
a clone with its views and each refresh of one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.crash.conftest import Victim
from tests.crash.moments import killing_moments
from tests.crash.scenarios import SCENARIOS, Contents, Scenario, contents, opened
from tests.crash.test_evolution_crash import sample
from tests.thinned import thinned
from tests.unit.commit.derived.oracle import assert_same_rows, recomputed

import livingdb
from livingdb import Branch, Database
from livingdb.commit.deriving.refresh import DEFINITION
from livingdb.derivation.view import KIND, View
from livingdb.evolution import DropColumn

ORDERS = {"id": "bigint", "customer": "bigint", "city": "string", "amount": "bigint"}
FILTER = "SELECT id, city, amount FROM orders WHERE amount > 40"
TOTALS = "SELECT city, sum(amount) AS total, count(*) AS orders FROM orders GROUP BY city"
JOIN = "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON o.customer = c.id"
LARGEST = "SELECT city, max(amount) AS largest FROM orders GROUP BY city HAVING count(*) > 3"
CITIES = "SELECT DISTINCT city FROM orders"
OVER = "SELECT city, total FROM totals WHERE total > 100"
RATIO = "SELECT id, 1000 % amount AS rest FROM orders"


# --- what is interrupted ----------------------------------------------------------------------


def orders(first: int, count: int, plus: int = 1) -> list[dict[str, Any]]:
    return [
        {"id": n, "customer": n % 5, "city": ["Oslo", "Rome", None][n % 3], "amount": n + plus}
        for n in range(first, first + count)
    ]


def shop(path: Path) -> None:
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        main.insert("customers", [{"id": n, "name": f"customer {n}"} for n in range(5)])
        main.insert("orders", orders(0, 90))


def derive(main: Branch, when: str, **queries: str) -> None:
    for name, query in queries.items():
        main.derive(name, sql=query, when=when, engine="embedded")


def immediate(path: Path) -> None:
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        derive(main, "immediate", few=FILTER, totals=TOTALS, named=JOIN, over=OVER)


def moved(path: Path) -> None:
    immediate(path)
    with livingdb.open(path) as db:
        write(db)


def diverged(path: Path) -> None:
    immediate(path)
    with livingdb.open(path) as db:
        dev = db.branch("main").clone("dev")
        dev.upsert("orders", orders(60, 60, 3))
        db.branch("main").delete("orders", [1, 2])


def fragile(path: Path) -> None:
    immediate(path)
    with livingdb.open(path) as db:
        derive(db.branch("main"), "immediate", fragile=RATIO)


def deferred(path: Path) -> None:
    """Views that do not read each other, all behind."""
    shop(path)
    with livingdb.open(path) as db:
        derive(db.branch("main"), "deferred", few=FILTER, totals=TOTALS, named=JOIN, cities=CITIES)
        write(db)


def chained(path: Path) -> None:
    """A view on a view, and one that follows the second at once."""
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        derive(main, "deferred", totals=TOTALS, over=OVER)
        derive(main, "immediate", last="SELECT count(*) AS cities FROM over")
        write(db)


def write(db: Database) -> None:
    with db.branch("main").transaction() as tx:
        tx.upsert("orders", orders(80, 30, 7))
        tx.delete("orders", [3, 5, 8])
        tx.update("customers", [{"id": 2, "name": "Åse"}])


def break_one(db: Database) -> None:
    db.branch("main").insert("orders", [{"id": 500, "customer": 1, "city": "Oslo", "amount": 0}])


def evolve(db: Database) -> None:
    """What views read goes: they move to the branch that keeps it."""
    change = DropColumn("orders", "city")
    db.branch("main").evolve(change, keep="kept", sync="both", on_break="move")


VIEWS: dict[str, Scenario] = {
    "evolve, and move views": Scenario(moved, opened(evolve)),
    "commit": Scenario(immediate, opened(write)),
    "commit that detaches a view": Scenario(fragile, opened(break_one)),
    "reset": Scenario(moved, opened(lambda db: db.branch("main").reset("main~1"))),
    "merge": Scenario(diverged, opened(lambda db: db.merge("dev", into="main"))),
    "derive, immediate": Scenario(
        immediate, opened(lambda db: derive(db.branch("main"), "immediate", largest=LARGEST))
    ),
    "derive, deferred": Scenario(
        shop, opened(lambda db: derive(db.branch("main"), "deferred", named=JOIN))
    ),
    "define anew": Scenario(
        immediate,
        opened(
            lambda db: db.branch("main").derive(
                "totals", sql=LARGEST, when="immediate", engine="embedded", replace=True
            )
        ),
    ),
    "alter": Scenario(
        immediate, opened(lambda db: db.sync("totals").alter(when="deferred", by="bo"))
    ),
    "clone with views": Scenario(
        moved, opened(lambda db: db.branch("main").clone("dev", derived=True))
    ),
    "clone of the past with views": Scenario(
        moved, opened(lambda db: db.at("main~1").clone("dev", derived=True))
    ),
    "refresh": Scenario(deferred, opened(lambda db: db.refresh("totals"))),
    "refresh in full": Scenario(deferred, opened(lambda db: db.refresh("named", full=True))),
    "propagate": Scenario(deferred, opened(lambda db: db.propagate())),
    "propagate a chain": Scenario(chained, opened(lambda db: db.propagate())),
}
SEVERAL = ("propagate", "propagate a chain")
KILLS = 20
"""Those of several transactions."""


def main() -> None:
    """Be the program whose children are killed."""
    from tests.crash import victim

    SCENARIOS.update(VIEWS)
    victim.WARM += tuple(
        f"livingdb.{name}"
        for name in (
            "database.derive",
            "derivation.compiler.plan_query",
            "engines.embedded.session",
            "sql.statement",
            "commit.deriving.clone_derived",
            "commit.deriving.derive",
            "commit.deriving.refresh",
            "commit.carrying.carry_view",
            "commit.deriving.runner",
        )
    )
    victim.main()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """One for all tests here: this file knows the scenarios."""
    made = Victim("tests.crash.test_view_crash")
    yield made
    made.close()


# --- what is left -----------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What users see, and how many snapshots and runs of syncs there are."""

    rows: Contents
    syncs: tuple[str, ...]
    alerts: tuple[str, ...]
    snapshots: int
    runs: int


def state(db: Database) -> State:
    return State(
        contents(db),
        tuple(f"{sync.name} {sync.state} {sync.when}" for sync in db.syncs()),
        tuple(alert.event for alert in db.alerts()),
        len(db.snapshots()),
        sum(len(sync.runs) for sync in db.syncs()),
    )


def versions(db: Database, view: View) -> Iterator[tuple[livingdb.Snapshot, View]]:
    """Every version of a view, newest first, with the definition that it was made by."""
    log = db.branch(view.name).log()
    edges = [db._graph.record(snapshot._row.address).edge for snapshot in log]
    for at, snapshot in enumerate(log):
        below = (edge.details[DEFINITION] for edge in edges[at:] if DEFINITION in edge.details)
        yield snapshot, View.from_json(next(below))


def check_views(db: Database) -> None:
    """Every version of every view is its query over what it names; immediate ones are in step."""
    for sync in db._graph.catalog.syncs.all():
        if sync.kind != KIND:
            continue
        view = View.from_json(sync.spec)
        seen: list[dict[str, str]] = []
        for snapshot, defined in versions(db, view):
            held = snapshot.table(view.name).to_arrow()
            assert_same_rows(held, recomputed(db, defined, snapshot._row), view.name)
            seen.append({**snapshot.sources, "definition": defined.query})
        assert all(one != other for one, other in pairwise(seen))
        if sync.is_active and sync.frequency == "immediate":
            assert db.sync(view.name).lag == 0
    assert db.check(deep=True).problems == []


class Trial:
    """One scenario, started over and over and killed somewhere else each time."""

    def __init__(self, name: str, victim: Victim, folder: Path):
        self.name, self.victim, self.folder = name, victim, folder
        self.start = folder / "start"
        VIEWS[name].start(self.start)
        with livingdb.open(self.start) as db:
            self.before = state(db)
            check_views(db)
        whole = Path(shutil.copytree(self.start, folder / "whole"))
        outcome = victim.run(name, whole)
        assert outcome.acknowledged
        assert not outcome.failed
        self.moments = outcome.moments
        self.seen: set[str] = set()
        """What was found after it was killed."""
        with livingdb.open(whole) as db:
            self.after = state(db)
            check_views(db)
        assert self.before != self.after

    def kill(self, moment: int) -> None:
        """Kill it there, look at what is left, and do it again."""
        path = Path(shutil.copytree(self.start, self.folder / "killed"))
        outcome = self.victim.run(self.name, path, moment)
        assert not outcome.failed
        try:
            self.check(path, outcome.acknowledged)
        except BaseException as error:
            near = ", ".join(self.moments[max(0, moment - 3) : moment])
            error.add_note(f"{self.name}, killed at moment {moment} (the last one of: {near})")
            raise
        shutil.rmtree(path)

    def check(self, path: Path, acknowledged: bool) -> None:
        with livingdb.open(path) as db:
            found = state(db)
            is_before, is_after = found == self.before, found == self.after
            self.seen.add("before" if is_before else "after" if is_after else "between")
            assert is_after or not acknowledged
            assert is_before or is_after or self.name in SEVERAL
            check_views(db)
        if not is_after:
            VIEWS[self.name].run(path, lambda: None)
        with livingdb.open(path, engine="embedded") as db:
            assert state(db) == self.after, "what was done is not done again"
            write_more(db)
            check_views(db)
            for sync in db.syncs():
                assert sync.state != "active" or sync.lag == 0


def write_more(db: Database) -> None:
    """The next write reaches every view: at once, or when it is its turn."""
    main = db.branch("main")
    names = main.table("orders").schema.names
    main.upsert("orders", [{name: row[name] for name in names} for row in orders(1_000, 5)])
    db.propagate()
    assert db.propagate() == []


@pytest.mark.parametrize("name", thinned(VIEWS, every=6))
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in sample(trial.moments, every_commit=name in SEVERAL):
        trial.kill(moment)
    assert {"before", "after"} <= trial.seen
    assert ("between" in trial.seen) == (name in SEVERAL)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", VIEWS)
def test_killed_at_many_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in killing_moments(trial.moments, KILLS, name):
        trial.kill(moment)


if __name__ == "__main__":
    main()
