"""Equal columns that two branches made are one after a merge, whichever id somebody knows it by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    CreateTable,
    DropColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SetDefault,
)
from livingdb.evolution.schema_change import SchemaChange

ADDED = AddColumn("t", "c", "int", default=1)
LATER = {
    "rename": (RenameColumn("t", "c", "e"), {"id": 1, "a": 1, "e": 5}),
    "retype": (RetypeColumn("t", "c", "bigint"), {"id": 1, "a": 1, "c": 5}),
    "drop": (DropColumn("t", "c"), {"id": 1, "a": 1}),
    "default": (SetDefault("t", "c", 9), {"id": 1, "a": 1, "c": 5}),
    "check": (AddConstraint("t", "positive", check="c > 0"), {"id": 1, "a": 1, "c": 5}),
    "computed": (AddColumn("t", "d", "int", computed="c * 2"), {"id": 1, "a": 1, "c": 5, "d": 10}),
}
"""What one does to the column later, and a row of its table then."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """main and dev have each added the column; dev is merged, and `later` knows only dev's."""
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("t", {"id": "int", "a": "int"}, key="id")
        main.insert("t", [{"id": 1, "a": 1}, {"id": 2, "a": 2}])
        dev = main.clone("dev")
        for branch in (main, dev):
            branch.evolve(ADDED)
        later = dev.clone("later")
        later.update("t", [{"id": 1, "c": 5}])
        made.merge("dev", into="main")
        yield made


@pytest.mark.parametrize("what", LATER)
def test_changes_by_the_other_id(db: livingdb.Database, what: str) -> None:
    """Merged, applied as a diff, and made on both sides: they are about the one column."""
    change, row = LATER[what]
    main, later = db.branch("main"), db.branch("later")
    applied, both = main.clone("applied"), main.clone("both")
    later.evolve(change)
    db.apply(db.diff("dev", "later"), "applied")
    both.evolve(change)
    db.merge("both", into="later")
    db.merge("later", into="main")
    for branch in (main, later, applied):
        assert branch.table("t").get(1) == row
    both.update("t", [{"id": 2, "a": 7}])
    assert db.merge("both", into="main").parents
    assert main.table("t").get(2)["a"] == 7
    assert db.check(deep=True).problems == []


def test_a_merge_either_way_gives_one_root(db: livingdb.Database) -> None:
    """Rows lie under the same root, whichever side's id the column goes by."""
    main, later = db.branch("main"), db.branch("later")
    main.update("t", [{"id": 2, "c": 7}])
    mine, yours = main.clone("mine"), later.clone("yours")
    db.merge("later", into="mine")
    db.merge("main", into="yours")
    assert mine.table("t").get(1)["c"] == 5
    assert mine.table("t").root() == yours.table("t").root()
    db.merge("mine", into="yours")
    db.merge("yours", into="mine")
    assert mine.table("t").root() == yours.table("t").root()


@pytest.mark.parametrize("source", ["t", "u"])
def test_views_of_the_other_id(db: livingdb.Database, source: str) -> None:
    """A branch that takes the line of the other takes what reads it along."""
    main, dev = db.branch("main"), db.branch("dev")
    if source == "u":  # a whole table that both made
        for branch in (main, dev):
            branch.evolve(CreateTable("u", {"id": "int", "c": "int"}, key="id"))
    query = f"SELECT id, c FROM {source} WHERE c > 0"
    dev.derive("now", query, when="immediate")
    dev.derive("soon", query, when="deferred")
    dev.clone("copy", transform=[RenameColumn(source, "c", "z")], sync="forward", when="deferred")
    db.merge("dev", into="main")
    db.merge("main", into="dev")
    assert dev.head == main.head
    later: list[SchemaChange] = [RenameColumn(source, "c", "e"), RenameTable(source, "s")]
    for change in (None, *later):
        if change is not None:
            dev.evolve(change)
        name, column = ("s" if change is later[1] else source), ("e" if change else "c")
        dev.upsert(
            name, [{"id": 3, "a": 3, column: 8}] if source == "t" else [{"id": 3, column: 8}]
        )
        db.propagate()
        assert [sync.state for sync in db.syncs()] == ["active"] * 3
        for view in ("now", "soon"):
            assert db.branch(view).table(view).get(3) == {"id": 3, "c": 8}
        assert db.branch("copy").table(name).get(3)["z"] == 8
    assert db.check(deep=True).problems == []
