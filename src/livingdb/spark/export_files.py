"""Exporting a large table on Spark: a file for each key range, each written by a task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.database.table_files import write_rows
from livingdb.engines.pruning import scan_bounds
from livingdb.engines.spark.parallelism import parallelism
from livingdb.graph.graph import Graph
from livingdb.graph.large_work import WrittenFile
from livingdb.spark.large_work import run_tasks
from livingdb.spark.scan_tasks import ScanTask, plan_scan
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["export_files"]


@dataclass(frozen=True)
class _FileTask:
    """One key range of a table to be written."""

    scan: ScanTask
    path: str
    written: str


def export_files(
    spark: SparkSession, graph: Graph, version: Version, beside: Path, written: str
) -> list[WrittenFile]:
    """Write the rows of a version, each range into a file, in the order of the key.

    The files are called as `beside` is, with a number after a `+`, which is in the name of no
    other table's file; if one fails, none is left.
    """
    schema = graph.versions.definition(version).schema
    names = schema.arrow.names
    scans = plan_scan(graph, version, names, scan_bounds(schema, {}), 2 * parallelism(spark))
    paths = [
        beside.with_name(f"{beside.stem}+{number:05}{beside.suffix}")
        for number in range(len(scans))
    ]
    tasks = [_FileTask(scan, str(path), written) for scan, path in zip(scans, paths, strict=True)]
    try:
        told = [json.loads(answer) for answer in run_tasks(spark, _write_file, tasks)]
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
    return [
        WrittenFile(path.name, rows, size_bytes)
        for path, (rows, size_bytes) in zip(paths, told, strict=True)
    ]


def _write_file(task: _FileTask) -> Iterator[bytes]:
    schema = task.scan.plan.table_definition().schema.arrow
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in task.scan.batches():
            rows += len(batch)
            yield batch

    size_bytes = write_rows(Path(task.path), task.written, schema, batches())
    yield json.dumps([rows, size_bytes]).encode()
