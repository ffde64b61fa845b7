"""Reading tables through Spark."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.clock import stopped
from tests.property.trying import HAS_TIME

import livingdb
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.spark.source import LivingDBSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ROWS = 40_000


def read(spark: SparkSession, db: livingdb.Database, **options: Any) -> DataFrame:
    given = {"table": "orders", **options}
    return spark.read.format("livingdb").options(**given).load(db.name)


def rows_of(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """The rows of each frame in the order of their ids, all of them found in one job."""
    numbered = [frame.selectExpr(f"{place} AS place", "*") for place, frame in enumerate(frames)]
    found = reduce(lambda one, other: one.union(other), numbered).toArrow().sort_by("id")
    return [
        found.filter(pc.equal(found["place"], place)).drop_columns(["place"])
        for place in range(len(frames))
    ]


@pytest.fixture
def orders(db: livingdb.Database) -> livingdb.Branch:
    """Orders in a tree, with changes over it."""
    main = db.branch("main")
    schema = {"id": "bigint", "city": "string", "amount": "double", "at": "timestamp"}
    main.create_table("orders", schema, "id", layout=livingdb.Layout(target_rows=1024))
    chance = np.random.default_rng(1)
    data = {
        "id": np.arange(ROWS) * 3,
        "city": pa.array(["Oslo", "Bodø", None, "Rome"]).take(pa.array(np.arange(ROWS) % 4)),
        "amount": chance.random(ROWS),
        "at": pa.array(np.arange(ROWS) * 1_000_000_000, pa.timestamp("us", "UTC")),
    }
    main.insert("orders", data)
    main.delete("orders", [0, 3, 119_997])
    main.upsert("orders", {"id": [1, 60_001, 200_000], "amount": [1.0, 2.0, 3.0]})
    main.update("orders", {"id": [6, 9], "city": ["x", None]})
    return main


def test_a_table_reads_as_it_is(
    spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch
) -> None:
    expected = orders.table("orders").to_arrow()
    for parts in (1, 3, 16) if HAS_TIME else (1, 16):
        found = read(spark, db, partitions=parts)
        assert found.rdd.getNumPartitions() <= parts
        table = found.toArrow().sort_by("id")
        assert table.cast(expected.schema).equals(expected)
    drain_journal(db._graph.store)
    assert read(spark, db).toArrow().sort_by("id").cast(expected.schema).equals(expected)
    assert read(spark, db).count() == len(expected)


def test_refs(spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch) -> None:
    with stopped(orders.head.time) as clock:
        clock.go_on()
        dev = orders.clone("dev")
        moment = clock.go_on().isoformat()
        clock.go_on()
        dev.delete("orders", [12, 15])
    db.tag("v1", "dev")
    count = len(orders.table("orders"))
    assert read(spark, db).count() == count
    refs: list[tuple[dict[str, str], int]] = [
        ({"branch": "dev"}, count - 2),
        ({"tag": "v1"}, count - 2),
        ({"versionAsOf": "dev~1"}, count),
        ({"versionAsOf": db.at("v1").id}, count - 2),
        ({"branch": "dev", "timestampAsOf": moment}, count),
    ]
    found = rows_of([read(spark, db, **options, columns="id") for options, _ in refs])
    assert [len(rows) for rows in found] == [rows for _, rows in refs]


def test_the_snapshot_is_settled_when_it_is_loaded(
    spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch
) -> None:
    frame = read(spark, db)
    before = len(orders.table("orders"))
    orders.delete("orders", [30, 33])
    assert frame.count() == before
    assert read(spark, db).count() == before - 2


def test_columns_and_filters(
    spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch
) -> None:
    table = orders.table("orders")
    assert read(spark, db, columns="amount, id").columns == ["amount", "id"]
    frame = read(spark, db)
    conditions = (
        "id = 60001",
        "id BETWEEN 3000 AND 3030",
        "id IN (6, 9, 12, 7)",
        "city = 'Rome' AND id < 500",
        "city LIKE 'Bo%' AND amount > 0.99",
        "city IS NULL AND id > 119000",
        "at >= TIMESTAMP '1970-01-01 00:30:00' AND id < 10000",
        "amount > 2.5",
        "id < 0",
    )
    names = ["id", "city", "amount"]
    every = rows_of([frame.where(condition).select(*names) for condition in conditions])
    for condition, found in zip(conditions, every, strict=True):
        expected = table.to_arrow(names, where=condition)
        assert found.cast(expected.schema).equals(expected), condition
    chosen = spark.read.format("livingdb").schema("amount double, id bigint")
    small = chosen.option("table", "orders").load(db.name)
    assert small.columns == ["amount", "id"]
    assert small.where("id = 1").collect()[0]["amount"] == 1.0


CONDITIONS = (
    "id = 60001",
    "ID BETWEEN 3000 AND 3030",
    "id IN (6, 9, 12, 7)",
    "city = 'Rome' AND id < 500",
    "City LIKE 'Bo%' AND amount > 0.99",
    "city IS NULL AND id > 119000",
    "at >= TIMESTAMP '1970-01-01 00:30:00' AND id < 10000",
    "amount > 2.5 OR `id` % 10007 = 0",
    "NOT city = 'Rome' AND upper(city) = 'OSLO' AND id < 300",
    "id < 0",
    "id < 10 AND id > 10",
    "true",
)


def test_where(spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch) -> None:
    table = orders.table("orders")
    frames = [read(spark, db, where=condition, columns="id,city") for condition in CONDITIONS]
    for condition, found in zip(CONDITIONS, rows_of(frames), strict=True):
        expected = table.to_arrow(["id", "city"], where=condition)
        assert found.cast(expected.schema).equals(expected), condition
    small = read(spark, db, where="city = 'Rome' AND id < 500", columns="amount", partitions=2)
    assert small.columns == ["amount"]
    assert small.count() == len(table.to_arrow(where="city = 'Rome' AND id < 500"))


def test_conditions_and_ranges_prune_leaves(db: livingdb.Database, orders: livingdb.Branch) -> None:
    from livingdb.engines.range_text import RANGES_OPTION, ranges_to_text
    from livingdb.engines.value_ranges import comparison_ranges

    given = {"path": db.name, "table": "orders", "partitions": "8"}

    def planned(**options: str) -> tuple[int, int]:
        """The rows that tasks look at, and those they give."""
        source = LivingDBSource({**given, **options})
        reader = source.reader(source.schema())
        assert "pushFilters" not in vars(type(reader))
        parts = reader.partitions()
        seen = sum(batch.num_rows for part in parts for batch in part.value.batches())
        return seen, sum(batch.num_rows for part in parts for batch in reader.read(part))

    def within(column: str, *comparisons: tuple[str, Any]) -> dict[str, str]:
        kind = orders.table("orders").schema.field(column).type
        (ranges,) = {comparison_ranges(kind, operator, value) for operator, value in comparisons}
        assert ranges is not None
        return {RANGES_OPTION: ranges_to_text({column: ranges})}

    whole = len(orders.table("orders"))
    assert planned() == (whole, whole)
    assert planned(where="id = 6") == (1, 1)
    seen, kept = planned(where="id > 3000 AND id < 3100 AND city = 'Oslo'")
    assert (seen, kept) == (33, 8)
    assert planned(where=f"id = {10**9}") == (0, 0)
    seen, kept = planned(where="amount > 1.5")
    assert seen < whole / 4
    assert kept == 2
    assert planned(**within("id", ("=", 6))) == (1, 1)
    assert planned(**within("id", ("<", 300)))[0] == planned(where="id < 300")[0]
    assert planned(**within("id", ("<", 300)), where="id > 290") == (3, 3)
    seen, kept = planned(**within("amount", (">", 1.5)))
    assert kept == seen < whole / 4


def test_every_type(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    schema = {
        "shop": "string",
        "id": "int",
        "b": "boolean",
        "t": "tinyint",
        "s": "smallint",
        "f": "float",
        "price": "decimal(20,4)",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "raw": "binary",
        "tags": "array<string>",
        "where": "struct<x:double,names:array<string>>",
        "extra": "map<string,int>",
    }
    main.create_table("orders", schema, key=["shop", "id"])
    moment = datetime.datetime(2026, 11, 15, 10, 0, 0, 123456)
    row = {
        "shop": "Tromsø 🐟",
        "id": 1,
        "b": True,
        "t": -3,
        "s": 300,
        "f": 0.5,
        "price": Decimal("12345678901234.5678"),
        "day": datetime.date(2026, 11, 15),
        "at": moment.replace(tzinfo=datetime.UTC),
        "local": moment,
        "raw": b"\0\1",
        "tags": ["a", None],
        "where": {"x": 1.0, "names": ["n"]},
        "extra": {"k": 1, "l": None},
    }
    main.insert("orders", [row, {"shop": "empty", "id": 2}])
    found = read(spark, db).toArrow().sort_by("id").to_pylist()
    assert dict(found[0].pop("extra")) == row.pop("extra")
    assert found[0] == row
    assert all(value is None for name, value in found[1].items() if name not in ("shop", "id"))


def test_empty_tables(spark: SparkSession, db: livingdb.Database) -> None:
    db.branch("main").create_table("orders", {"id": "bigint", "v": "string"}, key="id")
    assert read(spark, db).count() == 0
    assert read(spark, db).columns == ["id", "v"]
    db.branch("main").insert("orders", {"id": [1], "v": ["x"]})
    assert read(spark, db).where("id > 5").count() == 0


def test_bad_options_say_what_is_wrong(
    spark: SparkSession, db: livingdb.Database, orders: livingdb.Branch, tmp_path: Path
) -> None:
    def fails(says: str, path: str | None = None, **options: Any) -> None:
        """As Spark asks it, here: Spark ends the program that asks after every failure."""
        with pytest.raises(livingdb.LivingDBError, match=says):
            source = LivingDBSource({"path": path or db.name, **options})
            source.reader(source.schema()).partitions()

    with pytest.raises(Exception, match="no table 'order'"):
        spark.read.format("livingdb").options(table="order").load(db.name).count()
    fails("table")
    fails("no table 'order'", table="order")
    fails("no branch, tag or snapshot 'dve'", table="orders", branch="dve")
    fails("exclude each other", table="orders", tag="a", versionAsOf="b")
    fails("no database", str(tmp_path / "none.ldb"), table="orders")
    fails("nope", table="orders", columns="id,nope")
    fails("partitions", table="orders", partitions="many")
    fails("there is no column 'nope'", table="orders", where="nope = 1")
    fails("syntax error", table="orders", where="id = = 1")
    fails("true or false", table="orders", where="id + 1")
    fails("something else each time", table="orders", where="amount < rand()")
    fails("no subqueries", table="orders", where="id IN (SELECT 1)")
    fails("change feed", table="orders", where="id = 1", readChangeFeed="true")
    writer = read(spark, db).write.format("livingdb").mode("overwrite")
    with pytest.raises(Exception, match="for reading"):
        writer.options(table="orders", where="id = 1").save(db.name)
    assert len(orders.table("orders")) > 1


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    program = "import livingdb.spark; livingdb.spark.session()"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert ran.returncode != 0
    last = ran.stderr.strip().splitlines()[-1]
    assert "Spark needs Java 17 or newer, and there is none" in last
