"""Projecting: a version of a table as Parquet files that Spark reads by itself.

Changes over the tree are laid over its files as long as they are few; many are folded into a tree
first, most of whose files may be there already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.engines.spark.projected_table import ProjectedTable, can_exclude, can_project
from livingdb.files.url import open_files
from livingdb.graph.graph import Graph
from livingdb.graph.storage.projection_files import ProjectionFiles, write_file
from livingdb.graph.storage.projections import BaseRows, base_rows, subtree_files
from livingdb.spark.large_work import run_tasks
from livingdb.spark.scan_tasks import ScanTask, plan_tree
from livingdb.tables.column import Column
from livingdb.tables.index import Version
from livingdb.trees.subtrees import Subtree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PROJECTED_ROWS", "project_version"]

PROJECTED_ROWS = 1_000_000
"""A table with so many rows is projected when it is first read whole on Spark."""
_MOST_KEYS = 20_000
"""More changes than these are folded: Spark would take longer to leave out their keys."""


def project_version(
    spark: SparkSession, graph: Graph, version: Version, *, make: bool, least_rows: int
) -> ProjectedTable | None:
    """The version in files; None if it is not to be had so.

    Without `make`, if the files are there; else, of a table with at least so many rows.
    """
    if not _is_possible(spark, graph, version):
        return None
    files = ProjectionFiles(graph.place.files)
    layout = graph.versions.placements.of(version).layout
    is_wanted = make and (layout.projection or graph.versions.count(version) >= least_rows)
    held = files.held()
    if not held and not is_wanted:
        return None
    base = base_rows(graph, version, evaluate=is_wanted)
    if base is None:
        return None
    if not _can_lay_over(base):
        if not is_wanted or graph.place.refusal is not None:
            return None
        graph.fold(version)
        base = base_rows(graph, version, evaluate=True)
        if base is None or not _can_lay_over(base):
            return None
    named = subtree_files(base)
    sound = files.sound(held & {name for name, _ in named})
    missing = [(name, subtree) for name, subtree in named if name not in sound]
    if missing:
        if not is_wanted or graph.place.refusal is not None:
            return None
        _make_files(spark, graph, base, missing)
    return _projected(graph, files, version, base, named)


def _is_possible(spark: SparkSession, graph: Graph, version: Version) -> bool:
    """Whether Spark can read files of the database, and all columns from them."""
    if ".connect." in type(spark).__module__ or not graph.place.files.url.startswith("file:"):
        return False
    columns = graph.versions.definition(version).schema.stored_columns
    return all(can_project(column.type) for column in columns)


# --- what is read ------------------------------------------------------------------------------


def _can_lay_over(base: BaseRows) -> bool:
    """Whether what changed over the tree can be laid over its files."""
    if not base.changes:
        return True
    if any(column.nullable or not can_exclude(column.type) for column in base.key_columns):
        return False
    return sum(map(len, base.changes)) <= _MOST_KEYS


def _projected(
    graph: Graph,
    files: ProjectionFiles,
    version: Version,
    base: BaseRows,
    named: Sequence[tuple[str, Subtree]],
) -> ProjectedTable:
    schema = graph.versions.definition(version).schema.whole
    columns = {
        name: found.id if isinstance(found, Column) else found
        for name, found in ((name, base.columns[name]) for name in schema.names)
    }
    key = [column.id for column in base.key_columns]
    if not base.changes:
        return ProjectedTable(columns, schema, key, [files.url(name) for name, _ in named])
    plain, touched = list[str](), list[str]()
    for name, subtree in named:
        start, stop = subtree.span.rows(base.changed)
        (touched if stop > start else plain).append(files.url(name))
    found = graph.versions.rows(version).lookup(base.changed, schema.names)[1]
    put = pa.Table.from_arrays(found, schema=schema)
    return ProjectedTable(columns, schema, key, plain, touched, base.key_values(), put)


# --- making files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FileTask:
    """One subtree to be written."""

    scan: ScanTask
    name: str


def _make_files(
    spark: SparkSession,
    graph: Graph,
    base: BaseRows,
    missing: Sequence[tuple[str, Subtree]],
) -> None:
    """Write the files of subtrees, one a task."""
    spans = [subtree.span for _, subtree in missing]
    columns = [column.name for column in base.tree.schema.stored_columns]
    scans = plan_tree(graph, base.version, base.tree, columns, spans)
    tasks = [_FileTask(scan, name) for scan, (name, _) in zip(scans, missing, strict=True)]
    for _ in run_tasks(spark, _make_file, tasks):
        pass


def _make_file(task: _FileTask) -> Iterator[bytes]:
    files = open_files(task.scan.plan.url)
    columns = task.scan.plan.table_definition().schema.stored_columns
    write_file(files, task.name, columns, task.scan.batches())
    yield json.dumps(task.name).encode()
