"""Bulk loads through Spark: the tree is the one an embedded build makes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.property.trying import HAS_TIME

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS = 30_000


def sample() -> pa.Table:
    chance = np.random.default_rng(4)
    return pa.table(
        {
            "shop": pa.array(["Oslo", "Bodø", "Ærø", "z🐟"]).take(
                pa.array(chance.integers(0, 4, ROWS))
            ),
            "id": pa.array(chance.permutation(ROWS), pa.int64()),
            "v": pa.array(chance.random(ROWS), mask=chance.random(ROWS) < 0.1),
            "n": pa.array(chance.integers(0, 50, ROWS), pa.int32()),
        }
    )


@pytest.mark.parametrize("groups", [pytest.param(None, marks=pytest.mark.slow), [["v"], ["n"]]])
def test_the_root_is_that_of_an_embedded_build(
    spark: SparkSession, db: livingdb.Database, groups: list[list[str]] | None
) -> None:
    data = sample()
    layout = livingdb.Layout(target_rows=200, groups=groups)
    main = db.branch("main")
    main.create_table("embedded", data.schema, ["shop", "id"], layout=layout)
    main.insert("embedded", data)
    root = main.table("embedded").root()
    frame = spark.createDataFrame(data)
    for parts in (1, 2, 7, 16) if HAS_TIME else (1, 7):
        name = f"t{parts}"
        made = livingdb.spark.load(
            db, "main", name, frame, key=["shop", "id"], layout=layout, partitions=parts
        )
        assert made == main.head
        assert made.edge.operation == "create_table load"
        assert main.table(name).root() == root
        assert len(main.table(name)) == ROWS
    assert db.check().ok
    with livingdb.open(db.name) as again:
        assert again.branch("main").table("t7").to_arrow().equals(main.table("t1").to_arrow())


def test_loading_into_a_table_that_is_there(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table(
        "t", {"id": "bigint", "v": "double", "s": "string"}, "id", defaults={"s": "x"}
    )
    livingdb.spark.load(db, "main", "t", spark.range(1000).selectExpr("id", "id * 2D AS v"))
    assert main.table("t").get(7) == {"id": 7, "v": 14.0, "s": "x"}
    with pytest.raises(livingdb.AlreadyExists, match="overwrite"):
        livingdb.spark.load(db, "main", "t", spark.range(5))
    livingdb.spark.load(db, "main", "t", spark.range(5), mode="overwrite")
    assert len(main.table("t")) == 5
    assert len(db.at("main~1").table("t")) == 1000
    livingdb.spark.load(db, "main", "empty", spark.range(0), key="id")
    assert len(main.table("empty")) == 0
    assert db.check().ok


def test_bad_rows_change_nothing(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "double not null"}, key="id")
    head = main.head
    twice = spark.range(100).selectExpr("id % 60 AS id", "1D AS v")
    with pytest.raises(livingdb.DuplicateKey, match="twice"):
        livingdb.spark.load(db, "main", "t", twice)
    null_key = spark.range(10).selectExpr("nullif(id, 3) AS id", "1D AS v")
    with pytest.raises(livingdb.InvalidData, match="null"):
        livingdb.spark.load(db, "main", "t", null_key)
    null_value = spark.range(10).selectExpr("id", "nullif(id, 3) * 1D AS v")
    with pytest.raises(livingdb.InvalidData, match="NOT NULL"):
        livingdb.spark.load(db, "main", "t", null_value)
    with pytest.raises(livingdb.InvalidData, match="nope"):
        livingdb.spark.load(db, "main", "t", spark.range(5).selectExpr("id", "id AS nope"))
    with pytest.raises(livingdb.InvalidData, match="key"):
        livingdb.spark.load(db, "main", "new", spark.range(5))
    assert main.head == head
    assert db.check().ok
    folder = Path(db.name) / "packs"
    assert not folder.exists() or list(folder.rglob("*.pack")) == []


@pytest.mark.slow
def test_a_million_rows(spark: SparkSession, db: livingdb.Database) -> None:
    frame = spark.range(1_000_000).selectExpr(
        "(id * 7919) % 1000003 AS id", "id * 0.5D AS v", "string(id % 100) AS s"
    )
    livingdb.spark.load(db, "main", "t", frame, key="id")
    table = db.branch("main").table("t")
    assert len(table) == 1_000_000
    data = table.to_arrow()
    fresh = db.branch("main")
    fresh.create_table("u", data.schema, key="id")
    fresh.insert("u", data)
    assert fresh.table("u").root() == table.root()


def numbers_of(table: livingdb.Table) -> list[int]:
    found: list[int] = table.to_arrow(["id"]).column("id").to_pylist()
    return found


@pytest.mark.slow
def test_rows_without_numbers_draw_them(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table(
        "tickets", {"id": "int", "a.b": "string"}, key="id", generated={"id": "always start with 5"}
    )
    frame = spark.range(0, 1_000, 1, 3).selectExpr("cast(id AS string) AS `a.b`")
    livingdb.spark.load(db, "main", "tickets", frame)
    table = main.table("tickets")
    assert numbers_of(table) == list(range(5, 1_005))
    assert table.get(6)["a.b"] == "1", "in the order of the data frame"
    with pytest.raises(livingdb.InvalidData, match="GENERATED ALWAYS"):
        chosen = frame.selectExpr("`a.b`", "cast(1 AS int) AS id")
        livingdb.spark.load(db, "main", "tickets", chosen, mode="overwrite")
    livingdb.spark.load(db, "main", "tickets", frame.limit(2), mode="overwrite")
    assert numbers_of(main.table("tickets")) == [1_005, 1_006], "none is given twice"
    main.insert("tickets", {"a.b": ["next"]})
    assert max(numbers_of(main.table("tickets"))) > 1_006


@pytest.mark.slow
def test_given_numbers_are_kept_and_passed(spark: SparkSession, db: livingdb.Database) -> None:
    """Loads that go on at one time, on branches that share the counter, give no number twice."""
    main = db.branch("main")
    main.create_table("t", {"k": "bigint", "id": "bigint"}, key="k", generated={"id": "by default"})
    main.clone("other")
    frame = spark.range(0, 200, 1, 4).selectExpr("id AS k", "if(id = 7, 50L, NULL) AS id")
    with ThreadPoolExecutor(2) as pool:
        works = [
            pool.submit(livingdb.spark.load, db, name, "t", frame) for name in ("main", "other")
        ]
        for work in works:
            work.result()
    drawn = [n for name in ("main", "other") for n in numbers_of(db.branch(name).table("t"))]
    assert sorted(drawn)[:2] == [50, 50], "as both rows say"
    assert len(set(drawn)) == len(drawn) - 1
    assert db.branch("main").table("t").get(7)["id"] == 50
