"""Jobs of Spark that somebody else stops: when a time is over, and when a job is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.http.conftest import Served, make_shop, serve

import livingdb
from livingdb.engines.spark.stop_jobs import stoppable_jobs
from livingdb.errors import LimitExceeded
from livingdb.interruption import interruptible
from livingdb.server.http.jobs import Jobs
from livingdb.server.settings import Limits
from livingdb.spark.large_work import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE a.id * b.id % 7 = 3"
PATIENCE_SECONDS = 30.0


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.02)


def active_jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_query_ends_with_its_time(db: livingdb.Database, spark: SparkSession) -> None:
    with interruptible() as stopper:
        stop = threading.Thread(
            target=lambda: (wait_until(lambda: bool(active_jobs(spark))), stopper.stop("enough"))
        )
        stop.start()
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            db.branch("main").sql(LONG, engine="spark").to_arrow()
        stop.join()
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            db.branch("main").sql("SELECT 1 AS one", engine="spark").to_arrow()
    wait_until(lambda: not active_jobs(spark))
    assert not spark.sparkContext.getJobTags()
    assert list(db.branch("main").sql("SELECT 1 AS one", engine="spark")) == [{"one": 1}]


def _sleep(seconds: float) -> Iterator[bytes]:
    time.sleep(seconds)
    yield b"late"


def test_tasks_end_with_what_asked_for_them(spark: SparkSession) -> None:
    with interruptible() as stopper:
        stop = threading.Thread(
            target=lambda: (wait_until(lambda: bool(active_jobs(spark))), stopper.stop("enough"))
        )
        stop.start()
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            list(run_tasks(spark, _sleep, [600.0]))
        stop.join()
    wait_until(lambda: not active_jobs(spark))


def test_what_fails_by_itself_is_told_as_it_is(spark: SparkSession) -> None:
    with interruptible(), pytest.raises(ZeroDivisionError), stoppable_jobs(spark):
        _ = 1 // 0
    assert not spark.sparkContext.getJobTags()


def test_a_request_ends_with_its_time(tmp_path: Path, spark: SparkSession) -> None:
    with make_shop(tmp_path) as db:
        served: Served = serve(db, limits={"seconds": 1.0})
        try:
            answer = served.client().post("/v1/sql", json={"sql": LONG, "engine": "spark"})
            assert (answer.status_code, answer.json()["code"]) == (429, "limit_exceeded")
            assert "1 seconds" in answer.json()["message"]
            wait_until(lambda: not active_jobs(spark))
        finally:
            served.close()


def test_a_cancelled_job_ends(db: livingdb.Database, spark: SparkSession) -> None:
    jobs = Jobs(Limits())

    def work(_say: Any) -> object:
        return db.branch("main").sql(LONG, engine="spark").to_arrow()

    job = jobs.start("test", "ann", work)
    wait_until(lambda: bool(active_jobs(spark)))
    job.cancel()
    assert job.over.wait(PATIENCE_SECONDS)
    assert job.state == "cancelled"
    wait_until(lambda: not active_jobs(spark))
