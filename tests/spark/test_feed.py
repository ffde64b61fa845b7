"""Change feeds: batch and stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """A table with some history."""
    branch = db.branch("main")
    branch.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    branch.insert("t", {"id": [1, 2, 3], "v": ["a", "b", "c"]}, message="first")
    branch.update("t", {"id": [2], "v": ["B"]})
    branch.delete("t", [3])
    return branch


def feed(spark: SparkSession, db: livingdb.Database, **options: Any) -> list[tuple[Any, ...]]:
    reader = spark.read.format("livingdb").option("readChangeFeed", "true").option("table", "t")
    rows = reader.options(**options).load(db.name).collect()
    found = [(r["_commit_sequence"], r["_change_type"], r["id"], r["v"]) for r in rows]
    return sorted(found, key=lambda row: (row[0], row[2], row[1]))


HISTORY = [
    (2, "insert", 1, "a"),
    (2, "insert", 2, "b"),
    (2, "insert", 3, "c"),
    (3, "update_postimage", 2, "B"),
    (3, "update_preimage", 2, "b"),
    (4, "delete", 3, "c"),
]


def test_a_feed_is_all_that_happened(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    assert feed(spark, db) == HISTORY
    assert feed(spark, db, startingVersion="main~2") == HISTORY[3:]
    assert feed(spark, db, startingVersion="main~2", endingVersion="main~1") == HISTORY[3:5]
    assert feed(spark, db, startingVersion="main") == []
    moment = db.at("main~2").time.isoformat()
    assert feed(spark, db, startingTimestamp=moment) == HISTORY[3:]
    reader = spark.read.format("livingdb").option("readChangeFeed", "true").option("table", "t")
    row = reader.option("startingVersion", "main~1").load(db.name).collect()[0]
    assert row["_commit_version"] == main.head.id
    assert row["_commit_timestamp"].timestamp() == pytest.approx(main.head.time.timestamp())


def test_merges_and_resets(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    start = main.head.id
    dev = main.clone("dev")
    dev.insert("t", {"id": [7], "v": ["dev"]})
    dev.update("t", {"id": [7], "v": ["DEV"]})
    main.insert("t", {"id": [8], "v": ["main"]})
    db.merge("dev", "main")
    main.reset(start)
    assert feed(spark, db, startingVersion=start) == []
    every = feed(spark, db)[len(HISTORY) :]
    assert every == [
        (5, "insert", 8, "main"),
        (6, "insert", 7, "DEV"),
        (7, "delete", 7, "DEV"),
        (7, "delete", 8, "main"),
    ]
    assert feed(spark, db, branch="dev", startingVersion=start) == [
        (1, "insert", 7, "dev"),
        (2, "update_postimage", 7, "DEV"),
        (2, "update_preimage", 7, "dev"),
    ]
    with pytest.raises(Exception, match="never at"):
        feed(spark, db, startingVersion="dev")


def test_a_stream_follows_the_branch_across_restarts(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    source = (
        spark.readStream.format("livingdb")
        .option("readChangeFeed", "true")
        .option("table", "t")
        .option("maxSnapshotsPerTrigger", "2")
    )
    target, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run() -> list[tuple[Any, ...]]:
        query = (
            source.load(db.name)
            .writeStream.format("parquet")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(target)
        )
        query.awaitTermination(120)
        assert query.exception() is None
        rows = spark.read.parquet(target).collect()
        found = [(r["_commit_sequence"], r["_change_type"], r["id"], r["v"]) for r in rows]
        return sorted(found, key=lambda row: (row[0], row[2], row[1]))

    assert run() == HISTORY
    main.upsert("t", {"id": [1, 9], "v": ["A", "i"]})
    dev = main.clone("dev")
    dev.delete("t", [9])
    main.insert("t", {"id": [10], "v": ["j"]})
    db.merge("dev", "main")
    more = [
        (5, "update_postimage", 1, "A"),
        (5, "update_preimage", 1, "a"),
        (5, "insert", 9, "i"),
        (6, "insert", 10, "j"),
        (7, "delete", 9, "i"),
    ]
    assert run() == [*HISTORY, *more]
    assert run() == [*HISTORY, *more]


def test_a_stream_without_the_option_says_what_to_add(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    frame = spark.readStream.format("livingdb").option("table", "t").load(db.name)
    with pytest.raises(Exception, match="readChangeFeed"):
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
