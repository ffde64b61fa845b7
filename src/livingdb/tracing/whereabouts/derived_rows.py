"""A row that is looked for, in what is derived from the tables it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carry_view import topological_order
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph
from livingdb.tables.schema import TableSchema
from livingdb.tracing.blame.view_columns import correspondences
from livingdb.tracing.lineage.lens_rows import changes_at
from livingdb.tracing.whereabouts.located_row import HistoryLines, LocatedRow
from livingdb.tracing.whereabouts.row_periods import Period, periods, periods_of_versions
from livingdb.tracing.whereabouts.row_schemas import KnownRow, translate_through_changes

__all__ = ["DerivedRowSearch"]

_KINDS = {"sql": "view", "model": "model", "spark": "function", "clone": "clone"}


class DerivedRowSearch:
    """Looks for a row in views, models, functions and clones."""

    def __init__(
        self,
        graph: Graph,
        lines: HistoryLines,
        head_of: Callable[[BranchRow], SnapshotRow | None],
        with_hidden: bool = False,
    ):
        self._graph = graph
        self._lines = lines
        self._head_of = head_of
        self._with_hidden = with_hidden
        """Whether rows count that a view holds and does not show: those set aside."""

    @property
    def kinds(self) -> dict[BranchId, str]:
        """The branches of derived objects, and what those are."""
        return {sync.target: _kind(view) for sync, view in self._views}

    @cached_property
    def _views(self) -> list[tuple[SyncRow, View]]:
        """The derived objects, each after those it reads."""
        every = [s for s in self._graph.catalog.syncs.all() if s.kind == KIND]
        return list(topological_order([(sync, View.from_json(sync.spec)) for sync in every]))

    def find(self, there: dict[BranchId, list[LocatedRow]]) -> Iterator[LocatedRow]:
        """The row in what is derived; what is found there is looked for further on, too."""
        for sync, view in self._views:
            target = self._graph.branches.by_id(sync.target)
            head = None if target is None else self._head_of(target)
            if target is None or head is None:
                continue
            found: list[LocatedRow] = []
            for plain, source in view.tables.items():
                for item in there.get(source.branch, ()):
                    if item.known.table == source.table:
                        found += self._find_in_view(
                            view, plain, source.branch, item, target.name, head
                        )
            there[sync.target] = [*there.get(sync.target, ()), *found]
            yield from _distinct_rows(found)

    def _find_in_view(
        self,
        view: View,
        plain: str,
        branch: BranchId,
        item: LocatedRow,
        name: str,
        head: SnapshotRow,
    ) -> Iterator[LocatedRow]:
        kind = _kind(view)
        if view.what == "clone":
            source = self._source(head, branch)
            if source is not None:
                changes = changes_at(self._graph, view, branch, source)
                try:
                    rows = translate_through_changes(self._graph, source, changes, item.known)
                except LivingDBError:  # what the clone changes is not there, so it is not a copy
                    return
                yield from self._lines.find_rows(kind, name, head, rows)
            return
        fixed = view.tables[plain].snapshot
        if fixed:
            source = self._graph.snapshots.find(Address(bytes.fromhex(fixed)))
            is_in = source is not None and any(p.has(source) for p in item.periods)
            first = self._graph.snapshots.ancestor(head, 0)
            made = [Period(first, None)] if is_in else []
        else:
            made = periods_of_versions(self._graph, head, branch, item.periods)
        if not made:
            return
        known = KnownRow(name, {}, frozenset())
        key, how = None, "read"
        if view.what == "sql" and item.key is not None:
            known, key, how = self._query_row(view, plain, item, name, head)
        if key is not None and how == "row":
            seen = periods(self._graph, head, name, key)
            made = seen or (made if self._with_hidden else [])
        if made:
            yield LocatedRow(kind, name, head, known, key, how, made)

    def _source(self, head: SnapshotRow, branch: BranchId) -> SnapshotRow | None:
        address = source_positions(self._graph, head).get(branch)
        return None if address is None else self._graph.snapshots.find(address)

    def _query_row(
        self, view: View, plain: str, item: LocatedRow, name: str, head: SnapshotRow
    ) -> tuple[KnownRow, Mapping[str, Any] | None, str]:
        """What the row is in a view: a row of its own, or one of a group."""
        nothing = KnownRow(name, {}, frozenset())
        schema, theirs = (
            self._lines.schema(head, name),
            self._lines.schema(item.head, item.known.table),
        )
        if schema is None or theirs is None:
            return nothing, None, "read"
        try:
            schemas = self._schemas(view, head)
            found = correspondences(view.tree(schemas), schemas)
        except LivingDBError:
            return nothing, None, "read"
        for known in found:
            if known.table != plain:
                continue
            columns = {n: v for n, v in known.columns.items() if n in item.known.values}
            values = {shown: item.known.values[column] for column, shown in columns.items()}
            masked = frozenset(
                shown for column, shown in columns.items() if column in item.known.masked
            )
            is_row = set(theirs.key) <= set(columns)
            row = KnownRow(name, values, masked, item.known.is_shared or not is_row)
            key = row.key(schema)
            if key is not None:
                return row, key, "row" if is_row else "group"
        return nothing, None, "read"

    def _schemas(self, view: View, head: SnapshotRow) -> dict[str, TableSchema]:
        """The schemas of what a view reads."""
        at = source_positions(self._graph, head)
        found = {}
        for plain, table in view.tables.items():
            fixed = Address(bytes.fromhex(table.snapshot)) if table.snapshot else None
            source = self._graph.snapshots.find(fixed or at[table.branch])
            schema = None if source is None else self._lines.schema(source, table.table)
            if schema is not None:
                found[plain] = schema
        return found


def _kind(view: View) -> str:
    return _KINDS.get(view.what, "view")


def _distinct_rows(found: Sequence[LocatedRow]) -> list[LocatedRow]:
    """Each row of a derived object once, however many of the sources it comes from."""
    kept: dict[tuple[str, str], LocatedRow] = {}
    for item in found:
        kept.setdefault((item.known.table, str(item.key)), item)
    return list(kept.values())
