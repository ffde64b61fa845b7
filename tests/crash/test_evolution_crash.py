"""kill -9 in the middle of schema changes: both schemas as they were, or both as they will be.

Run as a program, this file is the one whose children are killed: that of `victim`, with the
scenarios below.

Every schema change, also a list of changes with a sync, a write on branches in step and a reset
of a group are one transaction of the catalog; a migration is one for each table.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.crash.conftest import Victim
from tests.crash.moments import killing_moments
from tests.crash.scenarios import SCENARIOS, Contents, Scenario, contents, opened, orders, shop
from tests.thinned import thinned

import livingdb
from livingdb import Database, Layout
from livingdb.errors import DuplicateValue
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    DropColumn,
    MaskColumn,
    Normalize,
    RenameColumn,
    SchemaChange,
    SplitTable,
)

VAT = AddColumn("orders", "vat", "double", default=0.25)
PLACES = Normalize("orders", ["city"], "places")
MASK = MaskColumn("orders", "city", key="a key that the victim has, too")
IDS = MaskColumn("blobs", "id", key="another key that it has")
VARIABLE = "LIVINGDB_CRASH_MASK_KEY"
KILLS = 20
ONE_EACH = AddUnique("orders", ["city", "amount"])
CODE = AddColumn("orders", "code", "string", default="-")
LIST: list[SchemaChange] = [VAT, RenameColumn("orders", "amount", "total"), PLACES]


# --- what is interrupted ----------------------------------------------------------------------


def in_step(path: Path) -> None:
    """Three schemas: `old`, `main` with the cities apart, and a read-only one."""
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        main.evolve([VAT, PLACES], keep="old", sync="both")
        main.evolve(DropColumn("blobs", "data"), to="thin", sync="forward")


def chained(path: Path) -> None:
    """Three schemas in step: `old`, `middle` and `main`."""
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        main.evolve([VAT, PLACES], keep="old", sync="both")
        main.evolve(DropColumn("orders", "vat"), keep="middle", sync="both")


def shared(path: Path) -> None:
    """A chain at whose end the cities of orders are shared rows."""
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        main.evolve(RenameColumn("orders", "amount", "total"), keep="old", sync="both")
        places = Normalize("orders", ["city"], "places", on_update="fanout")
        main.evolve(places, keep="middle", sync="both")


def starred(path: Path) -> None:
    """Two schemas that were made of `main`."""
    shop(path)
    with livingdb.open(path) as db:
        db.branch("main").evolve([VAT, PLACES], to="first", sync="both")
        db.branch("main").evolve(RenameColumn("orders", "amount", "total"), to="new", sync="both")
        db.set_default_branch("new")


def indexed(path: Path) -> None:
    """Every commit is a tree, and there is an index of each."""
    shop(path, Layout(fold="always", target_rows=32))
    with livingdb.open(path) as db:
        db.branch("main").evolve([ONE_EACH, VAT], keep="old", sync="both")
        db.branch("main").upsert("orders", orders(300, 20, 3.0))


def write_unique(db: Database) -> None:
    with db.branch("main").transaction() as tx:
        tx.upsert("orders", orders(280, 30, 7.0))
        tx.delete("orders", [1, 2])


def moved(path: Path) -> None:
    in_step(path)
    with livingdb.open(path) as db:
        db.tag("before", "old")
        write_old(db)
        write_new(db)


def lazy(path: Path) -> None:
    """Two tables that are recipes only."""
    shop(path)
    with livingdb.open(path) as db:
        split = SplitTable("orders", {"few": "amount < 100", "many": "amount >= 90"})
        db.branch("main").evolve([VAT, split])


def masked(path: Path) -> None:
    """Masked clones that follow at once, one of them under masked keys."""
    shop(path)
    with livingdb.open(path) as db:
        main = db.branch("main")
        main.clone("clone", transform=MASK, sync="forward")
        main.clone("hidden", transform=IDS, sync="forward")


def migrated(path: Path) -> None:
    """A schema change that was tried on a branch, with rows on both sides; and one on main."""
    shop(path)
    with livingdb.open(path) as db:
        dev = db.branch("main").clone("dev")
        dev.evolve([VAT, PLACES])
        dev.sql("UPDATE orders SET amount = amount + 1 WHERE id % 7 = 0")
        db.branch("main").sql("DELETE FROM orders WHERE id % 5 = 0 AND id % 7 > 0")
        db.tag("change", db.branch("main").evolve(DropColumn("blobs", "data")))


def apart(path: Path) -> None:
    """A sync that was detached; both sides changed their schemas since, and rows."""
    in_step(path)
    with livingdb.open(path) as db:
        db.sync("old/main").detach()
        write_old(db)
        db.branch("old").evolve([CODE, DropColumn("blobs", "data")])
        db.branch("main").evolve([CODE, AddColumn("orders", "note", "string")])
        write_new(db)


def write_main(db: Database) -> None:
    with db.branch("main").transaction() as tx:
        tx.upsert("orders", [{**row, "city": "Ærø"} for row in orders(190, 20, 3.0)])
        tx.delete("orders", [1, 2])
        tx.delete("blobs", [1, 2])


def keyed(path: Path) -> None:
    shop(path)
    os.environ[VARIABLE] = "a key in the environment"
    with livingdb.open(path) as db:
        mask = MaskColumn("orders", "city", key=f"env:{VARIABLE}")
        db.branch("main").clone("clone", transform=mask, sync="forward")


def write_without_key(db: Database) -> None:
    os.environ.pop(VARIABLE, None)
    write_main(db)
    os.environ[VARIABLE] = "a key in the environment"


def waiting(path: Path) -> None:
    """A masked clone that somebody without the key left behind."""
    keyed(path)
    with livingdb.open(path) as db:
        write_without_key(db)


def catch_up(db: Database) -> None:
    os.environ[VARIABLE] = "a key in the environment"
    db.propagate()


def write_old(db: Database) -> None:
    with db.branch("old").transaction() as tx:
        tx.upsert("orders", [{**row, "city": "Ærø"} for row in orders(190, 20, 3.0)])
        tx.delete("orders", [1, 2])


def write_new(db: Database) -> None:
    db.branch("main").sql("UPDATE places SET city = 'Bodø' WHERE city = 'city 1'")


EVOLUTION: dict[str, Scenario] = {
    "evolve": Scenario(shop, opened(lambda db: db.branch("main").evolve([VAT, PLACES]))),
    "evolve, keep": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(PLACES, keep="old", sync="both"))
    ),
    "evolve, to": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(VAT, to="new", sync="forward"))
    ),
    "evolve a chain": Scenario(
        in_step,
        opened(
            lambda db: db.branch("main").evolve(
                AddConstraint("orders", check="amount > 20", on_violation="quarantine"),
                keep="middle",
                sync="both",
            )
        ),
    ),
    "merge schemas": Scenario(migrated, opened(lambda db: db.merge("dev", into="main"))),
    "revert a schema change": Scenario(
        migrated, opened(lambda db: db.branch("main").revert("change"))
    ),
    "pick a schema change": Scenario(
        migrated, opened(lambda db: db.branch("dev").cherry_pick("change"))
    ),
    "write on the old side": Scenario(in_step, opened(write_old)),
    "add a unique constraint": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(ONE_EACH, keep="old", sync="both"))
    ),
    "write under a unique constraint": Scenario(indexed, opened(write_unique)),
    "write on the new side": Scenario(in_step, opened(write_new)),
    "write that fans out along a chain": Scenario(shared, opened(write_old)),
    "reset": Scenario(moved, opened(lambda db: db.branch("old").reset("before"))),
    "detach": Scenario(in_step, opened(lambda db: db.sync("old/main").detach()), False),
    "drop": Scenario(in_step, opened(lambda db: db.drop_branch("old", detach=True))),
    "retire an end": Scenario(in_step, opened(lambda db: db.retire("old", "truncate"))),
    "retire between two": Scenario(chained, opened(lambda db: db.retire("middle", "truncate"))),
    "retire what two were made of": Scenario(
        starred, opened(lambda db: db.retire("main", "truncate"))
    ),
    "rename": Scenario(in_step, opened(lambda db: db.rename_branch("old", "older"))),
    "reattach": Scenario(apart, opened(lambda db: db.sync("old/main").reattach())),
    "migrate": Scenario(lazy, opened(lambda db: db.branch("main").migrate()), False),
    "mask": Scenario(
        shop, opened(lambda db: db.branch("main").clone("clone", transform=MASK, sync="forward"))
    ),
    "mask, both": Scenario(
        shop, opened(lambda db: db.branch("main").evolve([VAT, MASK], to="new", sync="both"))
    ),
    "mask, another key": Scenario(
        masked,
        opened(
            lambda db: db.branch("main").clone(
                "clone",
                transform=MaskColumn("orders", "city", key="another key"),
                sync="forward",
                replace=True,
            )
        ),
    ),
    "write under masks": Scenario(masked, opened(write_main)),
    "write without the key of a mask": Scenario(keyed, opened(write_without_key)),
    "catch up with the key of a mask": Scenario(waiting, opened(catch_up)),
    "list, keep": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(LIST, keep="old", sync="both"))
    ),
    "list, to": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(LIST, to="new", sync="both"))
    ),
    "list, forward": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(LIST, to="new", sync="forward"))
    ),
    "list, reverse": Scenario(
        shop, opened(lambda db: db.branch("main").evolve(LIST, keep="old", sync="reverse"))
    ),
    "list, in a chain": Scenario(
        in_step,
        opened(
            lambda db: db.branch("main").evolve(
                [LIST[1], AddColumn("orders", "note", "string")], keep="middle", sync="both"
            )
        ),
    ),
}


def main() -> None:
    """Be the program whose children are killed."""
    from tests.crash import victim

    SCENARIOS.update(EVOLUTION)
    victim.WARM += tuple(
        f"livingdb.{name}"
        for name in (
            "database.evolve",
            "evolution.lift",
            "commit.carrying.carry_lens",
            "commit.carrying.carry_view",
            "commit.deriving.derive",
            "commit.evolving.retire",
            "database.derive",
            "sql.statement",
            "sql.expressions",
        )
    )
    victim.main()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """One for all tests here: this file knows the scenarios."""
    made = Victim("tests.crash.test_evolution_crash")
    yield made
    made.close()


# --- what is left -----------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What users see, and how much there is of what they do not.

    `counts` are those of all branches and syncs, stages between changes as well, and snapshots.
    """

    rows: Contents
    syncs: tuple[str, ...]
    counts: tuple[int, int, int]


def state(db: Database) -> State:
    graph = db._graph
    counts = graph.branches.count(), len(graph.catalog.syncs.all()), len(db.snapshots())
    return State(contents(db), tuple(sync.explain() for sync in db.syncs()), counts)


class Trial:
    """One scenario, started over and over and killed somewhere else each time."""

    def __init__(self, name: str, victim: Victim, folder: Path):
        self.name, self.victim, self.folder = name, victim, folder
        self.start = folder / "start"
        EVOLUTION[name].start(self.start)
        with livingdb.open(self.start) as db:
            self.before = state(db)
            self.snapshots = {snapshot.id for snapshot in db.snapshots()}
        whole = Path(shutil.copytree(self.start, folder / "whole"))
        outcome = victim.run(name, whole)
        assert outcome.acknowledged
        assert not outcome.failed
        self.moments = outcome.moments
        self.seen: set[int] = set()
        """How much was done when it was killed."""
        with livingdb.open(whole) as db:
            self.after = state(db)
            check_groups(db)
        assert (self.before == self.after) == (name == "migrate")

    def kill(self, moment: int, check: Callable[[Path, bool], None]) -> None:
        """Kill it there and look at what is left."""
        path = Path(shutil.copytree(self.start, self.folder / "killed"))
        outcome = self.victim.run(self.name, path, moment)
        if not outcome.killed:  # it had fewer moments this time, and came to its end
            assert outcome.acknowledged
            assert len(outcome.moments) <= moment
        try:
            check(path, outcome.acknowledged)
        except BaseException as error:
            near = ", ".join(self.moments[max(0, moment - 3) : moment])
            error.add_note(f"{self.name}, killed at moment {moment} (the last one of: {near})")
            raise
        shutil.rmtree(path)

    def check_whole(self, path: Path, acknowledged: bool) -> None:
        """It happened or it did not; if it did not, it does when it is tried again."""
        with livingdb.open(path) as db:
            found = state(db)
            assert found == self.after or (found == self.before and not acknowledged)
            self.seen.add(int(found == self.after))
            assert self.snapshots <= {snapshot.id for snapshot in db.snapshots()}
            check_groups(db)
            assert db.check(deep=True).problems == []
        if found != self.after or self.name == "migrate":
            EVOLUTION[self.name].run(path, lambda: None)
        with livingdb.open(path) as db:
            assert state(db) == self.after
            if self.name == "migrate":
                assert db.branch("main").migrate() == []
            check_groups(db)
            check_writes(db)
            assert db.check(deep=True).problems == []


def check_groups(db: Database) -> None:
    """Every branch that a sync of branches in step writes can be reached from each end."""
    graph = db._graph
    known = {branch.id for branch in graph.branches.all()}
    for sync in graph.catalog.syncs.all():
        assert {*sync.sources, sync.target} <= known
    for sync in db.syncs():
        if sync.state == "active" and sync.direction == "both":
            assert keys(db, sync.sources[0]) == keys(db, sync.target)


def keys(db: Database, branch: str) -> list[object]:
    """The keys of the orders, which no change here but the constraint hides."""
    rows = db.branch(branch).table("orders").to_arrow().to_pylist()
    return [row["id"] for row in rows if row.get("amount", row.get("total")) > 20]


def check_writes(db: Database) -> None:
    """The next write reaches all that are in step, and one that is refused none."""
    graph = db._graph
    for branch in db.branches():
        reads_only = {sync.target for sync in db.syncs() if sync.direction == "forward"}
        reads_only |= {sync.sources[0] for sync in db.syncs() if sync.direction == "reverse"}
        if branch in reads_only or "orders" not in branch.tables():
            continue
        names = branch.table("orders").schema.names
        amount = "total" if "total" in names else "amount"
        number = 10_000 + len(db.snapshots())
        branch.insert("orders", [{"id": number, amount: 77.0}])
        if branch.table("orders").rows.schema.uniques:
            twin = {**branch.table("orders").get(20), "id": number + 1}
            with pytest.raises(DuplicateValue):
                branch.insert("orders", [twin])
        for sync in graph.syncs(graph.branch(branch.name).epoch):
            ends = [graph.branches.by_id(n).name for n in (*sync.sources, sync.target)]
            if branch.name in ends:
                assert [
                    end for end in ends if db.branch(end).table("orders").get(number) is None
                ] == []


def sample(moments: Sequence[str], every_commit: bool = False) -> list[int]:
    """In the middle of the first commit and of the last, or of all, and the last moment of all.

    What commits nothing is killed at its first moment instead.
    """
    commits = [n for n, name in enumerate(moments, 1) if name == "before commit"]
    chosen = commits if every_commit else [*commits[:1], *commits[-1:]]
    within = {min(n + 4, len(moments)) for n in chosen} or {1}
    return sorted({*within, len(moments)})


@pytest.mark.parametrize("name", thinned(EVOLUTION, every=6))
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in sample(trial.moments):
        trial.kill(moment, trial.check_whole)
    assert trial.seen == ({1} if name == "migrate" else {0, 1})


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", EVOLUTION)
def test_killed_at_many_moments(name: str, victim: Victim, folder: Path) -> None:
    trial = Trial(name, victim, folder)
    for moment in killing_moments(trial.moments, KILLS, name):
        trial.kill(moment, trial.check_whole)


if __name__ == "__main__":
    main()
