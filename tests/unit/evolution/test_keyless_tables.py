"""Schema changes over tables whose rows no column tells apart, and over expressions that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import InvalidData, MergeConflict
from livingdb.evolution import AddColumn, Decompose, DropColumn, RenameColumn
from livingdb.sql.expressions import Expression

AMOUNTS = "SELECT amount FROM orders UNION ALL SELECT amount FROM orders"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        with db.branch("main").transaction() as tx:
            tx.create_table("orders", {"id": "int", "amount": "int", "note": "string"}, "id")
            tx.insert("orders", [{"id": 1, "amount": 3}, {"id": 2, "amount": 3}])
        yield db


def amounts(db: livingdb.Database, branch: str) -> list[tuple[object, ...]]:
    found = db.branch(branch).table("v").to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_rows_without_a_key_are_carried(db: livingdb.Database) -> None:
    main = db.branch("main")
    view = main.derive("v", AMOUNTS, when="immediate")
    view.evolve(
        [RenameColumn("v", "amount", "net"), AddColumn("v", "vat", "int", default=1)],
        to="lens",
        sync="forward",
    )
    assert amounts(db, "lens") == [(3, 1)] * 4
    main.update("orders", [{"id": 1, "amount": 5}])
    main.delete("orders", [2])
    assert amounts(db, "lens") == [(5, 1)] * 2
    assert db.check(deep=True).problems == []


def test_the_only_column_cannot_be_dropped(db: livingdb.Database) -> None:
    view = db.branch("main").derive("v", AMOUNTS, when="immediate")
    with pytest.raises(InvalidData, match="the only one: drop the table"):
        view.evolve(DropColumn("v", "amount"), to="lens", sync="forward")
    assert db.branches() == ["main", "v"]


def test_a_column_that_cannot_be_computed_for_a_row(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.insert("orders", [{"id": 3, "amount": 2**31 - 1}])
    twice = AddColumn("orders", "twice", "bigint", computed="amount * 2")
    assert "amount * 2" in main.explain_evolution(twice).scans[0]
    with pytest.raises(InvalidData, match="'twice' cannot be computed for all rows of 'orders'"):
        main.evolve(twice)
    main.delete("orders", [3])
    main.evolve(twice)
    assert main.table("orders").get(1) == {"id": 1, "amount": 3, "note": None, "twice": 6}


@pytest.mark.parametrize(
    ("text", "target", "is_total"),
    [
        ("i", "int32", True),
        ("i", "int64", True),
        ("j", "int32", False),
        ("i + 1", "int32", False),
        ("i * 2", "int64", False),
        ("d * 2 - d", "float64", True),
        ("d / 2", "float64", False),
        ("CAST(s AS INT)", "int32", False),
        ("concat(s, '!')", "string", True),
        ("coalesce(upper(s), 'none')", "string", True),
    ],
)
def test_what_is_computed_for_all_values(text: str, target: str, is_total: bool) -> None:
    kinds = {"i": pa.int32(), "j": pa.int64(), "d": pa.float64(), "s": pa.string()}
    wanted = pa.type_for_alias(target)
    assert Expression(text).is_total(pa.schema(kinds), wanted) == is_total


def test_a_merge_of_what_a_schema_change_has_no_place_in(db: livingdb.Database) -> None:
    main = db.branch("main")
    view = main.derive("v", "SELECT id, amount, note FROM orders", when="immediate")
    parts = Decompose("v", {"left_half": ["amount"], "right_half": ["note"]})
    view.clone("parts", transform=[parts], sync="forward")
    main.derive("v", "SELECT count(*) AS n FROM orders", when="immediate", replace=True)
    assert db.sync("parts").state == "detached"
    with pytest.raises(MergeConflict, match="Decompose v"):
        db.merge("v", "parts")
    db.merge("v", "parts", on_conflict="theirs")
    assert db.branch("parts").table("v").to_arrow().to_pylist() == [{"n": 2}]
