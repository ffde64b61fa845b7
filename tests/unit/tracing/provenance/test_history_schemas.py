"""The history of rows through schema changes."""

from __future__ import annotations

from typing import Any

import livingdb
from livingdb.evolution import (
    AddColumn,
    ChangeKey,
    DropColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
)


def told(db: livingdb.Database, ref: str, table: str, key: object, column: str) -> list[Any]:
    """What happened to a row: what, the value of a column after it, and who says so."""
    found = db.history(ref, table, key).to_pylist()
    return [(row["_change_type"], row[column], row["message"]) for row in found]


def test_older_values_in_the_schema_of_today(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "amount": [5]}, message="five")
    main.evolve(
        [
            AddColumn("orders", "vat", "double", default=0.5),
            RenameTable("orders", "sales"),
            RenameColumn("sales", "amount", "price"),
            RetypeColumn("sales", "price", "double"),
        ],
        message="evolved",
    )
    main.update("sales", {"id": [1], "price": [6.5]}, message="more")
    main.delete("sales", [1], message="gone")
    assert told(db, "main", "sales", 1, "price") == [
        ("delete", None, "gone"),
        ("update", 6.5, "more"),
        ("update", 5.0, "five"),
        ("insert", 10.0, "six orders"),
    ]
    assert told(db, "main", "sales", 1, "vat")[1:] == [
        ("update", 0.5, "more"),
        ("update", 0.5, "five"),
        ("insert", 0.5, "six orders"),
    ]
    every = db.history("main", "sales")
    assert every.num_rows == 9


def test_rows_that_were_gone_before_the_change(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.delete("orders", [1], message="gone")
    main.evolve(DropColumn("orders", "city"))
    main.insert("orders", {"id": [1], "amount": [3]}, message="back")
    assert told(db, "main", "orders", 1, "amount") == [
        ("insert", 3, "back"),
        ("delete", None, "gone"),
        ("insert", 10, "six orders"),
    ]
    assert "city" not in db.history("main", "orders", 1).column_names


def test_both_sides_of_a_sync(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "double", default=0.0), keep="v1", sync="both")
    db.branch("v1").update("orders", {"id": [1], "amount": [7]}, message="seven")
    for branch in ("main", "v1"):
        assert told(db, branch, "orders", 1, "amount") == [
            ("update", 7, "seven"),
            ("insert", 10, "six orders"),
        ]


def test_another_key_is_where_history_begins(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table("people", {"id": "bigint", "mail": "string not null"}, key="id")
    main.insert("people", {"id": [1], "mail": ["a"]})
    main.evolve(ChangeKey("people", ["mail"]), message="rekeyed")
    main.update("people", {"mail": ["a"], "id": [2]}, message="two")
    assert told(db, "main", "people", "a", "id") == [
        ("update", 2, "two"),
        ("insert", 1, "rekeyed"),
    ]


def test_a_merge_that_brought_a_schema(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.evolve(AddColumn("orders", "vat", "double", default=0.0))
    main.update("orders", {"id": [1], "amount": [9]}, message="nine")
    db.merge("main", "dev", message="merged")
    assert told(db, "dev", "orders", 1, "amount") == [
        ("update", 9, "merged"),
        ("insert", 10, "six orders"),
    ]
    db.merge("dev", "main", fast_forward=False, message="back")
    assert db.history("main", "orders", 1).num_rows >= 1
