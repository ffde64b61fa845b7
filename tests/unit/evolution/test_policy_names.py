"""Policies say a table or a column by any name that a side of the merge has for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import InvalidData, MergeConflict
from livingdb.evolution import DropColumn, RenameColumn, RenameTable
from livingdb.evolution.policy_names import policies_after
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string", "amount": "int"}, key="id")
        main.insert("orders", [{"id": 1, "city": "Oslo", "amount": 1}])
        main.clone("dev")
        yield database


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        ("ours", {"id": 1, "city": "Oslo", "net": 100}),
        ("theirs", {"id": 1, "city": "Oslo", "gross": 200}),
    ],
)
def test_a_column_that_both_renamed(
    db: livingdb.Database, winner: str, expected: dict[str, object]
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameColumn("orders", "amount", "net"))
    dev.evolve(RenameColumn("orders", "amount", "gross"))
    main.update("orders", {"id": [1], "net": [100]})
    dev.update("orders", {"id": [1], "gross": [200]})
    policy = {"orders.amount": winner}
    assert not db.preview_merge("dev", into="main", on_conflict=policy).conflicts
    db.merge("dev", into="main", on_conflict=policy)
    assert main.table("orders").get(1) == expected


@pytest.mark.parametrize("name", ["orders.amount", "sales.amount", "sales.net", "orders", "sales"])
def test_any_name_of_what_one_side_renamed(db: livingdb.Database, name: str) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "amount", "net")])
    main.update("sales", {"id": [1], "net": [100]})
    dev.update("orders", {"id": [1], "amount": [200]})
    if name == "sales.amount":  # a name that no side has
        with pytest.raises(livingdb.NotFound, match="amount"):
            db.merge("dev", into="main", on_conflict={name: "theirs"})
        return
    db.merge("dev", into="main", on_conflict={name: "theirs"})
    assert main.table("sales").get(1) == {"id": 1, "city": "Oslo", "net": 200}


def test_the_name_it_has_in_the_end_counts_first(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameColumn("orders", "amount", "net"))
    main.update("orders", {"id": [1], "net": [100]})
    dev.update("orders", {"id": [1], "amount": [200]})
    policy = {"orders.net": "ours", "orders.amount": "theirs"}
    db.merge("dev", into="main", on_conflict=policy)
    assert main.table("orders").get(1) == {"id": 1, "city": "Oslo", "net": 100}


def test_a_column_that_is_gone_has_no_rows_in_conflict(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(DropColumn("orders", "city"))
    main.update("orders", {"id": [1], "amount": [100]})
    dev.update("orders", {"id": [1], "amount": [200]})
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main", on_conflict={"orders.city": "ours"})
    db.merge("dev", into="main", on_conflict={"orders.city": "ours", "orders.amount": "theirs"})
    assert main.table("orders").get(1) == {"id": 1, "amount": 200}


def test_a_name_that_means_two_columns_is_refused() -> None:
    columns = {"id": "bigint", "city": "string", "amount": "int"}
    base = Definition(TableSchema.of(columns, "id"), Layout()).identified("0" * 32)

    def renamed(*names: str) -> dict[str, Definition]:
        schema = base.schema
        named = zip(schema.columns, names, strict=True)
        columns = tuple(replace(column, name=name) for column, name in named)
        return {"orders": replace(base, schema=replace(schema, columns=columns))}

    ours, theirs = renamed("id", "x", "amount"), renamed("id", "city", "x")
    after = renamed("id", "town", "net")
    with pytest.raises(InvalidData, match=r"'orders\.x', which one side has as 'orders\.net' and"):
        policies_after({"orders.x": "ours"}, [ours, theirs], after)
    assert policies_after({"orders.x": "ours"}, [ours], after) == {"orders.town": "ours"}
