"""Queries over tables of a branch."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.unit.sql.shop import COLUMNS, order, shop
from tests.unit.sql.twin import BranchScope, Database


@pytest.fixture(scope="module")
def main() -> BranchScope:
    return shop()


def test_all_columns_come_in_their_own_types(main: BranchScope) -> None:
    result = main.sql("SELECT * FROM orders")
    assert result.to_arrow().to_pylist() == [order(number) for number in range(20)]
    assert result.schema.names == list(COLUMNS)
    assert result.schema.types == main.rows("orders").schema.arrow.types


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM orders WHERE id IN (3, 5, 70)", [3, 5]),
        ("SELECT o.id FROM orders o JOIN customers c ON o.id = c.id", [1, 2]),
        ("SELECT id FROM customers c WHERE NOT EXISTS "
         "(SELECT 1 FROM orders o WHERE o.id = c.id)", [99]),
        ("SELECT c.id FROM customers c LEFT ANTI JOIN orders o ON o.id = c.id", [99]),
        ("SELECT c.id FROM customers c LEFT SEMI JOIN orders o ON o.id = c.id", [1, 2]),
        ("WITH big AS (SELECT * FROM orders WHERE amount > 27) SELECT id FROM big", [19]),
        ("SELECT id FROM orders WHERE id < 2 UNION ALL SELECT id FROM customers", [0, 1, 1, 2, 99]),
        ("SELECT id FROM orders INTERSECT SELECT id FROM customers", [1, 2]),
        ("SELECT id FROM (SELECT *, row_number() OVER (ORDER BY id DESC) AS n FROM orders) "
         "WHERE n < 3", [18, 19]),
        ("SELECT id FROM orders WHERE day = DATE '2026-01-03'", [2]),
        ("SELECT id FROM orders WHERE at < TIMESTAMP '2026-01-01 01:00:00'", [0]),
        ("SELECT id FROM orders WHERE price = 1.25", [5]),
        ("SELECT id FROM orders WHERE city LIKE 'Ål%'", [3, 8, 13, 18]),
        ("SELECT id FROM orders WHERE city = '東京' AND id > 10", [14, 19]),
        ("SELECT max(id) FROM orders WHERE city IS NULL", [17]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) "
         "SELECT i FROM n", [1, 2, 3, 4]),
        ("FROM orders SELECT id WHERE id = 7", [7]),
        ("SELECT id FROM orders ORDER BY id DESC LIMIT 2 OFFSET 1", [17, 18]),
        ("SELECT id FROM range(3)", [0, 1, 2]),
        ("SELECT e FROM (SELECT array(1, 2) AS list) LATERAL VIEW explode(list) t AS e", [1, 2]),
        (
            "SELECT coalesce(e, 9) FROM (SELECT array(1, 2) AS list UNION ALL "
            "SELECT filter(array(1), x -> x > 1) "
            "UNION ALL SELECT CAST(NULL AS array<int>)) LATERAL VIEW OUTER explode(list) t AS e",
            [1, 2, 9, 9],
        ),
    ],
)  # fmt: skip
def test_rows(main: BranchScope, text: str, expected: list[int]) -> None:
    found = main.sql(text).to_arrow().column(0).to_pylist()
    assert sorted(found) == expected


def test_a_name_of_a_with_clause_hides_the_table_but_not_inside_itself(main: BranchScope) -> None:
    text = "WITH orders AS (SELECT id FROM orders WHERE id < 2) SELECT count(*) AS n FROM orders"
    assert list(main.sql(text)) == [{"n": 2}]


def test_names_of_columns_and_tables_are_found_whatever_their_case(main: BranchScope) -> None:
    result = main.sql("SELECT ORDERS.Id FROM Orders WHERE ID = 3")
    assert list(result) == [{"Id": 3}]


def test_columns_without_a_name_are_called_as_in_spark(main: BranchScope) -> None:
    names = main.sql("SELECT count(*), sum(quantity), max(id) + 1 FROM orders").schema.names
    assert names == ["count(1)", "sum(quantity)", "(max(id) + 1)"]
    names = main.sql("SELECT upper(name), *, id * 2 FROM customers").schema.names
    assert names == ["upper(name)", "id", "name", "(id * 2)"]


def test_sums_of_integers_are_bigint(main: BranchScope) -> None:
    schema = main.sql("SELECT sum(id) AS a, sum(id) * 2 AS b, count(*) AS c FROM orders").schema
    assert schema.types == [pa.int64()] * 3


def test_an_empty_table_has_its_columns() -> None:
    database = Database()
    database.create("empty", {"id": "bigint", "tags": "array<string>"}, "id")
    main = database.branch()
    assert main.sql("SELECT * FROM empty").schema.types == [pa.int64(), pa.list_(pa.string())]
    assert list(main.sql("SELECT count(*) AS n, max(id) AS m FROM empty")) == [{"n": 0, "m": None}]


def test_nested_values_travel_and_can_be_asked() -> None:
    database = Database()
    row = {
        "id": 1,
        "where": {"street": "Storgata", "zips": [1, 2]},
        "tags": ["a", None],
        "scores": [("x", 1.5)],
    }
    database.create(
        "t",
        {
            "id": "bigint",
            "where": "struct<street:string,zips:array<int>>",
            "tags": "array<string>",
            "scores": "map<string,double>",
        },
        "id",
        [row],
    )
    main = database.branch()
    assert list(main.sql("SELECT * FROM t")) == [row]
    text = "SELECT t.`where`.street AS s, tags[0] AS a, size(`where`.zips) AS n FROM t"
    assert list(main.sql(text)) == [{"s": "Storgata", "a": "a", "n": 2}]


def test_times_in_other_zones_are_the_same_moments() -> None:
    database = Database()
    zoned = pa.timestamp("us", "Europe/Oslo")
    schema = pa.schema([("id", pa.int64()), ("at", zoned)])
    data = pa.table({"id": [1], "at": pa.array([1_000_000], zoned)})
    database.create("t", schema, "id", data)
    main = database.branch()
    assert main.sql("SELECT at FROM t").schema.types == [pa.timestamp("us", "UTC")]
    text = "SELECT id FROM t WHERE at = TIMESTAMP '1970-01-01 00:00:01'"
    assert len(main.sql(text)) == 1


def test_columns_that_differ_in_case_only_do_not_disturb_each_other() -> None:
    database = Database()
    database.create(
        "t", {"id": "bigint", "a": "int", "A": "int"}, "id", {"id": [1], "a": [2], "A": [3]}
    )
    assert database.branch().sql("SELECT * FROM t").to_arrow().columns[2].to_pylist() == [3]


def test_nan_is_greater_than_every_number() -> None:
    database = Database()
    data = {"id": [1, 2, 3], "x": [1.0, math.nan, None]}
    database.create("t", {"id": "bigint", "x": "double"}, "id", data)
    main = database.branch()
    assert main.sql("SELECT id FROM t WHERE x > 5").to_arrow()["id"].to_pylist() == [2]
    assert main.sql("SELECT id FROM t WHERE x < 5").to_arrow()["id"].to_pylist() == [1]


def test_a_hundred_thousand_rows_in_key_order() -> None:
    count = 120_000
    database = Database()
    data = pa.table({"id": range(count), "v": [number % 1000 for number in range(count)]})
    database.create("t", {"id": "bigint", "v": "int"}, "id", data)
    main = database.branch()
    (row,) = main.sql("SELECT sum(v) AS s, count(*) AS n, count(DISTINCT v) AS d FROM t")
    assert row == {"s": sum(number % 1000 for number in range(count)), "n": count, "d": 1000}
    main.sql("UPDATE t SET v = -1 WHERE id % 1000 = 0")
    main.sql("DELETE FROM t WHERE id >= 100000")
    (row,) = main.sql("SELECT min(v) AS low, count_if(v = -1) AS hits, count(*) AS n FROM t")
    assert row == {"low": -1, "hits": 100, "n": 100_000}
