"""What the driver is told to do.  Each step gets a session and answers with plain values."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import livingdb

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

READERS = 6
_WAIT_SECONDS = 240


def ready(spark: SparkSession, workers: int) -> None:
    """Wait until so many workers have an executor, and have each of them start its Python."""
    context = spark.sparkContext._jsc.sc()
    until = time.monotonic() + _WAIT_SECONDS
    while context.getExecutorMemoryStatus().size() != workers + 1:
        assert time.monotonic() < until, f"there are no {workers} executors"
        time.sleep(0.1)

    def warmed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import livingdb.spark.bulk_load  # noqa: F401

        time.sleep(0.5)
        yield from batches

    spark.range(0, 2 * workers, 1, 2 * workers).mapInArrow(warmed, "id bigint").count()


def load(spark: SparkSession, url: str, table: str, rows: int, partitions: int | None) -> None:
    """Load rows in no order of their key."""
    frame = spark.range(0, rows, 1, 4).selectExpr(
        "(id * 7919) % 1000003 AS id", "id * 0.5D AS v", "string(id % 100) AS s"
    )
    with livingdb.open(url) as db:
        livingdb.spark.load(db, "main", table, frame, key="id", partitions=partitions)


def table(spark: SparkSession, url: str, name: str, **options: Any) -> DataFrame:
    return spark.read.format("livingdb").options(table=name, **options).load(url)


def aggregate(spark: SparkSession, url: str, name: str) -> list[tuple[Any, ...]]:
    """Count, least key and sum of each group."""
    frame = table(spark, url, name).groupBy("s")
    found = frame.agg({"*": "count", "id": "min", "v": "sum"})
    rows = found.selectExpr("s", "`count(1)`", "`min(id)`", "`sum(v)`").collect()
    return sorted(tuple(row) for row in rows)


def filtered(spark: SparkSession, url: str, name: str, condition: str) -> list[tuple[Any, ...]]:
    """The rows that meet a condition."""
    return sorted(tuple(row) for row in table(spark, url, name).where(condition).collect())


def queried(spark: SparkSession, url: str, text: str) -> list[tuple[Any, ...]]:
    """What a query gives where the session's user lets Spark replace `${…}`, before and after."""
    spark.conf.set("spark.sql.variable.substitute", "true")
    with livingdb.open(url) as db:
        frame = livingdb.spark.sql(db, "main", text, spark=spark)
    spark.conf.set("spark.sql.variable.substitute", "true")
    return [tuple(row) for row in frame.collect()]


def write(
    spark: SparkSession, url: str, name: str, operation: str, count: int, *columns: str
) -> str | None:
    """Write what the columns make of 0, 1, 2, …; what went wrong, if something did."""
    frame = spark.range(0, count, 1, 4).selectExpr(*columns)
    try:
        writer = frame.write.format("livingdb").mode("append")
        writer.options(table=name, operation=operation).save(url)
    except Exception as error:
        return str(error)
    return None


def fill(spark: SparkSession, url: str, name: str, source: str, checkpoint: str) -> None:
    """Stream a folder of files into a table, one file at a time."""
    frame = spark.readStream.schema("id bigint, v double, s string")
    frame.option("maxFilesPerTrigger", "1").parquet(source).writeStream.format("livingdb").options(
        table=name, path=url, checkpointLocation=checkpoint
    ).trigger(availableNow=True).start().awaitTermination()


def follow(spark: SparkSession, url: str, name: str, target: str, checkpoint: str) -> None:
    """Stream the change feed of a table to files, each change in a batch of its own."""
    feed = spark.readStream.format("livingdb").options(
        table=name, readChangeFeed="true", maxBytesPerTrigger="1"
    )
    feed.load(url).writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start(target).awaitTermination()


def slow_sums(spark: SparkSession, url: str, name: str, folder: str) -> tuple[Any, ...]:
    """Sums of a table whose readers wait, once they have rows, until there is a file `go`."""
    frame = table(spark, url, name, partitions=READERS)

    def waiting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 0:
                Path(folder, uuid.uuid4().hex).touch()
            until = time.monotonic() + _WAIT_SECONDS
            while not Path(folder, "go").exists() and time.monotonic() < until:
                time.sleep(0.02)
            yield batch

    sums = frame.mapInArrow(waiting, frame.schema).selectExpr(
        "count(*)", "count(DISTINCT id)", "sum(id)", "sum(v)"
    )
    return tuple(sums.first() or ())
