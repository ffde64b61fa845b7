"""Column lineage of what a sync makes: the source columns behind each of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.column_lineage.change_columns import column_sources
from livingdb.derivation.column_lineage.query_columns import Column, QueryColumns, columns_of_query
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.tables.schema import TableSchema

__all__ = ["SourceColumn", "SyncColumns", "sources_of_columns"]

Tables = Mapping[str, Sequence[str]]
"""The columns of tables, by name."""


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of a table of a branch; `masked`: what it holds is not to be seen further on."""

    branch: int
    table: str
    column: str
    masked: bool = False


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
    """One sync: from columns of its target to columns of the branches that users see."""

    def __init__(self, graph: Graph, sync: SyncRow):
        self._graph = graph
        self._sync = sync
        self._view = View.from_json(sync.spec) if sync.kind == KIND else None
        self._known: QueryColumns | None = None

    @property
    def is_view(self) -> bool:
        """Whether it makes one table, of its own name."""
        return self._view is not None and self._view.what != "clone"

    def tables(self) -> dict[str, list[str]]:
        """The tables that the sync makes, and their columns."""
        target = self._graph.branches.by_id(self._sync.target)
        assert target is not None
        return _columns_at(self._graph, self._graph.snapshots.at(target.head).address)

    def source_columns(self, table: str, column: str) -> list[SourceColumn]:
        """The source columns that a column is computed from."""
        view = self._view
        if view is None:
            return self._schema_change_columns(table, column)
        if view.what == "clone":
            return self._clone_columns(view, table, column)
        if view.what != "sql":
            return [
                SourceColumn(source.branch, source.table, name)
                for source in view.tables.values()
                for name in self._schema(source).arrow.names
            ]
        columns = self.tables().get(table, [])
        if column not in columns:
            return []
        values = self._query_columns(view).values[columns.index(column)]
        return sorted(self._to_source_columns(view, values))

    def used_columns(self) -> dict[str, list[SourceColumn]]:
        """The source columns that decide which rows there are: by filter, join, group, ….."""
        view = self._view
        if view is None or view.what != "sql":
            return {}
        used = self._query_columns(view).used
        return {use: sorted(self._to_source_columns(view, some)) for use, some in used.items()}

    # --- queries --------------------------------------------------------------------------------

    @property
    def query(self) -> exp.Query | None:
        """The query of a view of SQL, by the names that columns have now; None for others."""
        view = self._view
        if view is None or view.what != "sql":
            return None
        return view.tree({name: self._schema(source) for name, source in view.tables.items()})

    def _query_columns(self, view: View) -> QueryColumns:
        if self._known is None:
            schemas = {name: self._schema(source) for name, source in view.tables.items()}
            shown = {name: schema.arrow for name, schema in schemas.items()}
            self._known = columns_of_query(view.tree(schemas), shown)
        return self._known

    def _to_source_columns(self, view: View, columns: frozenset[Column]) -> set[SourceColumn]:
        return {
            SourceColumn(view.tables[table].branch, view.tables[table].table, column)
            for table, column in columns
        }

    def _schema(self, source: SourceTable) -> TableSchema:
        graph = self._graph
        if source.snapshot:
            row = graph.snapshots.find(Address(bytes.fromhex(source.snapshot)))
        else:
            branch = graph.branches.by_id(source.branch)
            assert branch is not None
            row = graph.snapshots.at(branch.head)
        assert row is not None
        return graph.versions.definition(graph.version(row, source.table)).schema

    # --- schema changes ---------------------------------------------------------------------

    def _clone_columns(self, view: View, table: str, column: str) -> list[SourceColumn]:
        branch = self._graph.branches.by_id(view.branches[0])
        assert branch is not None
        versions = self._graph.versions
        tables = self._graph.tables(self._graph.snapshots.at(branch.head))
        now: Any = {n: versions.definition(versions.require(a)) for n, a in tables.items()}
        from livingdb.evolution import evolve
        from livingdb.evolution.schema_change import SchemaChange

        change_of = SchemaChange.from_json
        stages: list[Tables] = []
        for change in view.changes:
            stages.append({name: known.schema.arrow.names for name, known in now.items()})
            now = evolve.plan_changes(now, [change_of(change)]).tables
        wanted = [SourceColumn(branch.id, table, column)]
        for change, old in zip(reversed(view.changes), reversed(stages), strict=True):
            wanted = [
                found for item in wanted for found in _through_change(change, item, old, branch.id)
            ]
        return sorted(set(wanted))

    def _schema_change_columns(self, table: str, column: str) -> list[SourceColumn]:
        graph, sync = self._graph, self._sync
        source = graph.branches.by_id(sync.sources[0])
        assert source is not None
        old = _columns_at(graph, Address(bytes.fromhex(sync.spec["snapshot"])))
        item = SourceColumn(source.id, table, column)
        found = _through_change(sync.spec["change"], item, old, source.id)
        before = [s for s in graph.catalog.syncs.all() if s.target == source.id]
        if not is_hidden(source.name) or not before:
            return sorted(set(found))
        step = SyncColumns(graph, before[0])
        return sorted(
            {
                SourceColumn(older.branch, older.table, older.column, older.masked or part.masked)
                for part in found
                for older in step.source_columns(part.table, part.column)
            }
        )


def _through_change(
    change: Mapping[str, Any], item: SourceColumn, old: Tables, branch: int
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
