"""Schema changes over tables whose rows no column tells apart, and over expressions that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import (
    IllegalSync,
    InvalidData,
    MergeConflict,
    RuleViolation,
    Unsupported,
)
from livingdb.evolution import AddColumn, ChangeKey, Decompose, DropColumn, RenameColumn
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


@pytest.mark.parametrize("branch", ["view", "lens", "later", "copy"])
def test_rows_without_a_key_are_not_written(db: livingdb.Database, branch: str) -> None:
    view = db.branch("main").derive("view", AMOUNTS, when="immediate")
    view.evolve(AddColumn("view", "vat", "int", default=1), to="lens", sync="forward")
    added = AddColumn("view", "vat", "int")
    view.clone("later", transform=[added], sync="forward", when="deferred")
    view.clone("copy")
    for sync in ("view", "lens", "later"):
        db.sync(sync).detach()
    there = db.branch(branch)
    before = there.head.id
    for statement in (
        "UPDATE view SET amount = 7 WHERE amount = 3",
        "DELETE FROM view WHERE amount = 3",
        "INSERT INTO view (amount) VALUES (7)",
        "INSERT OVERWRITE view SELECT * FROM view",
        "MERGE INTO view USING (SELECT 3 AS n) AS s ON amount = n WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(Unsupported, match=r"the rows of 'view' have no key.*ChangeKey"):
            there.sql(statement)
    row = [{"amount": 7}]
    for write in (there.insert, there.upsert, there.update, there.delete):
        with pytest.raises(Unsupported, match=r"the rows of 'view' have no key.*ChangeKey"):
            write("view", row)
    assert there.head.id == before


def test_rows_that_get_a_key_are_written(db: livingdb.Database) -> None:
    both = "SELECT id FROM orders UNION ALL SELECT amount FROM orders WHERE id = 1"
    view = db.branch("main").derive("v", both, when="immediate")
    db.sync("v").detach()
    view.evolve(ChangeKey("v", ["id"]))
    view.sql("UPDATE v SET id = 9 WHERE id = 3")
    view.sql("DELETE FROM v WHERE id = 1")
    assert amounts(db, "v") == [(2,), (9,)]
    view.insert("v", [{"id": 5}])
    view.sql("INSERT INTO v VALUES (6)")
    view.upsert("v", [{"id": 6}, {"id": 7}])
    assert amounts(db, "v") == [(2,), (5,), (6,), (7,), (9,)]
    assert db.check(deep=True).problems == []


def test_a_key_of_rows_without_one_goes_one_way(db: livingdb.Database) -> None:
    view = db.branch("main").derive(
        "v", "SELECT id FROM orders UNION ALL SELECT 9", when="deferred"
    )
    db.sync("v").detach()
    change = ChangeKey("v", ["id"])
    for sync in ("both", "reverse"):
        with pytest.raises(IllegalSync, match="have no key on the old side"):
            view.evolve(change, to="keyed", sync=sync)
    view.evolve(change)
    made = view.head.id
    with pytest.raises(RuleViolation, match="have no key on the old side"):
        view.revert(made)


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
    with pytest.raises(InvalidData, match=r"'orders', column 'twice': 2147483647 .* the key 3"):
        main.evolve(twice)
    main.delete("orders", [3])
    main.evolve(twice)
    assert main.table("orders").get(1) == {"id": 1, "amount": 3, "note": None, "twice": 6}


@pytest.mark.parametrize(
    ("text", "is_total"),
    [
        ("i", True),
        ("i + 1", False),
        ("i * 2", False),
        ("d * 2 - d", True),
        ("d / 2", True),
        ("d / 0", False),
        ("d / d", False),
        ("i div 2", False),
        ("CAST(s AS INT)", False),
        ("CAST(i AS BIGINT)", True),
        ("CAST(j AS INT)", False),
        ("CAST(i AS STRING)", True),
        ("try_cast(s AS INT)", True),
        ("concat(s, '!')", True),
        ("coalesce(upper(s), 'none')", True),
        ("CASE WHEN i > 3 AND s LIKE 'a%' THEN length(s) ELSE 0 END", True),
        ("CASE WHEN i > 3 THEN 1 / i ELSE 0 END", False),
        ("array_join(array(s), ',')", False),
    ],
)
def test_what_is_computed_for_all_values(text: str, is_total: bool) -> None:
    kinds = {"i": pa.int32(), "j": pa.int64(), "d": pa.float64(), "s": pa.string()}
    assert Expression(text).is_total(pa.schema(kinds)) == is_total


@pytest.mark.parametrize(
    ("text", "is_never_null"),
    [
        ("i", False),
        ("n", True),
        ("n + 1", True),
        ("n + i", False),
        ("nullif(n, 0)", False),
        ("coalesce(i, n)", True),
        ("CASE WHEN i > 0 THEN n END", False),
        ("CASE WHEN i > 0 THEN n ELSE 0 END", True),
        ("i IS NULL", True),
        ("try_cast(CAST(n AS STRING) AS INT)", False),
    ],
)
def test_what_is_never_null(text: str, is_never_null: bool) -> None:
    schema = pa.schema([pa.field("i", pa.int32()), pa.field("n", pa.int32(), False)])
    assert Expression(text).is_never_null(schema) == is_never_null


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
