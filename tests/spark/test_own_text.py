"""A query means on every path what Spark says that it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import livingdb
from livingdb import Branch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"id": n, "a": n * 2, "b": 10 - n} for n in range(5)]
EXPRESSIONS = [
    "to_char(123, '00009')",
    "instr('abcabc', 'b', -2)",
    "1 & 2 >> 1",
    "2 | 1 & 3 ^ 1",
    "~1 + 1",
    "1 << 2 + 1",
    "1 || 2 + 3",
    "1 > 2 = false",
    "trunc(DATE'2026-11-16', 'Q')",
    "trunc(DATE'2026-11-16', 'MON')",
    "+ '1'",
    "-128Y",
    "-9223372036854775808L",
    "-2147483648",
    '"S""par""k"',
    "'a\"\"b'",
    "\"a''b\"",
    "'a''b'",
    "'\\u0041\\101\\%\\_\\Z'",
    "r'a\\n'",
    "X'1F'",
]
QUERIES = [
    "SELECT listagg(a) FROM t",
    "SELECT max_by(a, b, 2) FROM t",
    "SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY a DESC) FROM t",
]


@pytest.fixture
def main(db: livingdb.Database, spark: SparkSession) -> Branch:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "a": "int", "b": "int"}, key="id")
    main.insert("t", ROWS)
    frame = spark.createDataFrame(ROWS, "id int, a int, b int")
    frame.createOrReplaceTempView("t")
    return main


def test_as_spark_itself(main: Branch, spark: SparkSession) -> None:
    for text in [f"SELECT {one}" for one in EXPRESSIONS] + QUERIES:
        wanted = spark.sql(text).toArrow()
        for engine in (None, "spark"):
            found = main.sql(text, engine=engine).to_arrow()
            assert found.column(0).to_pylist() == wanted.column(0).to_pylist(), (text, engine)
            is_nested = "max_by" in text
            assert is_nested or found.schema.types == wanted.schema.types, (text, engine)


def test_names_of_columns_are_those_of_spark(main: Branch, spark: SparkSession) -> None:
    text = "SELECT a + 1, t.a, 1 & 2 >> 1, 'x', sum(b) OVER (ORDER BY a) FROM t"
    assert main.sql(text, engine="spark").to_arrow().column_names == spark.sql(text).columns


def test_refs_side_by_side(main: Branch) -> None:
    dev = main.clone("dev")
    dev.upsert("t", [{"id": 1, "a": 100, "b": 0}])
    main.upsert("t", [{"id": 1, "a": 7, "b": 0}])
    for text, expected in {
        "SELECT dev.t.a, main.t.a FROM dev.t JOIN main.t ON dev.t.id = main.t.id "
        "WHERE main.t.id = 1": (100, 7),
        "SELECT x.a, y.a FROM t x JOIN t VERSION AS OF 'main~1' AS y ON x.id = y.id "
        "WHERE x.id = 1": (7, 2),
        "WITH t AS (SELECT a FROM dev.t WHERE id = 1) SELECT a, (SELECT max(a) FROM main.t "
        "/* dev.t */) FROM t -- dev.t": (100, 8),
    }.items():
        found = main.sql(text, engine="spark").to_arrow()
        assert tuple(column[0].as_py() for column in found.columns) == expected


def test_values_given(main: Branch) -> None:
    named = main.sql(
        "SELECT a, :word FROM t VERSION AS OF :ref WHERE id = :id",
        {"word": "it's :id", "ref": "main", "id": 2},
        engine="spark",
    )
    assert [tuple(row.values()) for row in named.to_arrow().to_pylist()] == [(4, "it's :id")]
    listed = main.sql(
        "SELECT a, ? FROM t VERSION AS OF ? WHERE id = ?", ["?", "main", 2], engine="spark"
    )
    assert [tuple(row.values()) for row in listed.to_arrow().to_pylist()] == [(4, "?")]


def test_what_the_embedded_engine_rejects_runs_on_spark(main: Branch) -> None:
    result = main.sql("SELECT id FROM t WHERE a > 2 = true ORDER BY id")
    assert (result.engine, result.to_arrow().column("id").to_pylist()) == ("spark", [2, 3, 4])
