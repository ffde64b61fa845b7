"""Change feeds: batch and stream."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import livingdb
from livingdb.evolution import RenameColumn
from livingdb.graph.change_feed import feed_entries
from livingdb.spark import change_feed
from livingdb.spark.change_feed import ChangeFeed
from livingdb.spark.feed_stream import FeedStream, step_bytes
from livingdb.spark.source import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


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


def test_columns_that_are_called_like_those_of_the_feed(
    spark: SparkSession, db: livingdb.Database
) -> None:
    """They keep their names, also in what happened before there were such columns."""
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.insert("t", {"id": [1], "v": ["a"]})
    main.evolve(RenameColumn("t", "v", "_Change_Type"))
    main.upsert("t", {"id": [2], "_Change_Type": ["b"]})
    reader = spark.read.format("livingdb").option("readChangeFeed", "true").option("table", "t")
    found = reader.load(db.name)
    assert found.columns[:3] == ["id", "_Change_Type", "__change_type"]
    rows = [(r["id"], r["_Change_Type"], r["__change_type"]) for r in found.collect()]
    assert sorted(rows) == [(1, "a", "insert"), (2, "b", "insert")]
    chosen = reader.option("columns", "__change_type,id").load(db.name).collect()
    assert sorted(chosen) == [("insert", 1), ("insert", 2)]


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


def test_large_movements_are_read_by_their_tasks(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a movement, its rows are the same."""
    main = db.branch("main")
    layout = livingdb.Layout(target_rows=8)
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id", layout=layout)
    main.insert("t", {"id": list(range(500)), "v": ["a"] * 500})
    main.update("t", {"id": list(range(0, 500, 5)), "v": ["b"] * 100})
    main.evolve(RenameColumn("t", "v", "w"))
    with main.transaction() as tx:
        tx.delete("t", list(range(100, 200)))
        tx.insert("t", {"id": list(range(900, 990)), "w": [None] * 90})
    main.insert("t", {"id": [7000], "w": ["few"]})
    db.branch("main").reset("main~2")
    main.sql("DROP TABLE t")
    main.create_table("t", {"id": "bigint", "w": "string"}, key="id", layout=layout)
    main.insert("t", {"id": list(range(60)), "w": ["again"] * 60})

    def rows(limit: int) -> tuple[list[dict[str, Any]], int]:
        monkeypatch.setattr(change_feed, "_PART_ROWS", limit)
        schema = spark_schema(change_feed.feed_schema(main.table("t").schema))
        reader = change_feed.FeedReader(ChangeFeed(db.name, "t", {}, schema))
        parts = pickle.loads(pickle.dumps(list(reader.partitions())))
        found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        order = ("_commit_sequence", "id", "_change_type")
        travelled = sum(not isinstance(part.value, bytes) for part in parts)
        return sorted(found, key=lambda row: [row[name] for name in order]), travelled

    here, none = rows(1_000_000)
    there, many = rows(50)
    assert (none, len(here)) == (0, 500 + 200 + 190 + 1 + 191 + 500 + 60)
    assert there == here
    assert many > 20


def test_a_time_is_a_position_in_the_log(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    first = db.at("main~2")
    main.reset(first)
    last = main.insert("t", {"id": [9], "v": ["z"]})
    assert [row[1:] for row in feed(spark, db, startingTimestamp=first.time.isoformat())] == [
        ("update_postimage", 2, "B"),
        ("update_preimage", 2, "b"),
        ("delete", 3, "c"),
        ("update_postimage", 2, "b"),
        ("update_preimage", 2, "B"),
        ("insert", 3, "c"),
        ("insert", 9, "z"),
    ], "from when the branch was there first"
    assert feed(spark, db, startingTimestamp="now") == []
    assert main.head == last


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


@pytest.mark.slow
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
        query.awaitTermination()
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
    db.rename_branch("main", "trunk").delete("t", [10])
    more.append((8, "delete", 10, "j"))
    assert run() == [*HISTORY, *more], "the default branch under another name"


def feed_stream(url: str, options: dict[str, str], schema: Any) -> FeedStream:
    """A stream of the table `t`, as Spark gets one."""
    return FeedStream(ChangeFeed(url, "t", options, schema), options)


def test_a_stream_that_runs_goes_on_with_a_renamed_branch(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.clone("dev").delete("t", [1])
    rows = spark.read.format("livingdb").option("table", "t").load(db.name)
    stream = feed_stream(db.name, {"branch": "dev"}, rows.schema)
    began = stream.initialOffset()
    assert stream.latestOffset(began, ReadAllAvailable())["position"] == 1
    trial = db.rename_branch("dev", "trial")
    main.clone("dev")
    trial.delete("t", [2])
    end = stream.latestOffset(began, ReadAllAvailable())
    assert end == {"position": 2, "snapshot": trial.head.id}
    again = feed_stream(db.name, {"branch": "trial"}, rows.schema)
    assert again.latestOffset(began, ReadAllAvailable()) == end, "as after a restart"


# --- limits ---------------------------------------------------------------------------------


def sizes(db: livingdb.Database, table: str = "t") -> list[int]:
    """The size of every movement of main."""
    graph = db._graph
    branch = graph.branch("main")
    start = graph.snapshots.ancestor(graph.snapshots.at(branch.head), 0)
    steps = feed_entries(graph, branch, table, start, -1, branch.position)
    return [step_bytes(graph, step) for step in steps]


def packed(steps: list[int], most_bytes: int, most_steps: int = 1_000) -> list[int]:
    """The last movement of each batch, as the limits ask for."""
    ends: list[int] = []
    taken = count = 0
    for position, size in enumerate(steps):
        if count and ((size and taken + size > most_bytes) or count == most_steps):
            ends.append(position - 1)
            taken = count = 0
        taken, count = taken + size, count + 1
    return [*ends, len(steps) - 1]


def follow(
    spark: SparkSession,
    db: livingdb.Database,
    folder: Path,
    trigger: dict[str, Any],
    **options: Any,
) -> StreamingQuery:
    source = spark.readStream.format("livingdb").option("readChangeFeed", "true")
    return (
        source.option("table", "t")
        .options(**options)
        .load(db.name)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start(str(folder / "out"))
    )


def ends(folder: Path) -> list[int]:
    """The offsets that the batches of a stream ended at."""
    files = [path for path in (folder / "checkpoint" / "offsets").iterdir() if path.name.isdigit()]
    files.sort(key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1])["position"] for path in files]


def out(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted((r["_commit_sequence"], r["_change_type"], r["id"]) for r in rows)


def expected(spark: SparkSession, db: livingdb.Database) -> list[tuple[Any, ...]]:
    return sorted(row[:3] for row in feed(spark, db))


@pytest.fixture
def busy(db: livingdb.Database) -> livingdb.Branch:
    """Movements of different sizes, some of them of other tables."""
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.create_table("other", {"id": "bigint"}, key="id")
    for number in range(6):
        first = number * 1000
        ids = range(first, first + 1 + 40 * (number % 4))
        main.insert("t", {"id": list(ids), "v": [f"{id * 7919 % 1009}" for id in ids]})
        main.insert("other", {"id": [number]})
    return main


def test_sizes_are_those_of_deltas_or_near(db: livingdb.Database, busy: livingdb.Branch) -> None:
    start, empty = busy.head.id, db.at(f"main~{len(busy.log()) - 1}").id
    found = sizes(db)
    assert found[0] == found[1] == 0
    assert all(size > 0 for size in found[3::2])
    assert found[4::2] == [0] * len(found[4::2])
    assert found[9] > found[7] > found[5] > found[3]
    dev = busy.clone("dev")
    dev.insert("t", {"id": list(range(100_000, 100_500)), "v": ["x"] * 500})
    busy.delete("t", [0])
    db.merge("dev", "main")
    busy.reset(start)
    busy.reset(empty)
    *_, merged, reset, dropped = sizes(db)
    rows = len(db.at(start).table("t"))
    assert 0 < merged < 500 * (8 + 32)
    assert reset == 501 * (8 + 32)
    assert dropped == rows * (8 + 32)


@pytest.mark.slow
@pytest.mark.parametrize("most_snapshots", [None, 3])
def test_a_batch_ends_before_it_is_too_large(
    spark: SparkSession,
    db: livingdb.Database,
    busy: livingdb.Branch,
    tmp_path: Path,
    most_snapshots: int | None,
) -> None:
    steps = sizes(db)
    limit = max(steps) + 1
    options = {"maxBytesPerTrigger": str(limit)}
    if most_snapshots is not None:
        options["maxSnapshotsPerTrigger"] = str(most_snapshots)
    query = follow(spark, db, tmp_path, {"availableNow": True}, **options)
    query.awaitTermination()
    assert query.exception() is None
    wanted = packed(steps, limit, most_snapshots or 1_000)
    assert 3 <= len(wanted) < len(steps)
    assert ends(tmp_path) == wanted
    assert out(spark, tmp_path) == expected(spark, db)


def one_batch(query: StreamingQuery) -> None:
    """Stop a stream that rests for long after each batch, once it has done one."""
    while not query.recentProgress:
        assert query.exception() is None
        query.awaitTermination(0.02)
    query.stop()


@pytest.mark.slow
def test_a_stream_with_limits_goes_on_where_it_was_cut(
    spark: SparkSession, db: livingdb.Database, busy: livingdb.Branch, tmp_path: Path
) -> None:
    options = {"maxBytesPerTrigger": "1b"}
    for number in range(1, 4):
        one_batch(follow(spark, db, tmp_path, {"processingTime": "10000 hours"}, **options))
        assert len(ends(tmp_path)) == number < len(packed(sizes(db), 1))
    busy.update("t", {"id": [0], "v": ["again"]})
    query = follow(spark, db, tmp_path, {"availableNow": True}, **options)
    query.awaitTermination()
    assert query.exception() is None
    assert ends(tmp_path) == packed(sizes(db), 1)
    assert out(spark, tmp_path) == expected(spark, db)
    query = follow(spark, db, tmp_path, {"processingTime": "0 seconds"}, maxBytesPerTrigger="1g")
    busy.delete("t", [0])
    busy.insert("t", {"id": [-1], "v": ["late"]})
    query.processAllAvailable()
    query.stop()
    assert out(spark, tmp_path) == expected(spark, db)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"maxBytesPerTrigger": "much"},
        {"maxBytesPerTrigger": "0"},
        {"maxSnapshotsPerTrigger": "0"},
    ],
)
def test_limits_that_are_none(
    spark: SparkSession,
    db: livingdb.Database,
    main: livingdb.Branch,
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    with pytest.raises(Exception, match="from 1 on") as caught:
        follow(spark, db, tmp_path, {"availableNow": True}, **options).awaitTermination()
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_a_stream_without_the_option_says_what_to_add(
    spark: SparkSession, db: livingdb.Database, main: livingdb.Branch, tmp_path: Path
) -> None:
    frame = spark.readStream.format("livingdb").option("table", "t").load(db.name)
    with pytest.raises(Exception, match="readChangeFeed") as caught:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert "Traceback" not in str(caught.value)
