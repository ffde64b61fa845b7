"""A query means on every path what Spark says that it means."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING

import pytest
from tests.spark.portable_engines import shape

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


@pytest.mark.slow
def test_as_spark_itself(main: Branch, spark: SparkSession) -> None:
    together = f"SELECT {', '.join(f'{one} AS c{at}' for at, one in enumerate(EXPRESSIONS))}"
    alone = [f"SELECT {one}" for one in EXPRESSIONS]
    wanted = dict(zip(alone, spark.sql(together).toArrow().columns, strict=True))
    wanted |= {text: spark.sql(text).toArrow().column(0) for text in QUERIES}
    found = dict(zip(alone, main.sql(together, engine="spark").to_arrow().columns, strict=True))
    found |= {text: main.sql(text, engine="spark").to_arrow().column(0) for text in QUERIES}
    for text, column in wanted.items():
        for made in (found[text], main.sql(text).to_arrow().column(0)):
            assert made.to_pylist() == column.to_pylist(), text
            assert "max_by" in text or made.type == column.type, text


def test_names_of_columns_are_those_of_spark(main: Branch, spark: SparkSession) -> None:
    text = "SELECT a + 1, t.a, 1 & 2 >> 1, 'x', sum(b) OVER (ORDER BY a) FROM t"
    assert main.sql(text, engine="spark").to_arrow().column_names == spark.sql(text).columns


@pytest.mark.slow
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


DECIMALS = [
    "1",
    "1.10",
    "0.001",
    "-5",
    "1E+3",
    "1E-10",
    "0",
    "-0.00",
    "123456789012345678.12345678",
]
VALUES: list[object] = [
    *(True, None, 0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)),
    *(1.5, float("inf"), "x", "", b"\x00a", bytearray(b"a"), datetime.date(2024, 1, 2)),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    *map(decimal.Decimal, DECIMALS),
    *([1, 2], ["a"], [[1], [2]], [datetime.date(2024, 1, 2)], [2**40]),
]
"""Values that PySpark takes for parameters."""
REFUSED = [2**63, decimal.Decimal("9" * 39), decimal.Decimal("NaN"), [1, 2.5], {"a": 1}]


def test_parameters_are_of_the_types_pyspark_gives_them(main: Branch, spark: SparkSession) -> None:
    given = {f"v{at}": value for at, value in enumerate(VALUES)}
    together = f"SELECT {', '.join(f':{name} AS {name}' for name in given)}"
    wanted = spark.sql(together, args=given).toArrow()
    for name, value in given.items():
        result = main.sql("SELECT :v AS v", {"v": value})
        found = result.to_arrow().column("v")
        assert result.engine == "embedded", value
        assert shape(found.type) == shape(wanted.column(name).type), value
        assert found.to_pylist() == wanted.column(name).to_pylist(), value
    naive = datetime.datetime(2024, 1, 2, 3)
    for engine in (None, "spark"):
        found = main.sql("SELECT :v AS v", {"v": naive}, engine=engine).to_arrow()
        assert found.to_pylist() == [{"v": naive.replace(tzinfo=datetime.UTC)}]


def test_parameters_that_pyspark_refuses_are_refused(main: Branch) -> None:
    for value in REFUSED:
        with pytest.raises(livingdb.LivingDBError):
            main.sql("SELECT :v AS v", {"v": value})


CALCULATED = [
    *("{} * :k", "{} * -:k", "{} + (:k)", "{} / :k", "{} % :k", "coalesce({}, :k)", ":k + 1.5"),
    *("{} * -(2)", "{} * (-(2))", "{} * -(-2)", "{} * +2", "{} * (-2)", "{} * - 2"),
]


def test_whole_numbers_that_meet_decimals(main: Branch, spark: SparkSession) -> None:
    """Where Spark sees how many digits they have, and where not."""
    items = [text.format("CAST(a AS DECIMAL(10, 2))") for text in CALCULATED]
    text = f"SELECT {', '.join(f'{item} AS c{at}' for at, item in enumerate(items))} FROM t"
    for value in (2, 2000, 2**40):
        wanted = spark.sql(text, args={"k": value}).toArrow()
        result = main.sql(text, {"k": value})
        found = result.to_arrow()
        assert result.engine == "embedded"
        assert found.schema.types == wanted.schema.types
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
