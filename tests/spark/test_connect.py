"""Sessions that are there already: given ones, and those of a Spark Connect server."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cluster import steps
from tests.cluster.driver import Driver
from tests.cluster.program import HOST, Program

import livingdb
from livingdb.engines.spark.stop_jobs import stoppable_jobs
from livingdb.interruption import interruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = re.compile(rf"Spark Connect server started at: {re.escape(HOST)}:(\d+)")
BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def test_a_given_session_learns_the_format(spark: SparkSession, db: livingdb.Database) -> None:
    db.branch("main").create_table("t", {"id": "bigint"}, key="id")
    db.branch("main").insert("t", {"id": [1, 2, 3]})
    given = spark.newSession()
    given.conf.set(BATCH, "100")
    with pytest.raises(Exception, match="livingdb"):
        given.read.format("livingdb").option("table", "t").load(db.name)
    assert livingdb.spark.session(given) is given
    assert given.conf.get(BATCH) == "65536"
    found = given.read.format("livingdb").option("table", "t").load(db.name)
    assert found.where("id > 1").count() == 2
    for pushing in ("true", "false"):  # what other sources need is not ours to change
        given.conf.set(PUSHDOWN, pushing)
        livingdb.spark.session(given, config={BATCH: "200", "spark.sql.shuffle.partitions": "3"})
        assert given.conf.get(PUSHDOWN) == pushing
    assert given.conf.get(BATCH) == "200"
    assert given.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get(BATCH) == "65536"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server on this machine."""
    folder = tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
    }
    options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    program = Program(
        folder / "server.log",
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", SERVER, "--master", "local[2]"),
        *options,
        "spark-internal",
        PYSPARK_PYTHON=sys.executable,
        SPARK_DAEMON_MEMORY="1g",
    )
    try:
        yield f"sc://{HOST}:{program.said(STARTED)[1]}"
    finally:
        program.kill()


@pytest.fixture
def client(server: str) -> Iterator[Driver]:
    """A process that is connected to the server."""
    made = Driver(remote=server)
    try:
        yield made
    finally:
        made.close()


def about(spark: SparkSession) -> tuple[str, str | None]:
    return type(spark).__module__, spark.conf.get(BATCH)


def attached(spark: SparkSession, remote: str, url: str) -> int:
    """Rows that a session of its own reads, once it was given to us."""
    from pyspark.sql import SparkSession as Sessions

    own = Sessions.builder.remote(remote).create()
    try:
        assert livingdb.spark.session(own) is own
        return own.read.format("livingdb").option("table", "t").load(url).count()
    finally:
        own.stop()


def stopped(spark: SparkSession, url: str) -> tuple[list[str], bool, int]:
    """What is told of jobs that are stopped, if that is soon; what the session answers then."""
    # One stage: of a query that has several, Spark may begin the next one after it was stopped,
    # and then ends it no more.  The first query takes long to begin.
    assert spark.range(10).where("id % 7 = 3").count() == 1
    long = spark.range(10**14).where("id % 7 = 3")
    told, began = [], time.monotonic()
    for act in (long.count, long.groupBy().max("id").toArrow):
        with interruptible() as stopper:
            timer = threading.Timer(3.0, stopper.stop, args=("enough",))
            timer.start()
            try:
                with stoppable_jobs(spark):
                    act()
            except livingdb.LimitExceeded as error:
                told.append(str(error))
            timer.join()
    is_soon = time.monotonic() - began < 90
    assert not spark.getTags()
    with livingdb.open(url, engine="spark") as db:
        with pytest.raises(livingdb.Unsupported, match="client of Spark Connect"):
            db.branch("main").sql("SELECT count(*) FROM t")
        frame = livingdb.spark.sql(db, "main", "SELECT * FROM t", spark=spark)
    return told, is_soon, frame.count()


@pytest.mark.slow
def test_a_stop_reaches_jobs_over_connect(client: Driver, db: livingdb.Database) -> None:
    db.branch("main").create_table("t", {"id": "bigint"}, key="id")
    db.branch("main").insert("t", {"id": [1, 2, 3]})
    assert client.run(stopped, db.name) == (["enough", "enough"], True, 3)


@pytest.mark.slow
def test_connect(server: str, client: Driver, db: livingdb.Database, tmp_path: Path) -> None:
    url, main = db.name, db.branch("main")
    assert client.run(about) == ("pyspark.sql.connect.session", "65536")
    client.run(steps.load, url, "t", 50_000, None)
    number = np.arange(50_000)
    expected = {
        int(key): (int(key), float(row) * 0.5, str(row % 100))
        for row, key in zip(number.tolist(), (number * 7919 % 1_000_003).tolist(), strict=True)
    }

    def held() -> list[tuple[Any, ...]]:
        return sorted(expected.values())

    def stored(name: str) -> list[tuple[Any, ...]]:
        with livingdb.open(url) as fresh:
            rows = fresh.branch("main").table(name).to_arrow().to_pylist()
        return [tuple(row.values()) for row in rows]

    assert stored("t") == held()
    assert client.run(steps.filtered, url, "t", "id BETWEEN 7919 AND 9000") == [
        row for row in held() if 7919 <= row[0] <= 9000
    ]
    columns = (1000, "id AS id", "-1D AS v", "'new' AS s")
    literal = "${env:HOME} ${spark.app.name}"
    assert client.run(steps.queried, url, f"SELECT '{literal}' FROM t LIMIT 1") == [(literal,)]
    assert client.run(steps.write, url, "t", "upsert", *columns) is None
    expected |= {key: (key, -1.0, "new") for key in range(1000)}
    assert stored("t") == held()
    head = main.head
    assert "already" in client.run(steps.write, url, "t", "insert", *columns)
    assert main.head == head
    assert client.run(attached, server, url) == len(expected)

    main.create_table("events", {"id": "bigint", "v": "double", "s": "string"}, key="id")
    (tmp_path / "source").mkdir()
    for file in range(2):
        rows = {"id": [file, 7], "v": [0.5, float(file)], "s": ["a", "b"]}
        path = tmp_path / "source" / f"{file}.parquet"
        pq.write_table(pa.table(rows), path)
        os.utime(path, (file, file))  # the order that Spark takes them in
    client.run(steps.fill, url, "events", str(tmp_path / "source"), str(tmp_path / "in"))
    assert stored("events") == [(0, 0.5, "a"), (1, 0.5, "a"), (7, 1.0, "b")]
    out = tmp_path / "out"
    client.run(steps.follow, url, "events", str(out), str(tmp_path / "feed"))
    assert len(list((tmp_path / "feed").glob("commits/[0-9]*"))) == 1 + 2
    assert sorted(pq.read_table(out)["_change_type"].to_pylist()) == sorted(
        ["insert", "insert", "insert", "update_preimage", "update_postimage"]
    )
    assert db.check().ok
