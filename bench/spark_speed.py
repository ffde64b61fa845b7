"""Spark: reading, loading and change feeds, beside Spark's own Parquet and an empty source."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import livingdb
from bench.measure import Result, seconds, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUITE = "spark"
ROWS = 4_000_000
FEED_ROWS = 1_000_000
CHANGED = 200
TAIL = 1_000
SCHEMA = "id bigint, city string, amount double, quantity int, at timestamp"


class EmptyReader(DataSourceReader):
    """One task that has nothing to read."""

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple]:
        """Nothing."""
        return iter(())


class EmptySource(DataSource):
    """What any source written in Python costs."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bench_empty"

    def schema(self) -> str:
        """The same columns as the data."""
        return SCHEMA

    def reader(self, schema: object) -> DataSourceReader:
        """Reads nothing."""
        return EmptyReader()


def orders(spark: SparkSession, rows: int) -> DataFrame:
    """Rows in no order of their keys."""
    return spark.range(rows).selectExpr(
        f"(id * 7919) % {rows} AS id",
        "concat('city ', id % 100) AS city",
        "rand(7) * 1000 AS amount",
        "CAST(rand(8) * 20 AS INT) AS quantity",
        "timestamp_seconds(1760000000 + id) AS at",
    )


def aggregate(frame: DataFrame) -> object:
    """A figure from every column."""
    return (
        frame.groupBy("city")
        .agg({"id": "max", "amount": "sum", "quantity": "avg", "at": "max"})
        .collect()
    )


def run(rows: int = ROWS, feed_rows: int = FEED_ROWS) -> Iterator[Result]:
    """All figures of Spark."""
    import livingdb.spark

    spark = livingdb.spark.session()
    spark.dataSource.register(EmptySource)
    home = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        yield from _load_and_read(spark, home, rows)
        yield from _feed(spark, home, feed_rows)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _floor(spark: SparkSession) -> object:
    return spark.read.format("bench_empty").load().selectExpr("sum(amount)", "count(1)").collect()


def _sums(frame: DataFrame) -> object:
    return frame.selectExpr("sum(amount)", "count(1)").collect()


def _read(read: Callable[[DataFrame], object], frame: Callable[[], DataFrame]) -> object:
    return read(frame())


def _load_and_read(spark: SparkSession, home: Path, rows: int) -> Iterator[Result]:
    source = home / "source.parquet"
    orders(spark, rows).write.parquet(str(source))
    frame = spark.read.parquet(str(source))
    parquet = home / "sorted.parquet"
    db = livingdb.create(home / "shop.ldb")
    number = 0

    def load() -> None:
        nonlocal number
        number += 1
        livingdb.spark.load(db, "main", f"orders{number}", frame, key="id")

    def write() -> None:
        frame.sort("id").write.mode("overwrite").parquet(str(parquet))

    ours, peer = side_by_side(load, write, 3)
    name = f"load {rows:,} rows"
    yield Result(SUITE, name, ours, "s", "Spark, sorted Parquet", peer, 1.5)

    def livingdb_frame(**options: str) -> DataFrame:
        reader = spark.read.format("livingdb").option("table", "orders1").options(**options)
        return reader.load(db.name)

    def parquet_frame() -> DataFrame:
        return spark.read.parquet(str(parquet))

    def native_frame(ref: str = "main") -> DataFrame:
        return livingdb.spark.table(db, ref, "orders1")

    ours, peer = seconds(native_frame), seconds(write)
    yield Result(SUITE, "first files of the table", ours, "s", "Spark, sorted Parquet", peer)
    low = rows // 2
    part = f"id >= {low} AND id < {low + rows // 100}"
    reads: list[tuple[str, Callable[[DataFrame], object], float]] = [
        (f"aggregate {rows:,} rows", aggregate, 1.2),
        ("sum of one column", lambda frame: frame.selectExpr("sum(amount)").collect(), 1.2),
        ("1 % of the keys", lambda frame: _sums(frame.where(part)), 1.3),
    ]
    for name, read, bound in reads:
        ours, peer = side_by_side(
            partial(_read, read, native_frame), partial(_read, read, parquet_frame), 7
        )
        yield Result(SUITE, name, ours, "s", "Spark, Parquet", peer, bound)
    ours, peer = side_by_side(
        lambda: aggregate(livingdb_frame()), lambda: aggregate(parquet_frame()), 3
    )
    name = f"aggregate {rows:,} rows, data source"
    yield Result(SUITE, name, ours, "s", "Spark, Parquet", peer)
    ours, peer = side_by_side(lambda: _sums(livingdb_frame(where=part)), lambda: _floor(spark), 7)
    yield Result(SUITE, "1 % of the keys, `where`", ours, "s", "empty Python source", peer, 1.3)
    before = db.branch("main").head.id
    ids = list(range(0, rows, rows // TAIL))[:TAIL]
    db.branch("main").update("orders1", {"id": ids, "quantity": [99] * len(ids)})
    ours, peer = side_by_side(
        lambda: aggregate(native_frame()), lambda: aggregate(native_frame(before)), 7
    )
    name = f"aggregate, {TAIL:,} rows changed since the files"
    yield Result(SUITE, name, ours, "s", "none changed", peer, 1.3)
    db.close()


def _feed(spark: SparkSession, home: Path, rows: int) -> Iterator[Result]:
    with livingdb.create(home / "feed.ldb") as db:
        livingdb.spark.load(db, "main", "orders", orders(spark, rows), key="id")
        main = db.branch("main")
        for title, ids, bound in (
            ("neighbouring", list(range(CHANGED)), 1.2),
            ("scattered", list(range(0, rows, rows // CHANGED)), 1.2),
        ):
            before = main.head.id
            main.update("orders", {"id": ids, "quantity": [-len(title)] * CHANGED})

            def feed(before: str = before, path: str = db.name) -> None:
                reader = spark.read.format("livingdb").option("table", "orders")
                reader = reader.option("readChangeFeed", "true").option("startingVersion", before)
                (row,) = reader.load(path).selectExpr("sum(amount)", "count(1) AS n").collect()
                assert row["n"] == 2 * CHANGED, row

            ours, peer = side_by_side(feed, lambda: _floor(spark), 9)
            name = f"change feed, {CHANGED} {title} of {rows:,} rows"
            yield Result(SUITE, name, ours, "s", "empty Python source", peer, bound)
