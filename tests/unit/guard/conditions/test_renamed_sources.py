"""Conditions of clones and schema changes, after tables and columns of the source are renamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.thinned import thinned

import livingdb
from livingdb import condition as c
from livingdb.evolution import AddColumn, RenameColumn, RenameTable, SchemaChange

RENAMES: dict[str, tuple[list[SchemaChange], str, str]] = {
    "column": ([RenameColumn("orders", "amount", "net")], "orders", "net"),
    "table": ([RenameTable("orders", "sales")], "sales", "amount"),
    "both": (
        [RenameTable("orders", "sales"), RenameColumn("sales", "amount", "net")],
        "sales",
        "net",
    ),
    "swap": (
        [
            RenameColumn("orders", "amount", "t"),
            RenameColumn("orders", "note", "amount"),
            RenameColumn("orders", "t", "note"),
        ],
        "orders",
        "note",
    ),
}
GUARDS = {
    "target": c.in_range("amount", 0, 100, table="orders", action="hold"),
    "source": c.in_range("amount", 0, 100, table="orders", of="source", action="hold"),
    "both": c.not_null("city", table="orders") & c.in_range("amount", 0, 100, table="orders"),
    "share": c.max_changed_share(0.5, action="hold"),
    "table": c.max_changed_share(0.5, table="orders", action="hold"),
    "shift": c.max_mean_shift("orders.amount", 0.9, action="hold"),
    "psi": c.max_psi("orders.amount", 5, action="hold"),
    "sql": c.sql("SELECT id FROM orders_change WHERE amount > 100", action="hold"),
    "reconciles": c.reconciles("orders.amount", "orders.amount") & (c.mean("orders.amount") < 1e3),
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        main = made.branch("main")
        columns = {"id": "bigint", "amount": "bigint", "city": "string", "note": "bigint"}
        main.create_table("orders", columns, key="id")
        main.create_table("returns", {"id": "bigint", "order_id": "bigint"}, key="id")
        rows = [(number, number * 10, "Oslo", number) for number in range(1, 7)]
        main.insert("orders", [dict(zip(columns, row, strict=True)) for row in rows])
        yield made


def start(db: livingdb.Database, kind: str, guard: Any) -> None:
    main, change = db.branch("main"), AddColumn("orders", "x", "bigint", default=1)
    if kind == "lens":
        main.evolve(change, to="b", sync="forward", conditions=[guard])
    else:
        when = "deferred" if kind == "later" else "immediate"
        main.clone("b", transform=[change], sync="forward", when=when, conditions=[guard])


def update(db: livingdb.Database, table: str, rows: list[dict[str, Any]]) -> None:
    db.branch("main").update(table, rows)
    db.propagate()


def is_active(db: livingdb.Database) -> None:
    assert db.sync("b").state == "active", db.sync("b").reason


@pytest.mark.parametrize(
    ("guard", "names", "kind"), thinned(GUARDS, ["both", "swap"], ["lens", "later"])
)
def test_conditions_follow_names(db: livingdb.Database, kind: str, names: str, guard: str) -> None:
    condition = GUARDS[guard]
    start(db, kind, condition)
    changes, table, amount = RENAMES[names]
    db.branch("main").evolve(changes)
    db.propagate()
    is_active(db)
    update(db, table, [{"id": 1, amount: 11}])
    is_active(db)
    assert db.sync("b").conditions[0].text == condition.text
    update(db, table, [{"id": number, amount: 100_000 * number} for number in range(1, 7)])
    assert db.sync("b").state in ("held", "detached")
    assert "cannot be judged" not in db.sync("b").reason


@pytest.mark.parametrize("names", RENAMES)
@pytest.mark.parametrize("kind", ["lens", "clone", "later"])
def test_a_rename_is_no_change_of_rows(db: livingdb.Database, kind: str, names: str) -> None:
    start(db, kind, c.changed() <= 0)
    db.branch("main").evolve(RENAMES[names][0])
    db.propagate()
    is_active(db)
    assert db.sync("b").lag.snapshots == 0  # type: ignore[union-attr]


def test_references_follow_names(db: livingdb.Database) -> None:
    guard = c.no_orphans("order_id", "orders", to="id", table="returns", action="hold")
    start(db, "lens", guard)
    main = db.branch("main")
    main.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "id", "number")])
    main.evolve(RenameColumn("returns", "order_id", "sale"))
    main.insert("returns", [{"id": 1, "sale": 2}])
    is_active(db)
    main.insert("returns", [{"id": 2, "sale": 200}])
    assert db.sync("b").state == "held"
    assert "cannot be judged" not in db.sync("b").reason


def test_altered_conditions_go_by_the_names_of_that_time(db: livingdb.Database) -> None:
    start(db, "lens", c.in_range("amount", 0, 100, table="orders", action="hold"))
    main = db.branch("main")
    main.evolve(RENAMES["swap"][0])
    db.sync("b").alter(conditions=[c.in_range("amount", 0, 10, table="orders", action="hold")])
    main.update("orders", [{"id": 1, "note": 500}])
    is_active(db)
    main.evolve(RenameColumn("orders", "amount", "remark"))
    main.update("orders", [{"id": 1, "note": 600}])
    is_active(db)
    main.update("orders", [{"id": 1, "remark": 50}])
    assert db.sync("b").state == "held"


def test_altered_conditions_of_a_view(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("b", "SELECT id, amount FROM orders", when="immediate")
    main.evolve(RENAMES["swap"][0])
    guard = c.in_range("amount", 0, 10, of="source", action="hold")
    db.sync("b").alter(conditions=[guard])
    main.update("orders", [{"id": 1, "note": 500}])
    is_active(db)
    main.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "amount", "remark")])
    main.update("sales", [{"id": 2, "note": 600}])
    is_active(db)
    main.update("sales", [{"id": 1, "note": 1, "remark": 50}])
    assert db.sync("b").state == "held"
    assert "cannot be judged" not in db.sync("b").reason


@pytest.mark.parametrize("kind", ["view", "lens"])
@pytest.mark.parametrize("is_altered", [False, True])
def test_what_was_measured_is_known_after_a_rename(
    db: livingdb.Database, kind: str, is_altered: bool
) -> None:
    main = db.branch("main")
    guard = c.max_zscore(c.mean("amount", of="source", table="orders"), 3, action="hold")
    if kind == "view":
        main.derive("b", "SELECT id, amount FROM orders", when="immediate", conditions=[guard])
    else:
        start(db, "lens", guard)
    for number in range(6):
        main.update("orders", [{"id": 1, "amount": 10 + number % 2}])
    main.evolve(RENAMES["column"][0])
    if is_altered:
        named = c.mean("net", of="source", table="orders")
        db.sync("b").alter(conditions=[c.max_zscore(named, 3, action="hold")])
    main.update("orders", [{"id": 1, "net": 10}])
    is_active(db)
    main.update("orders", [{"id": 1, "net": 10_000}])
    assert db.sync("b").state == "held"
    assert "zscore" in db.sync("b").reason


@pytest.mark.parametrize("names", ["column", "table", "both"])
@pytest.mark.parametrize("kind", ["lens", "later"])
def test_rows_set_aside_stay_so(db: livingdb.Database, kind: str, names: str) -> None:
    start(db, kind, c.in_range("amount", 0, 100, table="orders", action="quarantine"))
    main = db.branch("main")
    main.insert("orders", [{"id": 8, "amount": 800}, {"id": 9, "amount": 900}])
    changes, table, amount = RENAMES[names]
    main.evolve(changes)
    main.insert(table, [{"id": 10, amount: 1000}])
    main.update(table, [{"id": 8, amount: 8}])
    db.propagate()
    is_active(db)
    aside = db.sync("b").quarantined(table)
    assert aside.select(["id", amount]).to_pylist() == [
        {"id": 9, amount: 900},
        {"id": 10, amount: 1000},
    ]
    assert db.branch("b").table(table).to_arrow().column("id").to_pylist() == [1, 2, 3, 4, 5, 6, 8]
    assert not db.check(deep=True).problems


def test_a_row_set_aside_that_is_written_as_it_is_stays_so(db: livingdb.Database) -> None:
    start(db, "lens", c.in_range("amount", 0, 100, table="orders", action="quarantine"))
    main = db.branch("main")
    main.insert("orders", [{"id": 9, "amount": 900}])
    rows = [{"id": number, "amount": number} for number in range(1, 7)]
    main.update("orders", [*rows, {"id": 9, "amount": 900}])
    assert db.sync("b").quarantined("orders").column("id").to_pylist() == [9]
    assert db.branch("b").table("orders").get(9) is None
