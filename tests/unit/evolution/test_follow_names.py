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
    CreateTable,
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
    SplitTable,
)
from livingdb.evolution.changes.no_change import NoChange
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import tables_of
from livingdb.sql.stored_expressions import written_text
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
        (AddColumn("orders", "x", "string", up="concat(city, note)"),
         AddColumn("sales", "x", "string", up="concat(`note`, `city`)")),
        (AddColumn("orders", "x", "string", computed="upper(note)"),
         AddColumn("sales", "x", "string", computed="upper(`city`)")),
        (MaskColumn("orders", "note", "expression", "left(note, 1)"),
         MaskColumn("sales", "city", "expression", "left(`city`, 1)")),
        (MaskColumn("orders", "note", "constant", "city"),
         MaskColumn("sales", "city", "constant", "city")),
        (DropColumn("orders", "city", down="upper(note)"),
         DropColumn("sales", "note", down="upper(`city`)")),
        (RetypeColumn("orders", "note", "int", up="length(note)", down="concat(city, note)"),
         RetypeColumn("sales", "city", "int", up="length(`city`)", down="concat(`note`, `city`)")),
        (SplitColumn("orders", "note", {"a": "string", "b": "string"},
                     {"a": "upper(note)", "b": "city"}, "concat(a, city)"),
         SplitColumn("sales", "city", {"a": "string", "b": "string"},
                     {"a": "upper(`city`)", "b": "`note`"}, "concat(a, `note`)")),
        (ConcatColumns("orders", ("city", "note"), "both", "concat(city, note)",
                       {"city": "left(both, 1)", "note": "concat(both, amount)"}),
         ConcatColumns("sales", ("note", "city"), "both", "concat(`note`, `city`)",
                       {"note": "left(both, 1)", "city": "concat(both, amount)"})),
        (AddConstraint("orders", "c", "note <> city", on_violation="repair",
                       repair={"note": "concat(city, '!')"}),
         AddConstraint("sales", "c", "`city` <> `note`", on_violation="repair",
                       repair={"city": "concat(`note`, '!')"})),
        (SplitTable("orders", {"a": "note = 'x'", "b": "city = 'x'"}),
         SplitTable("sales", {"a": "`city` = 'x'", "b": "`note` = 'x'"})),
        (CreateTable("n", {"id": "int", "order_id": "int"}, "id",
                     foreign_keys={"order_id": "orders"}),
         CreateTable("n", {"id": "int", "order_id": "int"}, "id",
                     foreign_keys={"order_id": "sales"})),
    ],
    ids=lambda change: type(change).__name__,
)  # fmt: skip
def test_a_change_follows(
    schemas: tuple[dict[str, Definition], ...], change: SchemaChange, followed: SchemaChange
) -> None:
    before, after = schemas
    found = follow_names([change], before, after)
    assert found == [followed]
    assert follow_names(found, after, before) == [change]


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


def test_what_nothing_is_left_of_follows_and_breaks_with_its_table(
    schemas: tuple[dict[str, Definition], ...],
) -> None:
    before, after = schemas
    change = RenameTable("orders", "sales").with_id("1" * 32)
    (nothing,) = follow_names([change], before, after)
    assert (type(nothing), nothing.id) == (NoChange, change.id)
    assert follow_names([nothing], after, {**after, "sold": after["lines"]}) == [nothing]
    renamed = {"sold": after["sales"], "lines": after["lines"]}
    assert follow_names([nothing], after, renamed) == [RenameTable("sold", "sales")]
    assert follow_names([nothing], after, before) == [change]
    with pytest.raises(livingdb.LivingDBError, match="there is no table 'sales' to change"):
        follow_names([nothing], after, {"lines": after["lines"]})
    kept = SchemaChange.from_json(nothing.to_json())
    assert kept == nothing


def test_what_was_made_there_goes_on_without_its_table(
    schemas: tuple[dict[str, Definition], ...],
) -> None:
    before, after = schemas
    change = RenameTable("orders", "sales").with_id("1" * 32)
    (nothing,) = follow_names([change], before, after, {change.identity})
    (still,) = follow_names([nothing], after, after)
    assert follow_names([still], after, {"lines": after["lines"]}) == [still]
    assert "is_asked" not in still.to_json()


def test_what_was_written_comes_back_with_the_names(
    schemas: tuple[dict[str, Definition], ...],
) -> None:
    before, after = schemas
    change = AddColumn("orders", "x", "string", computed="upper( note )").with_id("1" * 32)
    (followed,) = follow_names([change], before, after)
    kept = SchemaChange.from_json(followed.to_json())
    assert kept.computed == "upper( `city` )"  # type: ignore[attr-defined]
    assert kept.written == followed.written != {}
    (column,) = kept.plan(after).new["sales"].schema.columns[-1:]
    assert written_text(kept.plan(after).new["sales"].schema, f"computed:{column.id}",
                        str(column.computed)) == "upper( note )"  # fmt: skip
    (again,) = follow_names([kept], after, before)
    assert again.to_json() == change.to_json()


def test_a_table_that_is_gone_is_not_the_hidden_one_that_has_its_rows(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "int", "amount": "int"}, key="id")
        main.insert("orders", {"id": [1, 2], "amount": [1, 5]})
        main.derive("seen", "SELECT id, amount FROM orders", materialize="where amount >= 2")
        db.sync("seen").detach()
        seen = db.branch("seen")
        seen.evolve(DropTable("seen"), to="none", sync="forward")
        seen.evolve(SplitTable("seen", {"low": "amount < 3", "high": "amount >= 3"}))
        assert db.sync("none").state == "detached"
        assert "there is no table 'seen'" in db.sync("none").reason
        assert db.branch("none").tables() == []
