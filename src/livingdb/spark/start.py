"""A Spark session that knows LivingDB, in one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from livingdb.spark.java import check_java
from livingdb.spark.source import LivingDBSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

_BATCH_ROWS = 65_536
_RUNTIME = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
}
_QUIET = "-Dlog4j2.level=ERROR -Dspark.log.level=ERROR"


def session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    app: str = "livingdb",
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session with LivingDB's data source.

    `spark` is one that is there already; `master` a cluster ("spark://…", "yarn", "k8s://…");
    `remote` a Spark Connect server ("sc://…").  Without any of them Spark starts in this process
    on all cores.  `config` adds or overrides settings.
    """
    if spark is None:
        spark = _connected(remote, app) if remote else _started(master, app, memory, config or {})
    for name, value in {**_RUNTIME, **(config or {})}.items():
        if name in _RUNTIME:
            spark.conf.set(name, value)
    spark.dataSource.register(LivingDBSource)
    return spark


def _connected(remote: str, app: str) -> SparkSession:
    from pyspark.sql import SparkSession

    found: SparkSession = SparkSession.builder.appName(app).remote(remote).getOrCreate()
    return found


def _started(
    master: str | None, app: str, memory: str | None, config: Mapping[str, str]
) -> SparkSession:
    """A new session; the right Python on both sides, quiet, and small enough for this machine."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory or _driver_memory(),
        "spark.driver.bindAddress": "127.0.0.1" if master is None else "0.0.0.0",
        "spark.driver.extraJavaOptions": _QUIET,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(4 * cores),
        **_RUNTIME,
        **config,
    }
    if master is None:
        settings.setdefault("spark.driver.host", "127.0.0.1")
    builder = SparkSession.builder.appName(app).master(master or f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    started: SparkSession = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def _driver_memory() -> str:
    """A quarter of the machine's memory, between 1 and 8 GiB."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return "2g"
    return f"{max(1, min(8, whole // 4 >> 30))}g"
