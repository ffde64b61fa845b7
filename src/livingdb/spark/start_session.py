"""A Spark session that knows LivingDB, in one call."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from livingdb.engines.spark.engine import SUBSTITUTE
from livingdb.errors import Unsupported
from livingdb.spark.java import check_java
from livingdb.spark.show_waiting import show_waiting
from livingdb.spark.source import LivingDBSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

_ALONE = threading.Lock()
"""Starting changes descriptors and settings of the whole process."""

_BATCH_ROWS = 65_536

_RUNTIME = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
    SUBSTITUTE: "false",
}

_QUIET = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"


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
    settings = dict(config or {})
    with _ALONE:
        if spark is None and remote is None:
            spark = _start(master, app, memory, settings)
            settings = {name: value for name, value in settings.items() if name in _RUNTIME}
        elif spark is None:
            spark = _connect(str(remote), app)
        for name, value in {**_RUNTIME, **settings}.items():
            spark.conf.set(name, value)
        _register_source(spark)
    return spark


def _register_source(spark: SparkSession) -> None:
    """Register the format; a session that knows it learns it anew."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(LivingDBSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark asks the active session, and that is another one which knows the name.  Making a
        # data frame makes ours the active one.
        spark.createDataFrame([], "id int")
        spark.dataSource.register(LivingDBSource)


def _connect(remote: str, app: str) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        found: SparkSession = SparkSession.builder.appName(app).remote(remote).getOrCreate()
    except ImportError:
        raise Unsupported("Spark Connect needs `pip install livingdb[connect]`") from None
    return found


def _start(
    master: str | None, app: str, memory: str | None, config: Mapping[str, str]
) -> SparkSession:
    """A new session; the right Python on both sides, quiet, and small enough for this machine."""
    is_there = _is_running()
    if not is_there:
        _refuse_beside_connect()
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
    where = f"on {cores} cores of this machine" if master is None else f"at {master}"
    waiting = nullcontext() if is_there else show_waiting(f"starting Spark {where}, once a process")
    with waiting, filter_stderr():
        started: SparkSession = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def _refuse_beside_connect() -> None:
    """`Unsupported` where all of PySpark is the client of a Spark Connect server.

    Its files may be on another machine: what a database computes by itself has to run here.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        raise Unsupported(
            "this process is a client of Spark Connect, and what a database computes on Spark runs "
            "in its own: give the session to livingdb.spark.sql or load, or say engine='embedded'"
        )


def _is_running() -> bool:
    """Whether this process has started Spark already."""
    known = sys.modules.get("pyspark.core.context")
    return known is not None and known.SparkContext._active_spark_context is not None


def _driver_memory() -> str:
    """A quarter of the machine's memory, between 1 and 8 GiB."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return "2g"
    return f"{max(1, min(8, whole // 4 >> 30))}g"


_USUAL = (b"WARNING: Using incubator modules",)


@contextmanager
def filter_stderr() -> Iterator[None]:
    """Processes started in the block write to our standard error through a filter."""
    try:
        ours = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    thread = threading.Thread(target=_copy_lines, args=(reading, ours), name="livingdb-stderr")
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy_lines(reading: int, to: int) -> None:
    """Copy lines until nobody writes any more."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(to, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_USUAL):
                out.write(line)
