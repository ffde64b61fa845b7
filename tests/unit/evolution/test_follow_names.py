"""Schema changes by the names that tables and columns have later."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    ConcatColumns,
    Decompose,
    DropColumn,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitColumn,
)
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import tables_of
from livingdb.tables.recipe import Definition

RENAMES = [
    RenameTable("orders", "sales"),
    RenameTable("items", "lines"),
    RenameColumn("sales", "note", "t"),
    RenameColumn("sales", "city", "note"),
    RenameColumn("sales", "t", "city"),
    RenameColumn("lines", "order_id", "sale"),
]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Definition], ...]:
    path: Path = tmp_path_factory.mktemp("names") / "shop.ldb"
    with livingdb.create(path) as db:
        main, graph = db.branch("main"), db._graph
        columns = {"id": "int", "city": "string", "note": "string", "amount": "int"}
        main.create_table("orders", columns, key="id")
        main.create_table("items", {"id": "int", "order_id": "int"}, key="id")
        before = definitions_of(graph, tables_of(graph, main._head()))
        main.evolve(RENAMES)
        return before, definitions_of(graph, tables_of(graph, main._head()))


@pytest.mark.parametrize(
    ("change", "followed"),
    [
        (MaskColumn("orders", "note"), MaskColumn("sales", "city")),
        (DropColumn("orders", "city"), DropColumn("sales", "note")),
        (RenameColumn("orders", "note", "x"), RenameColumn("sales", "city", "x")),
        (RetypeColumn("orders", "note", "binary"), RetypeColumn("sales", "city", "binary")),
        (AddColumn("orders", "x", "int"), AddColumn("sales", "x", "int")),
        (SplitColumn("orders", "note", ("a", "b"), separator="-"),
         SplitColumn("sales", "city", ("a", "b"), separator="-")),
        (ConcatColumns("orders", ("city", "note"), "both", separator="-"),
         ConcatColumns("sales", ("note", "city"), "both", separator="-")),
        (Decompose("orders", {"p": ("city",), "q": ("note", "amount")}),
         Decompose("sales", {"p": ("note",), "q": ("city", "amount")})),
        (Normalize("orders", ("city",), "cities"), Normalize("sales", ("note",), "cities")),
        (ChangeKey("items", ("order_id",)), ChangeKey("lines", ("sale",))),
        (AddConstraint("items", foreign_key=("order_id", "orders")),
         AddConstraint("lines", foreign_key=("sale", "sales"))),
        (AddConstraint("orders", not_null="note"), AddConstraint("sales", not_null="city")),
        (JoinTables("orders", "items", "both"), JoinTables("sales", "lines", "both")),
        (DropTable("items"), DropTable("lines")),
        (RenameTable("orders", "x"), RenameTable("sales", "x")),
    ],
    ids=lambda change: type(change).__name__,
)  # fmt: skip
def test_a_change_follows(
    schemas: tuple[dict[str, Definition], ...], change: SchemaChange, followed: SchemaChange
) -> None:
    before, after = schemas
    assert follow_names([change], before, after) == [followed]
    assert follow_names([followed], after, before) == [change]


def test_each_goes_by_what_those_before_it_leave(
    schemas: tuple[dict[str, Definition], ...],
) -> None:
    before, after = schemas
    changes = [RenameColumn("orders", "note", "words"), MaskColumn("orders", "words"),
               DropColumn("orders", "city")]  # fmt: skip
    assert follow_names(changes, before, after) == [
        RenameColumn("sales", "city", "words"),
        MaskColumn("sales", "words"),
        DropColumn("sales", "note"),
    ]


def test_it_stays_the_same_change(schemas: tuple[dict[str, Definition], ...]) -> None:
    change = MaskColumn("orders", "note").with_id("1" * 32)
    (followed,) = follow_names([change], *schemas)
    assert followed.id == change.id
