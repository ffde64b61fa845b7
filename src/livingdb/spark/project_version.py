"""Projecting: a version of a table as Parquet files that Spark reads by itself.

The files are those of the pieces of a tree, so that versions share all that did not change between
them.  Changes over the tree are laid over the files as long as they are few; many are folded into
a tree first, whose other pieces then have files already.  A schema change that keeps every row and
computes nothing reads the files of the version before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.engines.spark.projected_table import ProjectedTable, can_exclude, can_project
from livingdb.files.url import open_files
from livingdb.graph.graph import Graph
from livingdb.spark.large_work import run_tasks
from livingdb.spark.projection_files import ProjectionFiles, file_name, write_file
from livingdb.spark.scan_tasks import ScanTask, plan_tree
from livingdb.tables.column import Column
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.virtual_forest import MappedForest
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, union_keys
from livingdb.trees.subtrees import Subtree, cut_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PROJECTED_ROWS", "base_rows", "piece_files", "project_version"]

PROJECTED_ROWS = 1_000_000
"""A table with so many rows is projected when it is first read whole on Spark."""
_PIECE_ROWS = 2_000_000
_MOST_KEYS = 20_000
"""More changes than these are folded: Spark would take longer to leave out their keys."""


@dataclass(frozen=True)
class BaseRows:
    """Where rows come from: a stored tree, and the rows of some keys that are other ones.

    `columns` are the columns of the version by name, as those of the tree or as constants.
    """

    version: Version
    tree: RowSet
    columns: dict[str, Column | pa.Scalar]
    changes: tuple[Delta, ...]

    @cached_property
    def changed(self) -> KeyArray:
        """The keys of all changes, sorted."""
        return union_keys([changes.keys for changes in self.changes])

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the tree's key."""
        return self.tree.schema.stored_columns[: self.tree.forest.shape.key_count]

    def key_values(self) -> pa.Table:
        """The key columns of all changes, under their identities."""
        names = [column.id for column in self.key_columns]
        parts = [pa.table(list(each.columns[: len(names)]), names=names) for each in self.changes]
        return pa.concat_tables(parts)


def project_version(
    spark: SparkSession, graph: Graph, version: Version, *, make: bool, least_rows: int
) -> ProjectedTable | None:
    """The version in files; None if it is not to be had so.

    Without `make`, if the files are there; else, of a table with at least so many rows.
    """
    if not _is_possible(spark, graph, version):
        return None
    files = ProjectionFiles(graph.place.files)
    layout = graph.versions.definition(version).layout
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
    named = piece_files(base)
    missing = [(name, piece) for name, piece in named if name not in held]
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


def base_rows(graph: Graph, version: Version, *, evaluate: bool) -> BaseRows | None:
    """The tree that a version's rows lie in, through lenses that only rename and drop columns.

    Other lenses get a tree of their own, if they may be evaluated; else None.
    """
    versions = graph.versions
    rows = versions.rows(version)
    found = _through_lenses(graph, version, rows)
    if found is not None:
        return found
    if not evaluate:
        return None
    tree = versions.tree_rows(version)
    graph.upkeep.save_answers()
    return _own_tree(version, tree)


def _own_tree(version: Version, tree: RowSet) -> BaseRows:
    columns = {column.name: column for column in tree.schema.stored_columns}
    return BaseRows(version, tree, {**columns}, _tail(tree))


def _tail(rows: RowSet) -> tuple[Delta, ...]:
    return () if rows.tail is None or not len(rows.tail) else (rows.tail,)


def _through_lenses(graph: Graph, version: Version, rows: RowSet) -> BaseRows | None:
    versions = graph.versions
    if isinstance(rows.forest, Forest):
        return _own_tree(version, rows)
    names = {column.name: column.name for column in rows.schema.stored_columns}
    constants: dict[str, pa.Scalar] = {}
    changes: tuple[Delta, ...] = ()
    while isinstance(rows.forest, MappedForest):
        mapping = rows.forest.projection
        if mapping.drops:
            return None
        changes += _tail(rows)
        for name, old in list(names.items()):
            source, constant = mapping.source_of(old), mapping.constant(old)
            if source is not None:
                names[name] = source
            elif constant is not None and _can_be_written(constant):
                constants[name] = constant
                del names[name]
            else:
                return None
        rows = rows.forest.source
    if not isinstance(rows.forest, Forest):
        return None
    below = version
    while versions.nearest_stored(below) is None:
        source_rows = versions.row_source(versions.require(below.origin))
        if source_rows is None:
            return None
        below = source_rows.version
    if versions.tree_rows(below).root != rows.root:
        return None
    held = {column.name: column for column in rows.schema.stored_columns}
    columns: dict[str, Column | pa.Scalar] = {n: held[old] for n, old in names.items()}
    return BaseRows(below, rows, columns | constants, changes + _tail(rows))


def _can_be_written(value: pa.Scalar) -> bool:
    """Whether a constant can be told to Spark as it is."""
    kind = value.type
    return not value.is_valid or any(
        is_kind(kind)
        for is_kind in (pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_string)
    )


def _can_lay_over(base: BaseRows) -> bool:
    """Whether what changed over the tree can be laid over its files."""
    if not base.changes:
        return True
    if any(column.nullable or not can_exclude(column.type) for column in base.key_columns):
        return False
    return sum(map(len, base.changes)) <= _MOST_KEYS


def piece_files(base: BaseRows) -> list[tuple[str, Subtree]]:
    """The pieces of the tree, each with the name of its file."""
    forest = base.tree.forest
    assert isinstance(forest, Forest)
    columns = base.tree.schema.stored_columns
    pieces = cut_tree(forest, base.tree.root, _PIECE_ROWS)
    return [(file_name(piece.name, columns), piece) for piece in pieces if piece.rows]


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
    for name, piece in named:
        start, stop = piece.span.rows(base.changed)
        (touched if stop > start else plain).append(files.url(name))
    found = graph.versions.rows(version).lookup(base.changed, schema.names)[1]
    put = pa.Table.from_arrays(found, schema=schema)
    return ProjectedTable(columns, schema, key, plain, touched, base.key_values(), put)


# --- making files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FileTask:
    """One piece to be written."""

    scan: ScanTask
    name: str


def _make_files(
    spark: SparkSession,
    graph: Graph,
    base: BaseRows,
    missing: Sequence[tuple[str, Subtree]],
) -> None:
    """Write the files of pieces, a piece a task."""
    spans = [piece.span for _, piece in missing]
    columns = [column.name for column in base.tree.schema.stored_columns]
    scans = plan_tree(graph, base.version, base.tree.root, columns, spans)
    tasks = [_FileTask(scan, name) for scan, (name, _) in zip(scans, missing, strict=True)]
    for _ in run_tasks(spark, _make_file, tasks):
        pass


def _make_file(task: _FileTask) -> Iterator[bytes]:
    files = open_files(task.scan.plan.url)
    columns = task.scan.plan.table_definition().schema.stored_columns
    write_file(files, task.name, columns, task.scan.batches())
    yield json.dumps(task.name).encode()
