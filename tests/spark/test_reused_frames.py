"""A frame that is used more than once gives each use its own rows.

Spark keeps one plan of a Python data source for all uses of a relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.property.trying import HAS_TIME
from tests.thinned import thinned

import livingdb
import livingdb.spark
from livingdb.sql.parameters import bind_parameters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


CITIES = ("", "a", "b", "c\0")
YEARS = 60
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

Ask: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sales(db: livingdb.Database) -> livingdb.Branch:
    """A table of many leaves, so that a filter leaves most of it unread."""
    main = db.branch("main")
    schema = {"c": "string", "y": "int", "v": "bigint"}
    main.create_table("t", schema, ["c", "y"], layout=livingdb.Layout(target_rows=16))
    main.insert("t", [{"c": c, "y": y, "v": y % 7} for c in CITIES for y in range(YEARS)])
    return main


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    """A session that hands filters to any Python source that takes them."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, str(before))


@pytest.fixture
def frame(spark: SparkSession, sales: livingdb.Branch, pushing: None) -> DataFrame:
    reader = spark.read.format("livingdb").option("table", "t")
    return reader.load(sales.database.name)


def keys(frame: DataFrame) -> set[tuple[str, int]]:
    found = [(row["c"], row["y"]) for row in frame.collect()]
    assert len(set(found)) == len(found)
    return set(found)


def expected(*cities: str, years: range = range(YEARS)) -> set[tuple[str, int]]:
    return {(city, year) for city in cities for year in years}


@pytest.mark.slow
def test_filtered_then_whole(frame: DataFrame) -> None:
    assert keys(frame.where("c = 'b'")) == expected("b")
    assert keys(frame) == expected(*CITIES)
    assert keys(frame.select("c", "y")) == expected(*CITIES)
    assert keys(frame.orderBy("c", "y")) == expected(*CITIES)
    assert frame.count() == len(CITIES) * YEARS


def test_one_filter_after_another(frame: DataFrame) -> None:
    first, second = frame.where("c = 'a'"), frame.where("c = 'b' AND y < 5")
    for _ in range(2 if HAS_TIME else 1):
        assert keys(first) == expected("a")
        assert keys(second) == expected("b", years=range(5))
        assert keys(frame.where("c LIKE 'c%'")) == expected("c\0")
        assert keys(frame.where("y = 3")) == expected(*CITIES, years=range(3, 4))


@pytest.mark.slow
def test_self_join(frame: DataFrame) -> None:
    left = frame.where("c = 'a'").alias("l")
    right = frame.where("c = 'b' AND y >= 50").alias("r")
    joined = left.join(right, on="y").selectExpr("l.c AS one", "r.c AS other", "y")
    assert sorted(map(tuple, joined.collect())) == [("a", "b", y) for y in range(50, YEARS)]
    outer = frame.alias("l").join(right, on="y", how="left").selectExpr("l.c", "y", "r.v")
    assert outer.count() == len(CITIES) * YEARS
    assert outer.where("v IS NULL").count() == len(CITIES) * 50


@pytest.mark.slow
def test_union(frame: DataFrame) -> None:
    parts = [frame.where("c = 'a'"), frame.where("c = 'b'"), frame.where("c = '' AND y > 57")]
    both = parts[0].union(parts[1]).union(parts[2])
    assert keys(both) == expected("a", "b") | expected("", years=range(58, YEARS))
    assert frame.where("c = 'a'").union(frame).count() == (len(CITIES) + 1) * YEARS


def test_a_temporary_view(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("reused")
    try:
        assert keys(spark.sql("SELECT * FROM reused WHERE c = 'b'")) == expected("b")
        assert keys(spark.sql("SELECT * FROM reused")) == expected(*CITIES)
        both = spark.sql(
            "SELECT * FROM reused WHERE c = 'a' UNION ALL SELECT * FROM reused WHERE c = 'b'"
        )
        assert keys(both) == expected("a", "b")
        missing = spark.sql(
            "SELECT * FROM reused WHERE c = 'a' AND y NOT IN "
            "(SELECT y FROM reused WHERE c = 'b' AND y < 40)"
        )
        assert keys(missing) == expected("a", years=range(40, YEARS))
    finally:
        spark.catalog.dropTempView("reused")


def test_a_cached_frame(frame: DataFrame) -> None:
    assert keys(frame.where("c = 'b'")) == expected("b")
    frame.cache()
    try:
        assert keys(frame) == expected(*CITIES)
        assert keys(frame.where("c = 'a'")) == expected("a")
    finally:
        frame.unpersist(blocking=True)
    assert keys(frame) == expected(*CITIES)
    part = frame.where("c = 'a'").cache()
    try:
        assert keys(part) == expected("a")
        assert keys(frame) == expected(*CITIES)
        assert keys(frame.where("c = 'b'")) == expected("b")
    finally:
        part.unpersist(blocking=True)


@pytest.fixture
def ask(sales: livingdb.Branch, pushing: None, request: pytest.FixtureRequest) -> Ask:
    """SQL on Spark, by either of its doors."""

    def by_frame(text: str) -> list[tuple[Any, ...]]:
        found = livingdb.spark.sql(sales.database, "main", text)
        once = sorted(map(tuple, found.collect()))
        assert sorted(map(tuple, found.collect())) == once
        return once

    def by_statement(text: str) -> list[tuple[Any, ...]]:
        answer = sales.sql(text, engine="spark")
        assert answer.engine == "spark"
        return sorted(tuple(row.values()) for row in answer.to_arrow().to_pylist())

    return by_frame if request.param == "frame" else by_statement


CTE = "WITH s AS (SELECT c, y FROM t WHERE y >= 10) "
QUERIES = {
    "two filters": CTE + "SELECT * FROM s WHERE c = 'a' UNION ALL SELECT * FROM s WHERE c = 'b'",
    "filtered and whole": CTE
    + "SELECT (SELECT count(*) FROM s) AS n, (SELECT count(*) FROM s WHERE c = 'b') AS m",
    "joined": CTE
    + "SELECT l.c AS one, r.c AS other, l.y FROM s l JOIN s r ON l.y = r.y "
    + "WHERE l.c = 'a' AND r.c = 'b' AND r.y < 20",
    "two tables": "SELECT * FROM t WHERE c = 'a' "
    "AND y IN (SELECT y FROM t WHERE c = 'b' AND y < 5)",
    "nothing of one": "SELECT * FROM t WHERE c = 'a' "
    "AND y NOT IN (SELECT y FROM t WHERE c = 'b' AND y > 20)",
    "the missing side": "SELECT l.c, l.y, r.v FROM t l "
    "LEFT JOIN t r ON l.y = r.y AND r.c = 'b' AND r.y < 3 WHERE l.c = 'a'",
    "by value": "SELECT c, y FROM t WHERE v = 6 UNION ALL SELECT c, y FROM t WHERE v > 5",
    "a nested CTE": "WITH s AS (SELECT * FROM t WHERE y < 30), "
    "u AS (SELECT * FROM s WHERE c = 'a' UNION ALL SELECT * FROM s WHERE c LIKE 'c%') "
    "SELECT * FROM u WHERE y = 3 UNION ALL SELECT * FROM u WHERE y > 27",
    "grouped": "SELECT c, count(*) AS n FROM t GROUP BY c HAVING c IN ('a', 'b')",
    "one of two": "SELECT * FROM t WHERE (c = 'a' AND y = 1) OR (c = 'b' AND y = 2)",
}


@pytest.mark.parametrize(
    ("query", "ask"), thinned(QUERIES, ["frame", "statement"]), indirect=["ask"]
)
def test_sql(sales: livingdb.Branch, ask: Ask, query: str) -> None:
    text = QUERIES[query]
    own = sales.sql(text, engine="embedded").to_arrow().to_pylist()
    assert ask(text) == sorted(tuple(row.values()) for row in own)
    assert own


@pytest.mark.slow
def test_ranges_are_of_one_use(sales: livingdb.Branch, pushing: None) -> None:
    """What the planner prunes by travels with the relation that it was found for."""
    text = CTE + "SELECT * FROM s WHERE c = 'a' UNION ALL SELECT * FROM s WHERE c = 'b'"
    found = livingdb.spark.sql(sales.database, "main", text)
    assert found.where("y < 12").count() == 4
    assert found.count() == 2 * (YEARS - 10)
    assert found.where("c = 'b'").union(found).count() == 3 * (YEARS - 10)


@pytest.mark.slow
def test_a_condition_of_the_source(
    spark: SparkSession, sales: livingdb.Branch, pushing: None
) -> None:
    reader = spark.read.format("livingdb").option("table", "t").option("where", "c IN ('a', 'b')")
    frame = reader.load(sales.database.name)
    assert keys(frame.where("c = 'b' AND y = 3")) == expected("b", years=range(3, 4))
    assert keys(frame) == expected("a", "b")
    assert keys(frame.where("c = 'a'").union(frame.where("c = 'b'"))) == expected("a", "b")
    assert keys(frame.where("c = ''")) == set()


@pytest.mark.slow
def test_times_prune_only_where_they_are_utc(spark: SparkSession, db: livingdb.Database) -> None:
    from livingdb.database.sql_scope import SnapshotScope
    from livingdb.engines.spark.engine import SparkEngine
    from livingdb.sql.parse import parse_statement
    from livingdb.sql.planner import Planner

    main = db.branch("main")
    main.create_table("t", {"at": "timestamp", "id": "int"}, ["at", "id"])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    main.insert("t", [{"at": start + timedelta(hours=n), "id": n} for n in range(48)])
    tokyo = livingdb.spark.session(
        spark.newSession(), config={"spark.sql.session.timeZone": "Asia/Tokyo"}
    )

    def asked(session: SparkSession, text: str, **values: object) -> tuple[set[str], int]:
        """The columns pruned by, and how many rows are found."""
        tree = parse_statement(f"SELECT id FROM t WHERE id >= 0 AND {text}")
        scope: Any = SnapshotScope(db, db._resolve("main").snapshot, "main")
        request = Planner(scope, bind_parameters(tree, values)).request(tree)
        engine = SparkEngine(session)
        (source,) = request.sources.values()
        return set(engine._prunable_ranges(source, request)), engine.rows(request).num_rows

    for text in ("at < '2026-01-01 12:00:00'", "at < TIMESTAMP '2026-01-01 12:00:00'"):
        assert asked(spark, text) == ({"at", "id"}, 12)
        assert asked(tokyo, text) == ({"id"}, 3)
    assert asked(tokyo, "at >= '2026-01-02 00:00:00'") == ({"id"}, 33)
    zoned = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert asked(spark, "at < :end", end=zoned) == ({"at", "id"}, 12)
    assert asked(spark, "at < :end", end=zoned.replace(tzinfo=None)) == ({"at", "id"}, 12)
