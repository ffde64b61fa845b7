"""What a mask hides is stored as rows; no recipe leads from there to the source."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.thinned import thinned
from tests.unit.commit.masks.shop import NAME, SOURCE, everything, is_stored, names, rows

import livingdb
from livingdb.evolution import (
    AddColumn,
    Decompose,
    DropColumn,
    DropConstraint,
    MaskColumn,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SplitTable,
)
from livingdb.tables.recipe import Derived

WHEN = pytest.mark.parametrize("when", ["immediate", "deferred"])
CHAINS: dict[str, list[SchemaChange]] = {
    "alone": [NAME],
    "first": [NAME, DropColumn("orders", "note"), RenameTable("orders", "sales")],
    "in between": [
        RenameColumn("customers", "name", "who"),
        MaskColumn("customers", "who", key=SOURCE),
        AddColumn("customers", "level", "int", default=1),
    ],
    "last": [
        DropColumn("orders", "note"),
        RenameColumn("orders", "customer", "buyer"),
        AddColumn("orders", "paid", "int", default=0),
        NAME,
    ],
    "two": [NAME, MaskColumn("customers", "city", "constant", "***")],
    "key": [
        MaskColumn("customers", "id", key=SOURCE),
        MaskColumn("orders", "customer", key=SOURCE),
        NAME,
    ],
    "parts": [
        DropConstraint("orders", foreign_key="customer"),
        Decompose("customers", {"people": ["name"], "places": ["city"]}),
        MaskColumn("people", "name", key=SOURCE),
    ],
}


@pytest.mark.parametrize(("chain", "when"), thinned(CHAINS, ["immediate", "deferred"]))
def test_rows_are_stored(
    db: livingdb.Database, main: livingdb.Branch, chain: str, when: str
) -> None:
    clone = main.clone("clone", transform=CHAINS[chain], sync="forward", when=when)
    raw = {f"raw {n}" for n in range(3)}
    for step in range(3):
        if step == 1:
            main.insert("customers", [{"id": 50, "name": "raw 1"}])
            main.update("customers", [{"id": 1, "name": "raw 2", "city": "Moss"}])
            main.delete("orders", [3, 13])
            main.delete("customers", [3])
        if step == 2:
            table = "orders" if chain == "parts" else "customers"
            main.evolve(AddColumn(table, "grade", "int", default=step))
        db.propagate()
        shown = {repr(value) for table in everything(clone).values() for row in table
                 for value in row.values()}  # fmt: skip
        assert not shown & {repr(value) for value in raw}
        anew = main.clone(f"clone_{step}", transform=CHAINS[chain])
        assert everything(clone) == everything(anew)
        assert_no_recipe_over_masked_tables(clone, main)
    assert db.check(deep=True).problems == []


def assert_no_recipe_over_masked_tables(clone: livingdb.Branch, main: livingdb.Branch) -> None:
    """No recipe of the clone leads to a version of a table of the source that holds names."""
    graph = main._graph
    raw = set()
    for row in main.log():
        at = graph.tables(row._row).get("customers")
        if at is not None:
            raw.add(at.hex())
    waiting = [graph.version(clone._head(), name) for name in clone.tables()]
    while waiting:
        version = waiting.pop()
        if version.base is not None:
            waiting.append(graph.versions.require(version.base))
        recipe = graph.versions.recipe(version)
        if isinstance(recipe, Derived):
            assert not set(recipe.data["inputs"].values()) & raw, recipe
            waiting += (
                graph.versions.derived.evaluators["lens"].inputs(recipe, graph.versions).values()
            )


@WHEN
def test_unmasked_tables_are_shared(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when)
    main.delete("orders", [0])
    db.propagate()
    assert clone.table("orders").version == main.table("orders").version
    assert is_stored(clone)


@WHEN
def test_a_change_of_rows_stores_a_masked_delta(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when)
    graph, before = main._graph, graph_version(clone)
    main.update("customers", [{"id": 4, "name": "raw 9"}])
    db.propagate()
    after = graph_version(clone)
    assert after.base == before.address
    assert len(graph.versions.delta(after)) == 1


def graph_version(branch: livingdb.Branch) -> Any:
    return branch._graph.version(branch._head(), "customers")


def test_masks_over_views_and_over_masks(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("people", "SELECT id, name FROM customers", when="immediate", key="id")
    over_view = db.branch("people").clone(
        "over_view", transform=MaskColumn("people", "name", key=SOURCE), sync="forward"
    )
    clone = main.clone("clone", transform=NAME, sync="forward")
    twice = clone.clone(
        "twice", transform=MaskColumn("customers", "city", "null"), sync="forward", when="deferred"
    )
    clone.derive(
        "counts", "SELECT name, count(*) AS n FROM customers GROUP BY name", when="immediate"
    )
    main.insert("customers", [{"id": 77, "name": "raw 0", "city": "Moss"}])
    db.propagate()
    assert is_stored(over_view, "people")
    assert is_stored(twice)
    known = clone.table("customers").get(77)["name"]
    assert (
        over_view.table("people").get(77)["name"]
        == known
        == clone.table("customers").get(0)["name"]
    )
    assert twice.table("customers").get(77) == {"id": 77, "name": known, "city": None}
    assert db.branch("counts").table("counts").get(known) == {"name": known, "n": 5}
    assert db.check(deep=True).problems == []


def test_in_place(db: livingdb.Database, main: livingdb.Branch) -> None:
    """The rows are masked and stored; what the branch held before is its own history."""
    before = main.head
    main.evolve(NAME)
    assert is_stored(main)
    assert main.head.parents == (before.id,)
    assert names(main).isdisjoint({"raw 0", "raw 1", "raw 2"})
    assert db.at("main~1").table("customers").get(0)["name"] == "raw 0"


def test_a_transaction_that_was_open_meanwhile(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    with main.transaction() as tx:
        tx.insert("customers", [{"id": 80, "name": "raw 1"}])
        db.branch("main").evolve(NAME)
    assert (
        main.table("customers").get(80)["name"] == main.table("customers").get(1)["name"] != "raw 1"
    )


@pytest.mark.slow
def test_many_rows(db: livingdb.Database) -> None:
    """Composite keys, nulls, other letters, dates and decimals, in full and by deltas."""
    count = 200_000
    main, table = db.branch("main"), many_rows(count)
    main.create_table("people", table.schema, key=["shop", "id"])
    main.insert("people", table)
    masks = [MaskColumn("people", name, key=SOURCE) for name in ("name", "born", "balance", "id")]
    now = main.clone("now", transform=masks, sync="forward")
    later = main.clone("later", transform=masks, sync="forward", when="deferred")
    shown = now.table("people").to_arrow()
    assert shown.num_rows == count
    assert shown.schema.types == table.schema.types
    for name in table.column_names[:-1]:
        assert shown.column(name).null_count == table.column(name).null_count, name
        assert len(shown.column(name).unique()) <= len(table.column(name).unique()), name
    assert sorted(shown.column("number").to_pylist()) == list(range(count))
    assert len(set(shown.column("name").to_pylist()) & set(table.column("name").to_pylist())) == 1
    assert is_stored(now, "people")
    assert is_stored(later, "people")
    gone = table.slice(100, 50).select(["shop", "id"])
    changed = table.slice(1000, 500).set_column(
        2, "name", pa.array([f"neu {n}" for n in range(500)])
    )
    main.delete("people", gone)
    main.upsert("people", changed)
    db.propagate()
    assert now.table("people").to_arrow() == later.table("people").to_arrow()
    anew = main.clone("anew", transform=masks)
    assert now.table("people").to_arrow() == anew.table("people").to_arrow()
    assert now.table("people").root() == anew.table("people").root()


def many_rows(count: int) -> pa.Table:
    number = np.arange(count)
    first = dt.date(1950, 1, 1)
    days = [None if n % 11 == 0 else first + dt.timedelta(days=n) for n in range(1000)]
    names_of = [None, "", "Zoë", "李雷", "Ωmega", *(f"name {n}" for n in range(5000))]
    money = [None if n % 7 == 0 else Decimal(n).scaleb(-2) for n in range(2000)]
    return pa.table(
        {
            "shop": pa.array(["Ærø", "北京", "Oslo", "a"]).take(pa.array(number % 4)),
            "id": pa.array(number // 4),
            "name": pa.array(names_of).take(pa.array(number % len(names_of))),
            "born": pa.array(days).take(pa.array(number % 1000)),
            "balance": pa.array(money, pa.decimal128(12, 2)).take(pa.array(number % 2000)),
            "number": pa.array(number),
        },
        schema=pa.schema(
            [
                pa.field("shop", pa.string(), False),
                pa.field("id", pa.int64(), False),
                pa.field("name", pa.string()),
                pa.field("born", pa.date32()),
                pa.field("balance", pa.decimal128(12, 2)),
                pa.field("number", pa.int64()),
            ]
        ),
    )


def test_what_is_written_back(db: livingdb.Database, main: livingdb.Branch) -> None:
    two = "two"
    main.evolve(NAME, to=two, sync="both")
    branch = db.branch(two)
    assert is_stored(branch)
    assert branch.head.parents == ()
    branch.update("customers", [{"id": 1, "city": "Moss"}])
    branch.insert("customers", [{"id": 60, "city": "Voss"}])
    main.insert("customers", [{"id": 61, "name": "raw 0"}])
    assert main.table("customers").get(1) == {"id": 1, "name": "raw 1", "city": "Moss"}
    assert main.table("customers").get(60) == {"id": 60, "name": None, "city": "Voss"}
    assert branch.table("customers").get(61)["name"] == branch.table("customers").get(0)["name"]
    assert is_stored(branch)
    assert len(rows(branch)) == len(rows(main))
    assert db.check(deep=True).problems == []


def test_tables_that_lose_their_links_are_stored(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    """What an earlier change of the same evolution made of them, too, whoever has read it."""
    parts = {"early": "id < 5", "late": "id >= 5"}
    mask = MaskColumn("customers", "id", key=SOURCE)
    main.evolve([SplitTable("orders", parts, strict=True), mask])
    assert [len(rows(main, name)) for name in parts] == [5, 15]
    assert all(is_stored(main, name) for name in parts)
    assert not db.check(deep=True).problems
