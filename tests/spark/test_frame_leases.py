"""What a data frame reads is not taken away while it may still run."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

import livingdb
import livingdb.spark
from livingdb import Retention
from livingdb.spark import frame_leases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEWEST = Retention(snapshots=1, dropped_days=0, grace_seconds=0)


@pytest.fixture
def shop(db: livingdb.Database) -> livingdb.Database:
    """A table, which is changed once by whoever wants its first rows to be old ones."""
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
    main.insert("t", {"id": range(3_000), "v": range(3_000)})
    return db


def change_and_collect(db: livingdb.Database) -> list[str]:
    """Make what there was old, let it go where nobody needs it, and every pack with it."""
    main = db.branch("main")
    main.upsert("t", {"id": range(2_000), "v": [-1] * 2_000})
    main.upsert("t", {"id": [5_000], "v": [0]})
    found = db.collect_garbage(NEWEST)
    db.compact()
    return list(found.snapshots)


def total(frame: DataFrame) -> int:
    return int(frame.toArrow().column("v").to_numpy().sum())


WHOLE = sum(range(3_000))


def keeper_of(db: livingdb.Database) -> frame_leases._Keeper:
    return frame_leases._keepers[db._graph]


def test_frames_of_the_driver(spark: SparkSession, shop: livingdb.Database) -> None:
    first = shop.branch("main").head
    table = livingdb.spark.table(shop, "main", "t", spark=spark).select("v")
    query = livingdb.spark.sql(shop, "main", "SELECT v FROM t", spark=spark)
    assert len({lease.snapshot for lease in shop._graph.leases.current()}) == 1
    assert first.id not in change_and_collect(shop)
    assert keeper_of(shop).beat()
    assert total(table) == total(query) == WHOLE
    assert total(livingdb.spark.table(shop, first, "t", spark=spark)) == WHOLE


def test_a_frame_by_path(spark: SparkSession, shop: livingdb.Database) -> None:
    first = shop.branch("main").head
    made = spark.read.format("livingdb").option("table", "t").option("versionAsOf", first.id)
    frame = made.load(shop.name)
    (lease,) = shop._graph.leases.current()
    assert lease.until - lease.began == int(frame_leases.READ_SECONDS * 1_000_000)
    planned = frame.select("v")
    planned._jdf.queryExecution().executedPlan()  # its tasks know which packs they read
    assert first.id not in change_and_collect(shop)
    assert total(planned) == total(frame.select("v")) == WHOLE


@pytest.mark.slow
def test_what_cannot_run_any_more_is_let_go(spark: SparkSession, shop: livingdb.Database) -> None:
    frame = livingdb.spark.table(shop, "main", "t", spark=spark)
    derived = frame.where("v > 0")
    keeper = keeper_of(shop)
    del frame
    collect_java(spark)
    assert keeper.beat()
    del derived
    collect_java(spark)
    assert not keeper.beat()
    held = [lease for lease in shop._graph.leases.current() if "process" in lease.holder]
    assert held == []


def collect_java(spark: SparkSession) -> None:
    """Let both sides notice what nobody refers to."""
    gc.collect()
    for _ in range(5):
        spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]


def test_a_closed_database_renews_nothing(spark: SparkSession, shop: livingdb.Database) -> None:
    frame = livingdb.spark.table(shop, "main", "t", spark=spark)
    keeper = keeper_of(shop)
    shop.close()
    assert not keeper.beat()
    assert total(frame.select("v")) == WHOLE
