"""Jobs about what heads are read from: long tails, missing runs, pending lenses, projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.catalog.branches import BranchRow
from livingdb.commit.deriving.migrate_versions import MOST_ROWS, is_migration_pending
from livingdb.engines.spark.projected_table import can_project
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.projection_files import ProjectionFiles, write_file
from livingdb.graph.storage.projections import BaseRows, base_rows, subtree_files
from livingdb.maintenance.tuning.actions.store import computed_origin, storing_choices
from livingdb.maintenance.tuning.budget import Room
from livingdb.maintenance.tuning.workload import has_stored_tree
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work
from livingdb.maintenance.upkeep.look_at_heads import estimate_heads, look_at_heads
from livingdb.tables.fold import is_fold_due
from livingdb.tables.index import Version

__all__ = [
    "estimate_folds",
    "estimate_migration",
    "estimate_projections",
    "fold_heads",
    "migrate_heads",
    "project_heads",
]

_OLDER_TREES = 4
"""Of how many trees before the newest one it is asked whether they have projections."""


def estimate_folds(work: Work, memory: Memory) -> Estimate | None:
    """Heads whose tails may have become long."""
    return estimate_heads(work.graph, memory, 0.5)


def fold_heads(work: Work, memory: Memory) -> Iterator[Step]:
    """Fold the tails that their layouts call long; others get the runs and indexes they lack."""
    graph = work.graph

    def look(row: BranchRow, name: str, version: Version) -> Iterator[int]:
        if is_fold_due(graph.versions, version):
            graph.fold(version)
            yield 1
            return
        yield graph.upkeep.save_missing_runs(version)
        graph.versions.uniques.ensure(version)
        graph.versions.indexes.ensure(version)
        graph.upkeep.save_indexes()

    return look_at_heads(graph, memory, look)


def estimate_migration(work: Work, memory: Memory) -> Estimate | None:
    """Heads that may be read through lenses."""
    return estimate_heads(work.graph, memory, 0.2)


def migrate_heads(work: Work, memory: Memory) -> Iterator[Step]:
    """Give tables that are read through lenses trees of their own, or that tuning says have some.

    Very large ones are left to whoever says `migrate`, unless there is somebody for large work;
    and so is what goes beyond the budget.
    """
    graph = work.graph
    chosen, room = storing_choices(graph), Room(graph)

    def is_wanted(version: Version) -> bool:
        choice = chosen.get(graph.versions.definition(version).id or "")
        if choice:
            is_computed = computed_origin(graph, version) is not None
            return is_computed and not has_stored_tree(graph, version)
        return choice is None and is_migration_pending(graph, version)

    def look(row: BranchRow, name: str, version: Version) -> Iterator[int]:
        if is_hidden(row.name) or is_hidden(name) or not is_wanted(version):
            return
        rows, large = graph.versions.count(version), graph.large
        if rows > MOST_ROWS and (large is None or not large.takes(lambda: rows)):
            return
        if not room.takes(rows):
            return
        graph.fold(version)
        graph.versions.derived.forget_projections()
        yield 1

    return look_at_heads(graph, memory, look)


def estimate_projections(work: Work, memory: Memory) -> Estimate | None:
    """Heads whose projections may be behind."""
    if not work.graph.place.files.url.startswith("file:"):
        return None
    return estimate_heads(work.graph, memory, 0.1)


def project_heads(work: Work, memory: Memory) -> Iterator[Step]:
    """Write the files that projections lack, of tables that have some or are to have them.

    What goes beyond the budget is not written.
    """
    graph = work.graph
    files = ProjectionFiles(graph.place.files)
    held, room = files.held(), Room(graph)

    def look(row: BranchRow, name: str, version: Version) -> Iterator[int]:
        definition = graph.versions.definition(version)
        columns = definition.schema.stored_columns
        is_wanted = definition.layout.projection
        if not (held or is_wanted) or not all(can_project(column.type) for column in columns):
            return
        base = base_rows(graph, version, evaluate=False)
        if base is None or not (is_wanted or _has_projections(graph, base, held)):
            return
        for file, subtree in subtree_files(base):
            if file not in held and room.takes(subtree.rows):
                rows = replace(base.tree, tail=None)
                stored = rows.schema.stored_columns
                names = [column.name for column in stored]
                write_file(graph.place.files, file, stored, rows.batches(names, subtree.span))
                held.add(file)
                yield 1

    return look_at_heads(graph, memory, look)


def _has_projections(graph: Graph, base: BaseRows, held: set[str]) -> bool:
    """Whether a table is read from files: of the tree that it has, or of one before."""
    if any(name in held for name, _ in subtree_files(base)):
        return True
    version = base.version
    older = graph.index.materialized_versions(version.origin, -1, version.depth)
    for each, _ in zip(older, range(_OLDER_TREES), strict=False):
        known = base_rows(graph, each, evaluate=False)
        if known is not None and any(name in held for name, _ in subtree_files(known)):
            return True
    return False
