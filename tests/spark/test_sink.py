"""Streams into tables: every micro-batch once, whatever happens in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """Two empty tables."""
    branch = db.branch("main")
    for name in ("t", "copy"):
        branch.create_table(name, {"id": "bigint", "v": "string"}, key="id")
    return branch


def drop(folder: Path, number: int, ids: range) -> None:
    """A file of rows for a stream to find."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    rows = pa.table({"id": list(ids), "v": [f"{number}"] * len(ids)})
    pq.write_table(rows, folder / f"{number:03}.parquet")


def fill(spark: SparkSession, db: livingdb.Database, source: Path, checkpoint: Path) -> None:
    """Run the stream from a folder of files into the table, as far as there are files."""
    frame = (
        spark.readStream.schema("id bigint, v string")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(source))
    )
    query = (
        frame.writeStream.format("livingdb")
        .option("table", "t")
        .option("path", db.name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None


def test_each_batch_is_one_transaction_and_in_once(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    before = len(main.log())
    drop(source, 0, range(100))
    drop(source, 1, range(50, 150))
    fill(spark, db, source, checkpoint)
    assert len(main.table("t")) == 150
    assert len(main.log()) == before + 2
    assert main.head.edge.details == {"stream": str(checkpoint), "batch": 1}
    # Spark forgets that the last batch was committed: after the restart it sends it again.
    commits = sorted((checkpoint / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    drop(source, 2, range(200, 210))
    fill(spark, db, source, checkpoint)
    assert len(main.table("t")) == 160
    assert [s.edge.details.get("batch") for s in main.log(limit=3)] == [2, 1, 0]
    assert len(main.log()) == before + 3
    assert db.check().ok


@pytest.mark.slow
def test_a_stream_fills_a_branch_and_another_reads_its_feed(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    feed = (
        spark.readStream.format("livingdb")
        .option("readChangeFeed", "true")
        .option("table", "t")
        .option("maxSnapshotsPerTrigger", "2")
        .load(db.name)
    )
    kept = feed.where("_change_type IN ('insert', 'update_postimage')").select("id", "v")
    for number in range(2):
        drop(source, number, range(number * 10, number * 10 + 15))
        fill(spark, db, source, tmp_path / "in")
        query = (
            kept.writeStream.format("livingdb")
            .option("table", "copy")
            .option("path", db.name)
            .option("checkpointLocation", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        copied = main.table("copy").to_arrow().to_pylist()
        assert copied == main.table("t").to_arrow().to_pylist()
    assert db.check().ok


def test_bad_rows_stop_the_stream_and_change_nothing(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    drop(tmp_path / "source", 0, range(5))
    head = main.head
    frame = spark.readStream.schema("id bigint, v string").parquet(str(tmp_path / "source"))
    query = (
        frame.selectExpr("nullif(id, 3) AS id", "v")
        .writeStream.format("livingdb")
        .option("table", "t")
        .option("path", db.name)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="null"):
        query.awaitTermination()
    assert main.head == head
    shutil.rmtree(tmp_path / "c", ignore_errors=True)
    assert db.check().ok
