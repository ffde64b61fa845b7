"""A list of changes that rows cross in one pass does what the changes do one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import livingdb
from livingdb.errors import LivingDBError
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ConcatColumns,
    DropColumn,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SchemaChange,
    SetDefault,
    SplitColumn,
)

COLUMNS = {"id": "bigint", "a": "int", "b": "double", "s": "string"}
ROWS = [{"id": n, "a": n, "b": n / 2, "s": f"x {n}"} for n in range(4)]
VAT = AddColumn("t", "vat", "double", default=0.25)
LISTS: dict[str, Sequence[SchemaChange]] = {
    "add, rename": [VAT, RenameColumn("t", "vat", "rate"), RenameColumn("t", "a", "n")],
    "retype, compute": [
        RetypeColumn("t", "a", "string"),
        AddColumn("t", "twice", "double", computed="b * 2"),
        AddColumn("t", "four", "double", computed="twice * 2"),
    ],
    "come and go": [
        VAT,
        AddColumn("t", "more", "double", up="vat * 4"),
        DropColumn("t", "vat"),
        DropColumn("t", "s"),
    ],
    "texts": [
        SplitColumn("t", "s", ["head", "tail"], separator=" "),
        AddColumn("t", "u", "string", default="u"),
        RenameColumn("t", "tail", "rest"),
    ],
    "rules": [
        AddConstraint("t", "small", check="a < 1000", on_violation="reject"),
        SetDefault("t", "b", 7.5),
        ReorderColumns("t", ["id", "s", "b", "a"]),
        RetypeColumn("t", "a", "bigint"),
        DropColumn("t", "b", default=1.5),
    ],
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", COLUMNS, key="id")
        main.insert("t", ROWS)
        yield database
        assert database.check(deep=True).problems == []


def hidden(db: livingdb.Database) -> int:
    return sum(row.name.startswith("~") for row in db._graph.branches.all())


def make_both(db: livingdb.Database, changes: Sequence[SchemaChange]) -> None:
    """`old` and `new` are in step by the list; `one` and `many` by every change itself."""
    main = db.branch("main")
    main.clone("new").evolve(list(changes), keep="old", sync="both")
    many = main.clone("many")
    for number, change in enumerate(changes):
        many.evolve(change, keep="one" if number == 0 else f"v{number}", sync="both")


def write(db: livingdb.Database, names: tuple[str, str], how: str, rows: Any) -> None:
    """The same write in both ways; what one refuses the other refuses."""
    outcomes = []
    for name in names:
        try:
            getattr(db.branch(name), how)("t", rows)
            outcomes.append("done")
        except LivingDBError as error:
            outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1], (how, rows, outcomes)


def assert_same(db: livingdb.Database) -> None:
    for one, other in (("old", "one"), ("new", "many")):
        mine, yours = (db.branch(name).table("t").to_arrow() for name in (one, other))
        assert mine.to_pylist() == yours.to_pylist(), (one, other)
        assert mine.schema == yours.schema


def some_value(chance: Random, kind: str) -> Any:
    if chance.random() < 0.2:
        return None
    if kind == "string":
        return chance.choice(["p q", "7", "x", "12 13", "-", "u-1"])
    return chance.choice([0, 1, 5, 300]) if kind != "double" else chance.choice([0.5, 2.0, -1.0])


def write_some(db: livingdb.Database, chance: Random, count: int) -> None:
    for _ in range(count):
        names = chance.choice([("old", "one"), ("new", "many")])
        schema = db._graph.versions.definition(
            db._graph.version(db._graph.resolve(names[0]).snapshot, "t")
        ).schema
        key = chance.randrange(8)
        if chance.random() < 0.2:
            write(db, names, "delete", [{"id": key}])
            continue
        free = [c for c in schema.columns if c.name != "id" and c.computed is None]
        picked = [c for c in free if chance.random() < 0.6]
        row = {c.name: some_value(chance, c.type_name) for c in picked}
        write(db, names, chance.choice(["upsert", "update", "insert"]), [{"id": key, **row}])
        assert_same(db)


@pytest.mark.parametrize("name", LISTS)
def test_rows_are_those_of_every_change_by_itself(db: livingdb.Database, name: str) -> None:
    make_both(db, LISTS[name])
    assert hidden(db) == 0
    write_some(db, Random(name), 12)
    assert_same(db)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", LISTS)
def test_many_writes(db: livingdb.Database, name: str, seed: int) -> None:
    make_both(db, LISTS[name])
    write_some(db, Random(f"{name} {seed}"), 25)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ([RetypeColumn("t", "a", "bigint"), RetypeColumn("t", "a", "string")], 1),
        (
            [
                SplitColumn("t", "s", ["head", "tail"], separator=" "),
                ConcatColumns("t", ["tail", "head"], "s", separator=" "),
            ],
            1,
        ),
        ([VAT, RenameColumn("t", "a", "n"), Normalize("t", ["s"], "x"), DropColumn("t", "b")], 2),
        ([VAT, RenameTable("t", "u"), RenameColumn("u", "a", "n")], 2),
        ([VAT, MaskColumn("t", "s", "null"), RenameColumn("t", "a", "n")], 2),
    ],
    ids=["types of nobody", "parts of nobody", "two tables", "two names", "masked"],
)
def test_what_does_not_compose_stays_apart(
    db: livingdb.Database, changes: list[SchemaChange], places: int
) -> None:
    db.branch("main").evolve(changes, keep="old", sync="both")
    assert hidden(db) == places
    db.branch("old").update("t", [{"id": 1, "a": 8, "b": 0.125}])


@pytest.mark.parametrize("direction", ["reverse", "both"])
@pytest.mark.parametrize("place", ["keep", "to"])
def test_what_several_changes_before_a_mask_made_is_there_when_opened_again(
    db: livingdb.Database, place: str, direction: str
) -> None:
    """A hidden branch stands before the mask, on what all changes before it made."""
    changes = [VAT, RenameColumn("t", "a", "n"), MaskColumn("t", "s", "null")]
    db.branch("main").evolve(changes, sync=direction, **{place: "other"})
    assert hidden(db) == 1
    with livingdb.open(db.name, author="reader") as again:
        assert again.check(deep=True).problems == []
        between = next(row for row in again._graph.branches.all() if row.name.startswith("~"))
        found = again._graph.version(again._graph.snapshots.at(between.head), "t")
        shown = again._graph.versions.rows(found).to_arrow().to_pylist()
    assert shown[1] == {"id": 1, "n": 1, "b": 0.5, "s": "x 1", "vat": 0.25}


def test_rows_written_after_several_changes_and_a_mask_are_there_when_these_are_reverted(
    db: livingdb.Database,
) -> None:
    main = db.branch("main")
    main.evolve([VAT, RenameColumn("t", "a", "n"), MaskColumn("t", "s", "null")])
    made = main.head
    main.insert("t", [{"id": 70, "n": 5}])
    main.revert(made)
    with livingdb.open(db.name, author="reader") as again:
        assert again.check(deep=True).problems == []
        assert again.branch("main").table("t").get(70) == {"id": 70, "a": 5, "b": None, "s": None}


def test_changes_of_several_tables(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("u", {"id": "bigint", "n": "int"}, key="id")
    main.insert("u", [{"id": 1, "n": 1}])
    changes = [
        VAT,
        RenameColumn("u", "n", "m"),
        RenameColumn("t", "vat", "rate"),
        AddColumn("u", "filled", "int", computed="coalesce(m, 0)"),
        DropColumn("t", "s"),
    ]
    main.evolve(changes, keep="old", sync="both")
    old = db.branch("old")
    assert hidden(db) == 0
    with old.transaction() as tx:
        tx.update("t", [{"id": 1, "b": 9.0, "s": "here"}])
        tx.upsert("u", [{"id": 1, "n": 5}, {"id": 2, "n": 6}])
    assert main.table("t").get(1) == {"id": 1, "a": 1, "b": 9.0, "rate": 0.25}
    assert main.table("u").get(1) == {"id": 1, "m": 5, "filled": 5}
    main.update("u", [{"id": 2, "m": 7}])
    main.delete("t", [0])
    assert (old.table("u").get(2)["n"], old.table("t").get(0)) == (7, None)
    assert old.table("t").get(1)["s"] == "here"
    assert "main.u: 1 row" in str(db.forward_lineage("old", "u", 1))
    assert str(db.forward_lineage("old", "u", 1)).count("row") == 1
    assert list(db.lineage("main.u", key=2)) == ["u"]


def test_what_follows_a_list(db: livingdb.Database) -> None:
    """Retiring, stopping and going on, lineage and pictures over a sync of several changes."""
    main = db.branch("main")
    main.evolve(LISTS["add, rename"], keep="v1", sync="both")
    more = [AddColumn("t", "c", "int", default=3), RenameColumn("t", "b", "d")]
    main.evolve(more, keep="v2", sync="both")
    v1 = db.branch("v1")
    assert hidden(db) == 0
    assert [sync.name for sync in db.syncs()] == ["v1/v2", "v2/main"]
    db.sync("v2/main").detach()
    main.insert("t", [{"id": 10, "n": 1}])
    v1.update("t", [{"id": 1, "a": 9}])
    db.sync("v2/main").reattach()
    assert (main.table("t").get(1)["n"], v1.table("t").get(10)["a"]) == (9, 1)
    assert "d <- t.b" in str(db.column_lineage("main"))
    assert "v2.t: 1 row" in str(db.forward_lineage("v1", "t", 1))
    assert "n=9" in str(db.lineage("main", key=1))
    db.retire("v2")
    v1.update("t", [{"id": 2, "b": 0.125}])
    main.update("t", [{"id": 3, "n": 77}])
    assert (main.table("t").get(2)["d"], v1.table("t").get(3)["a"]) == (0.125, 77)
