"""Column lineage of what a sync makes: the source columns behind each of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.column_lineage.change_columns import column_sources
from livingdb.derivation.column_lineage.query_columns import Column, QueryColumns, columns_of_query
from livingdb.derivation.source_positions import (
    last_version_made,
    source_names,
    source_positions,
)
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.errors import LivingDBError
from livingdb.graph.ancestry import first_parents, is_ancestor
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.tables.schema import TableSchema

__all__ = ["SourceColumn", "SyncColumns", "sources_of_columns"]

Tables = Mapping[str, Sequence[str]]
"""The columns of tables, by name."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a table of a branch; `masked`: what it holds is not to be seen further on.

    `gone`: there is no such column any more; it was there when it was read.
    """

    branch: BranchId
    table: str
    column: str
    masked: bool = False
    gone: bool = False

    def __lt__(self, other: SourceColumn) -> bool:
        """By table and column; an id says nothing about an order."""
        mine, theirs = ((one.table, one.column, one.masked, one.branch) for one in (self, other))
        return mine < theirs


def sources_of_columns(graph: Graph, sync: SyncRow) -> dict[str, set[Column]]:
    """For each column that a sync makes, the source columns whose values reach it as they are.

    Columns are named as in `orders.city`, or as `city` where the sync makes one table of its
    own name.  What is masked on the way does not reach it.
    """
    step = SyncColumns(graph, sync)
    found: dict[str, set[Column]] = {}
    for table, columns in step.tables().items():
        for column in columns:
            name = column if step.is_view else f"{table}.{column}"
            reached = step.source_columns(table, column)
            found[name] = {(r.table, r.column) for r in reached if not r.masked}
    return found


class SyncColumns:
    """One sync: from columns of its target to columns of the branches that users see.

    It answers whatever became of the sources: where they are not what the sync was defined over any
    more, by what its last version was made from.  What somebody changed of the target since then is
    gone through as well.
    """

    def __init__(self, graph: Graph, sync: SyncRow):
        self._graph = graph
        self._sync = sync
        self._view = View.from_json(sync.spec) if sync.kind == KIND else None

    @property
    def is_view(self) -> bool:
        """Whether it makes one table, of its own name."""
        return self._view is not None and self._view.what != "clone"

    def tables(self) -> dict[str, list[str]]:
        """The tables of the sync's target, and their columns."""
        head = self._target_head
        return {} if head is None else _columns_at(self._graph, head.address)

    @property
    def source_names(self) -> dict[BranchId, str]:
        """What the branches are called that the last version was made from, also those gone."""
        return {} if self._made is None else source_names(self._graph, self._made)

    def source_columns(self, table: str, column: str) -> list[SourceColumn]:
        """The source columns that a column is computed from."""
        view = self._view
        if view is None:
            return self._schema_change_columns(table, column)
        found: set[SourceColumn] = set()
        for made_table, made_column in self._made_columns(table, column):
            if view.what == "clone":
                found.update(self._clone_columns(view, made_table, made_column))
            elif view.what == "sql":
                found.update(self._computed_from(view, made_table, made_column))
            else:
                found.update(self._every_column(view))
        return sorted(found)

    def used_columns(self) -> dict[str, list[SourceColumn]]:
        """The source columns that decide which rows there are: by filter, join, group, ….."""
        view = self._view
        if view is None or view.what != "sql":
            return {}
        used = self._query_columns.used
        return {use: sorted(self._to_source_columns(view, some)) for use, some in used.items()}

    # --- the target -----------------------------------------------------------------------------

    @cached_property
    def _target(self) -> BranchRow | None:
        return self._graph.branches.by_id(self._sync.target)

    @cached_property
    def _target_head(self) -> SnapshotRow | None:
        return None if self._target is None else self._graph.snapshots.at(self._target.head)

    @cached_property
    def _made(self) -> SnapshotRow | None:
        """The last version that the sync made."""
        if self._view is None or self._target is None:
            return None
        return last_version_made(self._graph, self._target)

    @cached_property
    def _made_tables(self) -> Tables:
        return {} if self._made is None else _columns_at(self._graph, self._made.address)

    @cached_property
    def _changes_since(self) -> list[_SchemaStep]:
        """The schema changes that others made of the target since the last version, newest first.

        Each with the columns there were before it.
        """
        found: list[_SchemaStep] = []
        head, made = self._target_head, self._made
        if head is None or made is None:
            return found
        for row in first_parents(self._graph.snapshots, head):
            if row.sequence == made.sequence:
                break
            if row.kind == "schema_change" and row.first is not None:
                changes = self._graph.record(row.address).edge.details.get("changes", ())
                before = self._graph.snapshots.at(row.first)
                found += _schema_steps(self._graph, before, changes)[::-1]
        return found

    def _made_columns(self, table: str, column: str) -> list[Column]:
        """The columns of the last version that the sync made which one of the target stands for.

        One that the target has no more is that of the last version.
        """
        if column not in self.tables().get(table, ()):
            is_made = column in self._made_tables.get(table, ())
            return [(table, column)] if is_made else []
        wanted = [(table, column)]
        for change, old in self._changes_since:
            wanted = [one for item in wanted for one in column_sources(change, *item, old).columns]
        return list(dict.fromkeys(wanted))

    # --- queries --------------------------------------------------------------------------------

    def _computed_from(self, view: View, table: str, column: str) -> set[SourceColumn]:
        columns, values = self._made_tables.get(table, []), self._query_columns.values
        if column not in columns or columns.index(column) >= len(values):
            return set()
        return self._to_source_columns(view, values[columns.index(column)])

    @property
    def query(self) -> exp.Query | None:
        """The query of a view of SQL, by the names that columns have now; None for others."""
        return None if self._view is None or self._view.what != "sql" else self._tree

    @cached_property
    def _tree(self) -> exp.Query:
        """The query by the names of now, or as it was last written if a table is gone."""
        assert self._view is not None
        now = {name: self._schema_now[source] for name, source in self._view.tables.items()}
        known = {name: schema for name, schema in now.items() if schema is not None}
        return self._view.tree(known if len(known) == len(now) else None)

    def _every_column(self, view: View) -> set[SourceColumn]:
        """All columns of all tables that are read: of a function, no more can be said."""
        every = frozenset((n, c) for n in view.tables for c in self._read_schemas[n].names)
        return self._to_source_columns(view, every)

    @cached_property
    def _query_columns(self) -> QueryColumns:
        assert self._view is not None
        return columns_of_query(self._tree, self._read_schemas)

    @cached_property
    def _read_schemas(self) -> dict[str, pa.Schema]:
        """The tables that the view reads, with all columns that its definition speaks of."""
        assert self._view is not None
        return {
            name: self._read_schema(source, self._view.uses.get(name))
            for name, source in self._view.tables.items()
        }

    def _read_schema(self, source: SourceTable, uses: Sequence[str] | None) -> pa.Schema:
        """A table as it is; with what it had when it was last read, where that is needed, too."""
        known_now = self._schema_now[source]
        now = None if known_now is None else known_now.arrow
        if now is not None and uses is not None and set(uses) <= set(now.names):
            return now
        then = self._schema_then(source)
        if now is None or then is None:
            return now or then or pa.schema([])
        known = {name.casefold() for name in now.names}
        lost = [field for field in then if field.name.casefold() not in known]
        return pa.schema([*now, *lost])

    @cached_property
    def _schema_now(self) -> dict[SourceTable, TableSchema | None]:
        """The tables that the view reads as they are now; None: gone."""
        assert self._view is not None
        graph, sources = self._graph, self._view.tables.values()
        rows = graph.branches.by_ids({source.branch for source in sources})
        found: dict[SourceTable, TableSchema | None] = dict.fromkeys(sources)
        for source in found:
            if source.snapshot:
                at = Address(bytes.fromhex(source.snapshot))
                found[source] = self._schema_at(at, source.table)
            elif source.branch in rows:
                head = graph.snapshots.at(rows[source.branch].head)
                found[source] = self._schema_at(head.address, source.table)
        return found

    def _schema_then(self, source: SourceTable) -> pa.Schema | None:
        """A table as it was when the last version was made, or else when it was last there."""
        at = {} if self._made is None else source_positions(self._graph, self._made)
        if source.branch in at:
            found = self._schema_at(at[source.branch], source.table)
            if found is not None:
                return found.arrow
        branch = self._graph.branches.by_id(source.branch)
        if branch is None:
            return None
        head = self._graph.snapshots.at(branch.head)
        return self._last_schema(head, source.table)

    def _last_schema(self, head: SnapshotRow, table: str) -> pa.Schema | None:
        """A table as it was when it was last there, on the line that leads to a snapshot."""
        graph = self._graph
        for number, version in graph.catalog.touches.changes_between(table, 1, head.sequence):
            if version is None:
                continue
            row = graph.snapshots.at(number)
            if is_ancestor(graph.snapshots, row, head):
                return graph.versions.definition(graph.versions.require(version)).schema.arrow
        return None

    def _schema_at(self, snapshot: Address, table: str) -> TableSchema | None:
        row = self._graph.snapshots.find(snapshot)
        version = None if row is None else self._graph.find_version(row, table)
        if version is None:
            return None
        return self._graph.versions.definition(version).schema

    def _to_source_columns(self, view: View, columns: frozenset[Column]) -> set[SourceColumn]:
        found = set()
        for name, column in columns:
            source = view.tables[name]
            now = self._schema_now[source]
            is_gone = now is None or column not in now.arrow.names
            found.add(SourceColumn(source.branch, source.table, column, gone=is_gone))
        return found

    # --- schema changes ---------------------------------------------------------------------

    def _clone_columns(self, view: View, table: str, column: str) -> list[SourceColumn]:
        number = view.branches[0]
        wanted = [SourceColumn(number, table, column)]
        for change, old in self._clone_steps:
            wanted = [
                found for item in wanted for found in _through_change(change, item, old, number)
            ]
        return self._mark_gone(wanted)

    @cached_property
    def _clone_steps(self) -> list[_SchemaStep]:
        """The changes of a clone, the last first, with the columns there were before each.

        They start from what the last version was made from, or else from what its source is now.
        """
        assert self._view is not None
        graph, number = self._graph, self._view.branches[0]
        at = {} if self._made is None else source_positions(graph, self._made)
        then = graph.snapshots.find(at[number]) if number in at else None
        branch = graph.branches.by_id(number)
        now = None if branch is None else graph.snapshots.at(branch.head)
        for row in (then, now):
            steps = [] if row is None else _schema_steps(graph, row, self._view.changes)
            if len(steps) == len(self._view.changes):
                return steps[::-1]
        return []

    def _schema_change_columns(self, table: str, column: str) -> list[SourceColumn]:
        graph, sync = self._graph, self._sync
        source = graph.branches.by_id(sync.sources[0])
        if source is None:
            return []
        found = [SourceColumn(source.id, table, column)]
        for change, old in self._sync_steps:
            found = [one for item in found for one in _through_change(change, item, old, source.id)]
        before = [s for s in graph.catalog.syncs.all() if s.target == source.id]
        if not is_hidden(source.name) or not before:
            return self._mark_gone(found)
        step = SyncColumns(graph, before[0])
        return sorted(
            {
                replace(older, masked=older.masked or part.masked)
                for part in found
                for older in step.source_columns(part.table, part.column)
            }
        )

    @property
    def _sync_steps(self) -> list[_SchemaStep]:
        """The changes that a sync goes by, the last first, with the columns before each."""
        graph, change = self._graph, self._sync.spec["change"]
        address = Address(bytes.fromhex(self._sync.spec["snapshot"]))
        if change["change"] != "SeveralChanges":
            return [(change, _columns_at(graph, address))]
        planned = graph.snapshots.find(address)
        parts = json.loads(change["changes"])
        return [] if planned is None else _schema_steps(graph, planned, parts)[::-1]

    def _mark_gone(self, columns: Sequence[SourceColumn]) -> list[SourceColumn]:
        """The columns, each once; those that their branch has no more are marked."""
        now = {
            row.id: _columns_at(self._graph, self._graph.snapshots.at(row.head).address)
            for row in self._graph.branches.by_ids({one.branch for one in columns}).values()
        }
        return sorted(
            {
                replace(one, gone=one.column not in now.get(one.branch, {}).get(one.table, ()))
                for one in columns
            }
        )


_SchemaStep = tuple[Mapping[str, Any], Tables]
"""A schema change as plain values, and the columns there were before it."""


def _schema_steps(
    graph: Graph, before: SnapshotRow, changes: Sequence[Mapping[str, Any]]
) -> list[_SchemaStep]:
    """The changes, each with the columns before it; up to the first that cannot be made."""
    from livingdb.evolution import plan
    from livingdb.evolution.schema_change import SchemaChange

    versions = graph.versions
    now: Any = {
        name: versions.definition(versions.require(address))
        for name, address in graph.tables(before).items()
    }
    steps: list[_SchemaStep] = []
    for change in changes:
        old = {name: known.schema.arrow.names for name, known in now.items()}
        try:
            now = plan.plan_changes(now, [SchemaChange.from_json(change)]).tables
        except LivingDBError:
            break
        steps.append((change, old))
    return steps


def _through_change(
    change: Mapping[str, Any], item: SourceColumn, old: Tables, branch: BranchId
) -> list[SourceColumn]:
    made = column_sources(change, item.table, item.column, old)
    masked = item.masked or made.masked
    return [SourceColumn(branch, table, column, masked) for table, column in made.columns]


def _columns_at(graph: Graph, snapshot: Address) -> dict[str, list[str]]:
    """The tables of a snapshot that users see, and their columns."""
    versions = graph.versions
    return {
        name: [
            column.name
            for column in versions.definition(versions.require(address)).schema.visible_columns
        ]
        for name, address in graph.record(snapshot).tables.items()
        if not is_hidden(name)
    }
