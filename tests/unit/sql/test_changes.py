"""INSERT, UPDATE and DELETE."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from tests.unit.sql.shop import order, shop
from tests.unit.sql.twin import BranchScope, Database

from livingdb.errors import (
    DuplicateKey,
    InvalidData,
    LivingDBError,
    NotFound,
    ReadOnlyBranch,
    Unsupported,
)


@pytest.fixture
def main() -> BranchScope:
    return shop(5)


def row(scope: BranchScope, number: int) -> dict[str, Any] | None:
    return scope.rows("orders").get(number)


def test_insert_fills_in_defaults(main: BranchScope) -> None:
    result = main.sql("INSERT INTO orders (ID, city) VALUES (100, 'Rome'), (101, DEFAULT)")
    assert result.changed == 2
    assert result.snapshot is not None
    assert len(result) == 0
    added = row(main, 100)
    assert added is not None
    assert (added["city"], added["quantity"], added["price"]) == ("Rome", 1, None)


def test_insert_of_whole_rows_and_of_queries(main: BranchScope) -> None:
    main.sql(
        "INSERT INTO orders SELECT id + 10, city, amount, quantity, price, at, day FROM orders"
    )
    assert len(main.rows("orders").to_arrow()) == 10
    main.sql("INSERT INTO orders BY NAME SELECT 'Rome' AS city, 77 AS id")
    assert row(main, 77)["city"] == "Rome"  # type: ignore[index]
    main.sql("WITH n AS (SELECT 78 AS id) INSERT INTO orders (id) SELECT id FROM n")
    assert row(main, 78) is not None


def test_insert_overwrite_leaves_no_other_rows(main: BranchScope) -> None:
    result = main.sql("INSERT OVERWRITE orders (id, city) SELECT id, 'x' FROM orders WHERE id > 2")
    assert [(r["id"], r["city"], r["amount"]) for r in main.all("orders")] == [
        (3, "x", None),
        (4, "x", None),
    ]
    assert result.changed == 5


def test_update_sets_only_what_it_names(main: BranchScope) -> None:
    result = main.sql("UPDATE orders SET city = upper(city), quantity = DEFAULT WHERE id < 2")
    assert result.changed == 2
    expected = {**order(1), "city": "BERGEN", "quantity": 1}
    assert row(main, 1) == expected
    assert row(main, 2) == order(2)


def test_update_with_subqueries_and_an_alias(main: BranchScope) -> None:
    main.sql(
        "UPDATE orders AS o SET o.amount = (SELECT max(amount) FROM orders) + 1 "
        "WHERE o.id IN (SELECT id FROM customers)"
    )
    assert [r["amount"] for r in main.all("orders")] == [0.0, 7.0, 7.0, 4.5, 6.0]


def test_sums_fit_where_their_values_do(main: BranchScope) -> None:
    main.sql("UPDATE orders SET quantity = (SELECT sum(id) FROM orders), amount = id WHERE id = 1")
    main.sql("INSERT INTO orders (id, price) SELECT sum(id) + 100, sum(id) FROM orders")
    assert row(main, 1)["quantity"] == 10  # type: ignore[index]
    assert row(main, 110)["price"] == 10  # type: ignore[index]


def test_update_of_keys_moves_rows(main: BranchScope) -> None:
    assert main.sql("UPDATE orders SET id = id + 1").changed == 5
    assert [r["id"] for r in main.all("orders")] == [1, 2, 3, 4, 5]
    assert main.all("orders")[0] == {**order(0), "id": 1}
    assert main.sql("UPDATE orders SET id = id WHERE id = 3").changed == 1
    with pytest.raises(DuplicateKey):
        main.sql("UPDATE orders SET id = 1 WHERE id = 2")
    with pytest.raises(InvalidData):
        main.sql("UPDATE orders SET id = NULL WHERE id = 2")
    assert len(main.all("orders")) == 5


def test_delete(main: BranchScope) -> None:
    assert main.sql("DELETE FROM orders WHERE id IN (SELECT id FROM customers)").changed == 2
    assert [r["id"] for r in main.all("orders")] == [0, 3, 4]
    assert main.sql("DELETE FROM orders WHERE id > 100").changed == 0
    assert main.sql("DELETE FROM orders").changed == 3
    assert main.all("orders") == []


def test_null_conditions_change_nothing(main: BranchScope) -> None:
    assert main.sql("DELETE FROM orders WHERE city <> city || NULL").changed == 0
    assert main.sql("UPDATE orders SET amount = 0 WHERE city = NULL").changed == 0


def test_a_transaction_sees_its_own_changes(main: BranchScope) -> None:
    with main.write_transaction() as transaction:
        transaction.sql("INSERT INTO orders (id) VALUES (500)")
        transaction.sql("UPDATE orders SET amount = 1 WHERE id = 500")
        (found,) = transaction.sql("SELECT amount FROM orders WHERE id = 500")
        assert found == {"amount": 1.0}
        assert row(main, 500) is None
    assert row(main, 500) is not None


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("quantity", "2.7", 2),
        ("quantity", "-2.7", -2),
        ("quantity", "7.9e0", 7),
        ("quantity", "NULL", None),
        ("price", "2.345", decimal.Decimal("2.35")),
        ("price", "7", decimal.Decimal("7.00")),
        ("amount", "3", 3.0),
        ("city", "5", "5"),
        ("city", "true", "true"),
        ("city", "DATE '2026-02-03'", "2026-02-03"),
        ("day", "'2026-02-03'", datetime.date(2026, 2, 3)),
        ("day", "TIMESTAMP '2026-02-03 10:00:00'", datetime.date(2026, 2, 3)),
        ("at", "DATE '2026-02-03'", datetime.datetime(2026, 2, 3, tzinfo=datetime.UTC)),
        ("at", "'2026-02-03 01:00:00'", datetime.datetime(2026, 2, 3, 1, tzinfo=datetime.UTC)),
    ],
)
def test_values_become_the_type_of_the_column(
    main: BranchScope, column: str, value: str, stored: object
) -> None:
    main.sql(f"INSERT INTO orders (id, {column}) VALUES (900, {value})")
    assert row(main, 900)[column] == stored  # type: ignore[index]
    main.sql(f"UPDATE orders SET {column} = {value} WHERE id = 0")
    assert row(main, 0)[column] == stored  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("INSERT INTO orders (id, quantity) VALUES (9, 'x')", InvalidData, "'quantity' is int"),
        ("INSERT INTO orders (id, quantity) VALUES (9, true)", InvalidData, "boolean"),
        ("INSERT INTO orders (id, quantity) VALUES (9, 3000000000)", InvalidData, "range"),
        ("INSERT INTO orders (id, price) VALUES (9, 1e12)", InvalidData, "could not cast"),
        ("INSERT INTO orders (id, day) VALUES (9, 'soon')", InvalidData, "date"),
        ("INSERT INTO orders (id) VALUES (1)", DuplicateKey, "key"),
        ("INSERT INTO orders (id) VALUES (9), (9)", DuplicateKey, "key"),
        ("INSERT INTO orders (id) VALUES (NULL)", InvalidData, "id"),
        ("INSERT INTO orders (city) VALUES ('x')", InvalidData, "id"),
        ("INSERT INTO orders (id, id) VALUES (9, 9)", InvalidData, "twice"),
        ("INSERT INTO orders (id, nope) VALUES (9, 9)", NotFound, "nope"),
        ("INSERT INTO orders VALUES (9, 9)", InvalidData, "2 values for 7 columns"),
        (
            "INSERT INTO orders (id, city) VALUES (8, 'x'), (9)",
            InvalidData,
            "row 1 of VALUES has 1",
        ),
        ("INSERT INTO nope VALUES (9)", NotFound, "nope"),
        ("INSERT INTO orders (id) VALUES (9) ON CONFLICT DO NOTHING", Unsupported, "MERGE"),
        ("INSERT OR IGNORE INTO orders (id) VALUES (1)", Unsupported, "OR IGNORE"),
        ("INSERT OVERWRITE orders IF EXISTS SELECT 1", Unsupported, "INSERT takes a table"),
        ("UPDATE orders", InvalidData, "SET column = value"),
        ("UPDATE orders WHERE id = 1", InvalidData, "SET column = value"),
        ("UPDATE orders SET amount = 1 ORDER BY id", Unsupported, "SET and WHERE"),
        ("UPDATE orders SET nope = 1", NotFound, "nope"),
        ("UPDATE orders SET city = 'a', CITY = 'b'", InvalidData, "twice"),
        ("UPDATE orders SET amount = 1 FROM customers", Unsupported, "MERGE"),
        ("UPDATE orders SET amount = 1 / 0", InvalidData, "division by zero"),
        ("UPDATE orders VERSION AS OF 'main' SET amount = 1", LivingDBError, "orders"),
        ("DELETE FROM orders USING customers WHERE true", Unsupported, "MERGE"),
        ("DELETE FROM orders WHERE nope = 1", NotFound, "nope"),
        ("DELETE orders", Unsupported, "DELETE FROM takes one table"),
        ("DELETE customers FROM orders", Unsupported, "DELETE FROM takes one table"),
        ("DELETE FROM orders ORDER BY id", Unsupported, "DELETE FROM takes one table"),
        (
            "MERGE INTO orders o USING orders n ON true WHEN MATCHED THEN DELETE RETURNING 1",
            Unsupported,
            "returns no rows",
        ),
    ],
)
def test_refused_and_nothing_changed(
    main: BranchScope, text: str, kind: type[LivingDBError], words: str
) -> None:
    before = len(main.database.branches["main"])
    with pytest.raises(kind, match=words):
        main.sql(text)
    assert len(main.database.branches["main"]) == before


def test_a_scope_that_cannot_be_written(main: BranchScope) -> None:
    main.read_only = True
    assert len(main.sql("SELECT * FROM orders")) == 5
    with pytest.raises(ReadOnlyBranch):
        main.sql("DELETE FROM orders")


def test_composite_keys_and_nested_values() -> None:
    database = Database()
    database.create(
        "t",
        {"shop": "string", "id": "int", "tags": "array<string>", "at": "struct<x:int,y:double>"},
        ["shop", "id"],
    )
    main = database.branch()
    main.sql(
        "INSERT INTO t VALUES ('a', 1, array('x', 'y'), named_struct('x', 1, 'y', 2.5D)), "
        "('a', 2, NULL, NULL), ('ö', 1, array(), NULL)"
    )
    assert main.all("t")[0] == {"shop": "a", "id": 1, "tags": ["x", "y"], "at": {"x": 1, "y": 2.5}}
    assert main.sql("UPDATE t SET tags = array('z') WHERE shop = 'a'").changed == 2
    assert main.sql("UPDATE t SET shop = 'b' WHERE id = 1 AND shop = 'a'").changed == 1
    assert main.sql("UPDATE t SET tags = array(), at = NULL WHERE shop = 'ö'").changed == 1
    assert main.all("t")[-1] == {"shop": "ö", "id": 1, "tags": [], "at": None}
    assert main.sql("DELETE FROM t WHERE shop = 'ö'").changed == 1
    assert [(r["shop"], r["id"], r["tags"]) for r in main.all("t")] == [
        ("a", 2, ["z"]),
        ("b", 1, ["z"]),
    ]


def test_defaults_of_every_kind() -> None:
    defaults = {
        "a": datetime.date(2026, 1, 1),
        "b": decimal.Decimal("1.50"),
        "c": ["x"],
        "d": {"u": 1},
        "e": b"\x00z",
        "f": True,
        "g": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "h": "it's",
    }
    kinds = ["date", "decimal(5,2)", "array<string>", "struct<u:int>", "binary", "boolean"]
    schema = {"id": "int", **dict(zip("abcdefgh", [*kinds, "timestamp", "string"], strict=True))}
    database = Database()
    database.create("t", schema, "id", defaults=defaults)
    main = database.branch()
    main.sql(f"INSERT INTO t VALUES (1{', DEFAULT' * 8})")
    main.sql("INSERT INTO t (id) VALUES (2)")
    main.sql("INSERT INTO t (id, a, d) VALUES (3, NULL, NULL)")
    main.sql("UPDATE t SET a = DEFAULT, d = DEFAULT WHERE id = 3")
    assert main.all("t") == [{"id": number, **defaults} for number in (1, 2, 3)]
