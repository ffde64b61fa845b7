"""Queries through the ADBC driver: values of all types, parameters, and other libraries on top."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi

UTC = datetime.UTC
VALUES = {
    "CAST(1 AS TINYINT)": 1,
    "CAST(300 AS SMALLINT)": 300,
    "70000": 70_000,
    "CAST(9007199254740993 AS BIGINT)": 9007199254740993,
    "CAST(1.5D AS FLOAT)": 1.5,
    "CAST('NaN' AS DOUBLE) IS NULL": False,
    "CAST('12345678901234567890.12' AS DECIMAL(38,2))": decimal.Decimal("12345678901234567890.12"),
    "true": True,
    "'naïve ☃ 𝄞'": "naïve ☃ 𝄞",
    "''": "",
    "X'00FF'": b"\x00\xff",
    "DATE '1582-10-15'": datetime.date(1582, 10, 15),
    "TIMESTAMP '2026-01-02 03:04:05.678901'": datetime.datetime(
        2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC
    ),
    "TIMESTAMP_NTZ '2026-01-02 03:04:05'": datetime.datetime(2026, 1, 2, 3, 4, 5),
    "CAST(NULL AS INT)": None,
    "NULL": None,
    "array(1, NULL, 3)": [1, None, 3],
    "named_struct('a', 1, 'b', array('x'))": {"a": 1, "b": ["x"]},
    "map('k', 1.5BD)": [("k", decimal.Decimal("1.5"))],
}


def test_values_of_all_types(shop: Any) -> None:
    text = "SELECT " + ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(VALUES))
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        found = cursor.execute(text).fetch_arrow_table()
    wanted = shop.db.branch("main").sql(text).to_arrow()
    assert found.schema == wanted.schema
    assert found.equals(wanted)
    row = found.to_pylist()[0]
    assert [row[f"c{at}"] for at in range(len(VALUES))] == list(VALUES.values())


def test_rows_and_their_description(shop: Any) -> None:
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, city FROM orders ORDER BY id")
        assert [column[0] for column in cursor.description] == ["id", "city"]
        assert cursor.fetchone() == (1, "Oslo")
        assert cursor.fetchall() == [(2, "Rome"), (3, None)]
        cursor.execute("SELECT * FROM orders WHERE id < 0")
        assert cursor.fetchall() == []
        assert len(cursor.description) == 4
        cursor.execute("SHOW TABLES")
        assert [row[0] for row in cursor.fetchall()] == ["customers", "numbers", "orders"]


@pytest.mark.parametrize(
    ("text", "given", "wanted"),
    [
        ("SELECT id FROM orders WHERE city = ? AND price > ?", ["Oslo", 1.0], [(1,)]),
        ("SELECT id FROM orders WHERE price = ?", [decimal.Decimal("7.25")], [(2,)]),
        (
            "SELECT id FROM orders WHERE id = :key OR city = :city ORDER BY id",
            pa.record_batch({"city": ["Oslo"], "key": [3]}),
            [(1,), (3,)],
        ),
        ("SELECT ? AS a, ? AS b", ["x", 2], [("x", 2)]),
        ("SELECT id FROM orders WHERE id IN (?, ?) ORDER BY id LIMIT 1", [2, 3], [(2,)]),
        ("SELECT id FROM orders WHERE city IS NOT DISTINCT FROM ?", [None], [(3,)]),
        ("SELECT count(*) FROM orders WHERE city = ?", ["'; DROP TABLE orders"], [(0,)]),
        ("EXPLAIN SELECT * FROM orders WHERE id = ?", [1], None),
    ],
)
def test_parameters(shop: Any, text: str, given: Any, wanted: Any) -> None:
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        found = cursor.execute(text, given).fetchall()
    assert found == wanted if wanted is not None else found


def test_a_query_for_each_of_several_sets_of_parameters(shop: Any) -> None:
    sets = pa.record_batch({"at": [3, 1, 9]})
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        found = cursor.execute("SELECT id, city FROM orders WHERE id = ?", sets).fetchall()
        assert found == [(3, None), (1, "Oslo")]
        with pytest.raises(dbapi.Error, match="2 values were given for the 1 parameters"):
            cursor.execute("SELECT id FROM orders WHERE id = ?", [1, 2])


def test_a_statement_is_prepared_once_and_run_often(shop: Any) -> None:
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        schema = cursor.adbc_prepare("SELECT city FROM orders WHERE id = ?")
        assert schema.names == ["1"]
        text = "SELECT city FROM orders WHERE id = ?"
        assert [cursor.execute(text, [at]).fetchone()[0] for at in (1, 2)] == ["Oslo", "Rome"]
        connection.commit()
        assert cursor.execute(text, [1]).fetchone() == ("Oslo",)
        assert cursor.adbc_execute_schema("SELECT id, price FROM orders") == pa.schema(
            {"id": pa.int64(), "price": pa.decimal128(10, 2)}
        )


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("SELECT * FROM nothing", dbapi.ProgrammingError, "not_found: there is no table 'nothing'"),
        ("SELECT nix FROM orders", dbapi.ProgrammingError, "not_found: there is no column 'nix'"),
        ("SELEC 1", dbapi.ProgrammingError, "invalid_data: syntax error at or near 'SELEC'"),
        ("SELECT 1 / 0", dbapi.ProgrammingError, "invalid_data: division by zero"),
        ("VACUUM", dbapi.NotSupportedError, "unsupported: VACUUM is not possible"),
        ("BEGIN", dbapi.NotSupportedError, "unsupported: BEGIN: over Flight"),
    ],
)
def test_what_goes_wrong_is_told_with_its_code(
    shop: Any, text: str, kind: type[Exception], said: str
) -> None:
    with shop.connect("ben", autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(kind) as told:
            cursor.execute(text).fetchall()
        assert said in str(told.value)
        assert "Traceback" not in str(told.value)
        assert ".py" not in str(told.value)


def test_pandas_polars_and_duckdb(shop: Any) -> None:
    text = "SELECT id, city, price FROM orders ORDER BY id"
    with shop.connect("ben") as connection:
        frame = pd.read_sql(text, connection)
        assert frame["city"].tolist()[:2] == ["Oslo", "Rome"]
        assert pl.read_database(text, connection)["id"].to_list() == [1, 2, 3]
        with connection.cursor() as cursor:
            reader = cursor.execute(text).fetch_record_batch()
            total = duckdb.from_arrow(reader).sum("price").fetchall()
            assert total == [(decimal.Decimal("17.85"),)]


def test_views_and_the_past(shop: Any) -> None:
    main = shop.db.branch("main")
    tag = shop.db.tag("then", "main")
    main.insert("customers", {"id": [50], "name": ["New"]})
    main.derive("names", sql="SELECT id, upper(name) AS name FROM customers", when="immediate")
    with shop.connect("olga") as connection, connection.cursor() as cursor:
        text = "SELECT count(*) FROM customers VERSION AS OF 'then'"
        assert cursor.execute(text).fetchone() == (2,)
        assert cursor.execute("SELECT name FROM names WHERE id = 50").fetchone() == ("NEW",)
        assert tag.id
