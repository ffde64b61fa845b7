"""Looking for a row, and erasing it, where schema changes that it went through were forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import Database, Retention
from livingdb.evolution import (
    AddColumn,
    Decompose,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
)

CANARY = "zebra-canary"
RENAMED = (
    RenameTable("people", "guests"),
    RenameColumn("guests", "id", "number"),
    AddColumn("guests", "age", "bigint"),
)
RETYPED = (RetypeColumn("people", "id", "string"), RenameTable("people", "guests"))
CUT = (
    Decompose("people", {"named": ["name"], "placed": ["city"]}),
    RenameTable("named", "guests"),
)


@pytest.fixture
def db(tmp_path: Path) -> Database:
    made = livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded")
    made.branch("main").create_table(
        "people", {"id": "bigint", "name": "string", "city": "string"}, key="id"
    )
    return made


def forget_changes(db: Database, changes: Sequence[SchemaChange], tag: bool) -> None:
    """Make a row go through schema changes of which only what is after them is kept.

    With a tag also a snapshot is that lies before them.
    """
    main = db.branch("main")
    main.insert("people", [{"id": 1, "name": CANARY, "city": "Oslo"}, {"id": 2, "name": "Bo"}])
    if tag:
        db.tag("early", "main")
    main.update("people", {"id": [2], "name": ["Cy"]})
    for change in changes:
        main.evolve(change)
    main.create_table("pets", {"id": "bigint"}, key="id")
    for pet in range(4):
        main.insert("pets", {"id": [pet]})
    db.retention = Retention(snapshots=2, grace_seconds=0)
    db.collect_garbage()


def contents(db: Database) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of every table of every snapshot that is kept."""
    return {
        (snapshot.id, name): snapshot.table(name).to_arrow().to_pylist()
        for snapshot in db.snapshots()
        if db._graph.forgotten.find(snapshot._row) is None
        for name in snapshot.tables()
    }


@pytest.mark.parametrize("tag", [False, True])
@pytest.mark.parametrize(
    ("changes", "key"), [(RENAMED, 1), (RETYPED, "1"), (CUT, 1)], ids=["renamed", "retyped", "cut"]
)
def test_a_row_from_before_what_was_forgotten(
    db: Database, changes: Sequence[SchemaChange], key: object, tag: bool
) -> None:
    """It is told since the oldest kept snapshot that has it, and goes from all of them."""
    forget_changes(db, changes, tag)
    main = db.branch("main")
    before = contents(db)
    names = {name for _, name in before}
    assert ("people" in names) == tag
    (here,) = [
        one for one in db.whereabouts("guests", key) if one.name == "main" and one.table == "guests"
    ]
    kept = [
        s.id for s in db.snapshots() if (s.id, "people") in before or (s.id, "guests") in before
    ]
    assert (here.first, here.last) == (kept[-1], None)
    db.erase("guests", [key], reason="asked")
    assert places_of(db._graph, CANARY) == []
    after = contents(db)
    for place, rows in before.items():
        goes = [row for row in rows if CANARY in row.values()]
        assert after[place] == [row for row in rows if row not in goes], place
    assert main.table("guests").to_arrow().column("name").to_pylist() == ["Cy"]
    assert db.check(deep=True).problems == []


def test_a_row_that_was_deleted_in_what_was_forgotten(db: Database) -> None:
    """It was there in what is kept from before, and is told to be over by the next kept one."""
    main = db.branch("main")
    main.insert("people", [{"id": 1, "name": CANARY}, {"id": 2, "name": "Bo"}])
    db.tag("early", "main")
    main.evolve(RenameTable("people", "guests"))
    main.delete("guests", [1])
    for number in range(3, 6):
        main.insert("guests", {"id": [number]})
    db.retention = Retention(snapshots=2, grace_seconds=0)
    db.collect_garbage()
    found = {one.kind: one for one in db.whereabouts("guests", 1)}
    assert found["branch"].first == db.at("early").id
    assert found["branch"].last == db.at("main~1").id
    assert found["tag"].still
    db.erase("guests", [1], reason="asked")
    assert places_of(db._graph, CANARY) == []
    assert db.at("early").table("people").to_arrow().column("id").to_pylist() == [2]
    assert db.check(deep=True).problems == []


def test_a_row_under_schema_changes_whose_past_was_forgotten(db: Database) -> None:
    """They are kept themselves, and the tables that they were made of are not."""
    main = db.branch("main")
    main.insert("people", [{"id": 1, "name": CANARY}, {"id": 2, "name": "Bo"}])
    for change in RENAMED:
        main.evolve(change)
    main.evolve(RenameTable("guests", "visitors"))
    db.retention = Retention(snapshots=2, grace_seconds=0)
    db.collect_garbage()
    (only,) = db.whereabouts("visitors", 1)
    assert (only.first, only.last) == (db.at("main~1").id, None)
    db.erase("visitors", [1], reason="asked")
    assert places_of(db._graph, CANARY) == []
    assert [[row["name"] for row in rows] for rows in contents(db).values()] == [["Bo"]] * 3
    assert db.check(deep=True).problems == []


def test_a_tag_and_a_branch_that_were_forgotten(db: Database) -> None:
    """They have nothing any more, and the row is told of where it is kept."""
    main = db.branch("main")
    main.insert("people", [{"id": 1, "name": CANARY}])
    dev = main.clone("dev")
    dev.evolve(RenameColumn("people", "name", "called"))
    db.tag("v1", "dev")
    then = dev.head.time
    dev.reset("main")
    for number in range(2, 6):
        dev.insert("people", {"id": [number]})
    places = {("branch", "main"), ("branch", "dev")}
    told = {(one.kind, one.name) for one in db.whereabouts("people", 1)}
    assert told == {*places, ("tag", "v1")}
    db.retention = Retention(snapshots=2, grace_seconds=0, tags={"v*": "2020-01-01"})
    db.collect_garbage()
    assert {(one.kind, one.name) for one in db.whereabouts("people", 1)} == places
    assert {one.name for one in db.whereabouts("people", 1, at=then)} == {"main"}
    with pytest.raises(livingdb.Forgotten):
        db.whereabouts("people", 1, branch="dev", at=then)
    db.erase("people", [1], reason="asked")
    assert places_of(db._graph, CANARY) == []
    assert db.check(deep=True).problems == []
