"""Schema changes that are kept in step over a source whose columns and tables are renamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.thinned import thinned

import livingdb
from livingdb import condition
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ConcatColumns,
    DropColumn,
    MaskColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitTable,
)

Make = Callable[[str, str, str], SchemaChange]
CHANGES: dict[str, Make] = {
    "up": lambda t, a, c: AddColumn(t, "x", "bigint", up=f"{a} * 2"),
    "computed": lambda t, a, c: AddColumn(t, "x", "bigint", computed=f"{a} * 2"),
    "mask": lambda t, a, c: MaskColumn(t, c, "expression", f"concat(left({c}, 1), {a})"),
    "retype": lambda t, a, c: RetypeColumn(t, a, "string", up=f"concat({c}, {a})"),
    "drop": lambda t, a, c: DropColumn(t, c, down=f"concat('#', {a})"),
    "concat": lambda t, a, c: ConcatColumns(
        t, (a, c), "both", up=f"concat({a}, {c})", down={a: "length(both)", c: "both"}
    ),
    "check": lambda t, a, c: AddConstraint(t, "low", f"{a} < 40", on_violation="quarantine"),
    "repair": lambda t, a, c: AddConstraint(
        t, "low", f"{a} < 40", on_violation="repair", repair={a: f"length({c})"}
    ),
    "split": lambda t, a, c: SplitTable(t, {"low": f"{a} < 20", "high": f"{a} >= 20"}),
}
RENAMES: dict[str, list[SchemaChange]] = {
    "column": [RenameColumn("orders", "amount", "net")],
    "table": [RenameTable("orders", "sales")],
    "both": [RenameTable("orders", "sales"), RenameColumn("sales", "amount", "net")],
    "swap": [
        RenameColumn("orders", "amount", "x1"),
        RenameColumn("orders", "note", "amount"),
        RenameColumn("orders", "x1", "note"),
    ],
}
NAMES = {
    "column": ("orders", "net", "city"),
    "table": ("sales", "amount", "city"),
    "both": ("sales", "net", "city"),
    "swap": ("orders", "note", "city"),
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        main = made.branch("main")
        columns = {"id": "bigint", "amount": "bigint", "city": "string", "note": "bigint"}
        main.create_table("orders", columns, key="id")
        rows = [(1, 10, "Oslo", 1), (2, 20, "Rome", 2), (3, 50, "Bonn", 3)]
        main.insert("orders", [dict(zip(columns, row, strict=True)) for row in rows])
        yield made


def start(db: livingdb.Database, kind: str, change: SchemaChange, state: str) -> None:
    main = db.branch("main")
    guard = [condition.max_inserted(0, action="hold")] if state == "held" else []
    if kind == "lens":
        main.evolve(change, to="b", sync="forward", conditions=guard)
    else:
        when = "deferred" if state == "deferred" else "immediate"
        main.clone("b", transform=[change], sync="forward", when=when, conditions=guard)
    if state == "detached":
        db.sync("b").detach()
    if state == "held":
        main.insert("orders", [{"id": 8, "amount": 8, "city": "Kiel", "note": 8}])
        assert db.sync("b").state == "held"


def write(db: livingdb.Database, table: str, amount: str, number: int) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.insert(table, [{"id": number, amount: number, "city": "Ulm"}])
        tx.update(table, [{"id": 1, amount: number + 5}, {"id": 3, "city": f"Pisa{number}"}])


def bring_up_to_date(db: livingdb.Database, state: str) -> None:
    if state == "detached":
        db.sync("b").reattach()
    if state == "held":
        assert db.sync("b").approve()
        db.sync("b").alter(conditions=[])
    db.propagate()
    sync = db.sync("b")
    assert (sync.state, sync.reason) == ("active", "")
    assert sync.lag is not None
    assert sync.lag.snapshots == 0


def rows_of(branch: livingdb.Branch) -> dict[str, list[dict[str, Any]]]:
    return {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}


def is_right(db: livingdb.Database, change: SchemaChange, is_kept: bool) -> None:
    """The target has the rows that the change makes of the source, as it is called now."""
    report = db.check(deep=True)
    assert not report.problems, report
    db.branch("main").clone("anew", transform=[change], sync="none")
    made, anew = rows_of(db.branch("b")), rows_of(db.branch("anew"))
    if is_kept:  # what `up` fills once stays, whatever the row does later
        for rows in (made, anew):
            for row in next(iter(rows.values())):
                row.pop("x")
    assert made == anew
    db.drop_branch("anew")


STATES = [
    *(("lens", state) for state in ("active", "held", "detached")),
    *(("clone", state) for state in ("active", "held", "detached", "deferred")),
]


@pytest.mark.parametrize(("names", "target"), thinned(RENAMES, STATES), ids=str)
def test_it_follows(db: livingdb.Database, names: str, target: tuple[str, str]) -> None:
    kind, state = target
    made = CHANGES["computed"]
    start(db, kind, made("orders", "amount", "city"), state)
    db.branch("main").evolve(RENAMES[names])
    table, amount, city = NAMES[names]
    write(db, table, amount, 11)
    bring_up_to_date(db, state)
    is_right(db, made(table, amount, city), is_kept=False)
    write(db, table, amount, 12)
    bring_up_to_date(db, "active")
    is_right(db, made(table, amount, city), is_kept=False)


@pytest.mark.parametrize(("kind", "name"), thinned(["lens", "clone"], CHANGES))
def test_every_expression_follows(db: livingdb.Database, kind: str, name: str) -> None:
    made = CHANGES[name]
    start(db, kind, made("orders", "amount", "city"), "active")
    is_kept = made is CHANGES["up"]
    db.branch("main").evolve(RENAMES["both"])
    write(db, "sales", "net", 11)
    bring_up_to_date(db, "active")
    is_right(db, made("sales", "net", "city"), is_kept)
    back: list[SchemaChange] = [
        RenameTable("sales", "orders"),
        RenameColumn("orders", "net", "amount"),
    ]
    db.branch("main").evolve(back)
    write(db, "orders", "amount", 12)
    bring_up_to_date(db, "active")
    is_right(db, made("orders", "amount", "city"), is_kept)
    if kind == "clone":
        db.branch("main").clone("beside", transform=[made("orders", "amount", "city")])
        mine, other = (
            db.branch(name).table(db.branch("b").tables()[0]) for name in ("b", "beside")
        )
        assert mine.schema == other.schema


def test_lineage_of_a_clone_that_has_not_followed_yet(db: livingdb.Database) -> None:
    start(db, "clone", CHANGES["computed"]("orders", "amount", "city"), "deferred")
    db.branch("main").evolve(RENAMES["both"])
    found = db.lineage("b", key=2)
    assert found["orders"].column("amount").to_pylist() == [20]
    affected = db.forward_lineage("main~1", "orders", 2)
    assert affected["b.orders"].to_pylist() == [{"id": 2}]
    assert not affected.whole


@pytest.mark.parametrize("names", RENAMES)
def test_a_view_that_is_written_goes_on_with_the_kept_names(
    db: livingdb.Database, names: str
) -> None:
    main = db.branch("main")
    main.derive("cheap", "SELECT id, amount AS a FROM orders WHERE amount < 25", sync="both")
    with pytest.raises(livingdb.RuleViolation, match="keep="):
        main.evolve(RENAMES[names])
    main.evolve(RENAMES[names], keep="main_v1", sync="both")
    cheap, (table, amount, _) = db.branch("cheap"), NAMES[names]

    def is_same() -> None:
        rows = main.table(table).to_arrow(where=f"{amount} < 25").select(["id", amount])
        shown = cheap.table("cheap").to_arrow().rename_columns(["id", amount])
        assert shown.to_pylist() == rows.to_pylist()
        assert not db.check(deep=True).problems

    cheap.update("cheap", [{"id": 1, "a": 3}])
    cheap.insert("cheap", [{"id": 7, "a": 4}])
    main.update(table, [{"id": 2, amount: 5}])
    main.insert(table, [{"id": 8, amount: 6}])
    is_same()
    db.sync("cheap").detach()
    cheap.insert("cheap", [{"id": 9, "a": 4}])
    main.insert(table, [{"id": 10, amount: 6}])
    db.sync("cheap").reattach()
    is_same()
