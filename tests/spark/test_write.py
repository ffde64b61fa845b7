"""Writing data frames through Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.property.trying import HAS_TIME
from tests.thinned import thinned

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """A table with ten rows."""
    branch = db.branch("main")
    branch.create_table(
        "t", {"id": "bigint", "v": "double", "s": "string"}, key="id", defaults={"s": "none"}
    )
    branch.insert("t", {"id": list(range(10)), "v": [0.0] * 10})
    return branch


def write(frame: DataFrame, db: livingdb.Database, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("livingdb").mode(mode).option("table", "t")
    writer.options(**options).save(db.name)


def packs(db: livingdb.Database) -> set[str]:
    folder = Path(db.name) / "packs"
    return {path.name for path in folder.rglob("*.pack")} if folder.exists() else set()


def test_each_operation_is_one_transaction(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    before = len(main.log())
    frame = spark.range(100, 50_100).selectExpr("id", "id * 0.5D AS v").repartition(5)
    write(frame, db, message="more", author="bob")
    assert len(main.table("t")) == 50_010
    assert main.table("t").get(100) == {"id": 100, "v": 50.0, "s": "none"}
    assert (main.head.message, main.head.author) == ("more", "bob")
    write(spark.range(5, 15).selectExpr("id", "9D AS v"), db, operation="upsert")
    assert main.table("t").get(5) == {"id": 5, "v": 9.0, "s": "none"}
    write(spark.range(0, 3).selectExpr("id", "'x' AS s"), db, operation="update")
    assert main.table("t").get(2) == {"id": 2, "v": 0.0, "s": "x"}
    write(spark.range(50, 60_000).select("id"), db, operation="delete")
    assert len(main.table("t")) == 15
    assert len(main.log()) == before + 4
    assert db.check().ok
    counted = set(db._graph.catalog.packs.names())
    assert packs(db) <= counted


def test_overwrite_replaces_the_rows(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    write(spark.range(8, 20).selectExpr("id", "1D AS v"), db, mode="overwrite")
    table = main.table("t").to_arrow()
    assert table["id"].to_pylist() == list(range(8, 20))
    assert set(table["v"].to_pylist()) == {1.0}
    assert len(db.at("main~1").table("t")) == 10


def test_other_branches(spark: SparkSession, db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    write(spark.range(50, 60).selectExpr("id", "1D AS v"), db, branch="dev")
    assert (len(dev.table("t")), len(main.table("t"))) == (20, 10)


@pytest.mark.parametrize("name", thinned(["onConflict", "on_conflict"]))
def test_a_write_merges_nothing(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, name: str
) -> None:
    head = main.head
    with pytest.raises(Exception, match="a write merges nothing"):
        write(spark.range(5).selectExpr("id", "1D AS v"), db, **{name: "ours"})
    assert main.head == head


@pytest.mark.parametrize(
    "case",
    thinned(
        [
            ("id + 3 AS id, 1D AS v", "insert", "already"),
            ("id % 7 + 100 AS id, 1D AS v", "insert", "same key|twice"),
            ("id + 100 AS id, 1D AS v", "update", "no row with the key"),
            ("CAST(NULL AS BIGINT) AS id, 1D AS v", "upsert", "null"),
            ("id + 100 AS id, 'much' AS v", "upsert", "'v'"),
            ("id + 100 AS id, 1D AS nope", "upsert", "nope"),
        ]
    ),
)
def test_bad_rows_fail_the_job_and_change_nothing(
    spark: SparkSession,
    db: livingdb.Database,
    main: livingdb.Branch,
    case: tuple[str, str, str],
) -> None:
    rows, operation, says = case
    head, held = main.head, packs(db)
    frame = spark.range(0, 8, 1, 2).selectExpr(*rows.split(", "))
    with pytest.raises(Exception, match=says):
        write(frame, db, operation=operation)
    assert main.head == head
    assert db.check().ok
    assert len(packs(db) - held) <= 8


def test_a_key_in_two_tasks_is_found(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    head = main.head
    frame = (
        spark.range(100, 110, 1, 1).union(spark.range(109, 120, 1, 1)).selectExpr("id", "1D AS v")
    )
    with pytest.raises(Exception, match="109"):
        write(frame, db, operation="upsert")
    assert main.head == head


@pytest.mark.slow
def test_a_million_rows(spark: SparkSession, db: livingdb.Database, main: livingdb.Branch) -> None:
    frame = spark.range(0, 1_000_000).selectExpr("id", "id * 1.5D AS v", "string(id % 97) AS s")
    write(frame, db, operation="upsert")
    assert len(main.table("t")) == 1_000_000
    found = spark.read.format("livingdb").option("table", "t").load(db.name)
    [row] = found.selectExpr("sum(v) AS v", "count(DISTINCT s) AS s").collect()
    assert row["v"] == 1.5 * 499_999_500_000
    assert row["s"] == 97


@pytest.mark.slow
def test_rows_that_name_no_number_draw_one(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    """Tasks stage rows without keys; the transaction draws for all of them."""
    numbers = {"id": "by default start with 10 increment by 5", "n": "always"}
    columns = {"id": "bigint", "a": "string", "n": "int", "day": "varchar(3)"}
    main.create_table("drawn", columns, "id", defaults={"day": "mon"}, generated=numbers)
    main.insert("drawn", [{"a": "here"}])

    def held() -> dict[str, tuple[int, int]]:
        rows = main.table("drawn").to_arrow().to_pylist()
        assert all(row["day"] == "mon" for row in rows)
        return {row["a"]: (row["id"], row["n"]) for row in rows}

    frame = spark.createDataFrame([(f"r{n}",) for n in range(6)], "a string").repartition(3)
    write(frame, db, table="drawn")
    found = held()
    assert found["here"] == (10, 1)
    (first, n), *_ = drawn = sorted(found.values())[1:]
    assert drawn == [(first + 5 * at, n + at) for at in range(6)]
    assert (first % 5, first > 10, n > 1) == (0, True, True)
    some = spark.createDataFrame([(100, "own"), (None, "null"), (10, "here")], "id long, a string")
    write(some, db, table="drawn", operation="upsert")
    assert (held()["own"][0], held()["here"]) == (100, (10, 1))
    assert len(set(held().values())) == 9
    wrongs = [("id long, n int", "update"), ("a string, n int", "insert")]
    for wrong, operation in wrongs if HAS_TIME else wrongs[:1]:
        value = "x" if wrong.startswith("a") else 10
        with pytest.raises(Exception, match="GENERATED ALWAYS"):
            write(
                spark.createDataFrame([(value, 5)], wrong), db, table="drawn", operation=operation
            )
    with pytest.raises(Exception, match=r"'long' .*does not fit varchar\(3\)"):
        write(spark.createDataFrame([("x", "long")], "a string, day string"), db, table="drawn")
    write(frame, db, "overwrite", table="drawn")
    assert len(held()) == 6
