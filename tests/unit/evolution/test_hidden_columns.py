"""Schema changes over views: hidden columns are carried, hidden tables stay with the view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    Decompose,
    DropColumn,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitTable,
)
from livingdb.graph.graph import tables_of

KEYLESS = "SELECT amount, city FROM orders UNION ALL SELECT amount, city FROM returns"
ROWS = [(1, 10, "Oslo"), (2, 10, "Oslo"), (3, 30, "Rome"), (4, None, None)]
CHANGES = {
    "add": [AddColumn("v", "rank", "bigint", default=1)],
    "computed": [AddColumn("v", "twice", "bigint", computed="amount * 2")],
    "drop": [DropColumn("v", "amount")],
    "rename": [RenameColumn("v", "amount", "net")],
    "rename table": [RenameTable("v", "w")],
    "retype": [RetypeColumn("v", "amount", "string")],
    "mask": [MaskColumn("v", "city", "null")],
    "check": [AddConstraint("v", "low", check="amount < 20", on_violation="quarantine")],
    "normalize": [Normalize("v", ["city"], "cities")],
    "decompose": [Decompose("v", {"a": ["amount"], "c": ["city"]})],
    "split": [SplitTable("v", {"low": "amount <= 10", "high": "amount > 10"})],
    "two": [RenameColumn("v", "amount", "net"), AddColumn("v", "rank", "int")],
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        main = made.branch("main")
        columns = {"id": "bigint", "amount": "bigint", "city": "string"}
        for table in ("orders", "returns"):
            main.create_table(table, columns, key="id")
            main.insert(table, [dict(zip(columns, row, strict=True)) for row in ROWS])
        yield made


def change_source(db: livingdb.Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.insert("orders", [{"id": 9, "amount": 10, "city": "Oslo"}])
        tx.update("orders", [{"id": 3, "amount": 7}])
        tx.delete("returns", [1, 4])
    db.propagate()


def is_right(db: livingdb.Database) -> None:
    report = db.check(deep=True)
    assert not report.problems, report


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_change_of_a_view_without_a_key(db: livingdb.Database, changes: list[SchemaChange]) -> None:
    db.branch("main").derive("v", KEYLESS, when="immediate")
    view = db.branch("v")
    view.evolve(changes, to="at_once", sync="forward")
    view.clone("later", transform=changes, sync="forward", when="deferred")
    is_right(db)
    change_source(db)
    is_right(db)
    at_once, later = db.branch("at_once"), db.branch("later")
    assert at_once.tables() == later.tables()
    for table in at_once.tables():
        mine, other = (b.table(table).to_arrow() for b in (at_once, later))
        assert not {"_row", "_copy"} & set(mine.column_names)
        assert sorted(map(str, mine.to_pylist())) == sorted(map(str, other.to_pylist()))
    assert {sync.state for sync in db.syncs()} == {"active"}


def test_equal_rows_stay_apart(db: livingdb.Database) -> None:
    db.branch("main").derive("v", KEYLESS, when="immediate")
    db.branch("v").evolve(RenameColumn("v", "amount", "net"), to="b", sync="forward")
    change_source(db)
    rows = db.branch("b").table("v").to_arrow(where="net = 10").to_pylist()
    assert rows == [{"net": 10, "city": "Oslo"}] * 4


def test_detached_and_attached_again(db: livingdb.Database) -> None:
    db.branch("main").derive("v", KEYLESS, when="immediate")
    db.branch("v").evolve(AddColumn("v", "rank", "int"), to="b", sync="forward")
    db.sync("b").detach()
    change_source(db)
    db.sync("b").reattach()
    is_right(db)
    assert len(db.branch("b").table("v")) == len(db.branch("v").table("v"))
    db.refresh("b", full=True)
    db.branch("b").migrate()
    is_right(db)


@pytest.mark.parametrize("how", ["sync", "clone"])
def test_lineage_through_a_view_without_a_key(db: livingdb.Database, how: str) -> None:
    db.branch("main").derive("v", KEYLESS, when="immediate")
    change = RenameColumn("v", "amount", "net")
    if how == "sync":
        db.branch("v").evolve(change, to="b", sync="forward")
    else:
        db.branch("v").clone("b", transform=[change], sync="forward", when="immediate")
    found = db.lineage("b", key={"net": 30})
    assert {table: rows.column("id").to_pylist() for table, rows in found.items()} == {
        "orders": [3],
        "returns": [3],
    }
    assert found["orders"].column_names == ["id", "amount", "city", "_snapshot"]
    affected = db.forward_lineage("main", "orders", 3)
    assert {"net": 30, "city": "Rome"} in affected["b.v"].to_pylist()


def test_hidden_tables_stay_with_the_view(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("sums", "SELECT city, sum(amount) AS s FROM orders GROUP BY city", when="immediate")
    graph = db._graph
    db.branch("sums").evolve(RenameColumn("sums", "s", "total"), to="b", sync="forward")
    assert len(tables_of(graph, db.branch("sums")._head())) > 1
    assert list(tables_of(graph, db.branch("b")._head())) == ["sums"]
    change_source(db)
    assert list(tables_of(graph, db.branch("b")._head())) == ["sums"]
    is_right(db)


def test_rows_that_a_view_sets_aside_are_not_seen_through_a_change(db: livingdb.Database) -> None:
    main = db.branch("main")
    low = livingdb.condition.in_range("amount", 0, 40, action="quarantine")
    main.derive("v", "SELECT id, amount FROM orders", when="immediate", conditions=[low])
    main.insert("orders", [{"id": 5, "amount": 500}])
    db.branch("v").evolve(RenameColumn("v", "amount", "net"), to="b", sync="forward")
    main.insert("orders", [{"id": 6, "amount": 20}, {"id": 7, "amount": 600}])
    assert db.branch("b").table("v").to_arrow().column("id").to_pylist() == [1, 2, 3, 4, 6]
    main.update("orders", [{"id": 5, "amount": 5}])
    assert db.branch("b").table("v").to_arrow().column("id").to_pylist() == [1, 2, 3, 4, 5, 6]
    is_right(db)
