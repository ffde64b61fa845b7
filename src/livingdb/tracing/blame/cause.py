"""Passes blame through propagation, schema changes and views to the transaction that caused a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow, with_end_names
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carry_clone import CloneCarrier
from livingdb.commit.carrying.sync_lens import lens_of
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.edge_ends import AT, SYNC, SYNC_ID, find_sync, source_ids
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.tracing.blame.lens_rows import Columns, SourceRows, trace_rows, unconcealed_version
from livingdb.tracing.blame.row_blame import RowBlame, blame
from livingdb.tracing.blame.view_cause import ViewCause
from livingdb.trees.keys import KeyArray

__all__ = ["Causes", "OriginKeys", "ViewSources", "is_carried"]

Numbers = npt.NDArray[np.int64]

_REATTACH = "reattach"
"""What a sync does that goes on: it carries several edits of the other side at once."""


@dataclass(frozen=True)
class OriginKeys:
    """Rows of a table of a branch in a snapshot, by their sorted keys."""

    branch: BranchId
    table: str
    snapshot: SnapshotRow
    keys: KeyArray


ViewSources = Callable[[SnapshotRow, str, KeyArray], Sequence[OriginKeys]]
"""The source rows behind the row with a key, of a table of a snapshot of a derived object."""


class Causes:
    """Passes the blame on from snapshots that took rows over to those that wrote them."""

    def __init__(self, graph: Graph, behind: ViewSources | None = None):
        self.graph = graph
        self.behind = behind
        """Who knows the source rows behind a row of a view; None if nobody is to be asked."""

    def blame(
        self, head: SnapshotRow, table: str, keys: KeyArray, column: str | None = None
    ) -> RowBlame:
        """For each of the sorted keys, who last changed the row (or cell), wherever that was."""
        return blame(self.graph, head, table, keys, column, self)

    def __call__(
        self, row: SnapshotRow, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """See `BlameResolver`."""
        if row.kind == "schema_change":
            return self._blame_schema_change(row, table, keys, column)
        edge = self.graph.record(row.address).edge
        if is_carried(edge):
            return self._blame_carried(row, edge, table, keys, column)
        if AT not in edge.details:
            return None
        view = self.view_of(edge)
        if edge.details.get("strategy") == "lens":
            return self._blame_clone(row, edge, table, keys, column)
        return ViewCause(self, row, view, table).blame(keys, column)

    # --- schema changes ----------------------------------------------------------------------

    def _blame_schema_change(
        self, row: SnapshotRow, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """Rows written before a schema change are not its work; what it added is."""
        if row.first is None:
            return None
        before = self.graph.snapshots.at(row.first)
        with self.graph.stage() as staging:
            seen = unconcealed_version(self.graph, row, table, staging)
            found = self._blame_source(row, before, table, keys, column, seen)
        mine = found.who == 0
        found.who[mine] = row.sequence
        return found

    def _blame_clone(
        self, row: SnapshotRow, edge: Edge, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """The same for a clone that sees its source through schema changes."""
        (text,) = edge.details[AT].values()
        source = self.graph.snapshots.find(Address(bytes.fromhex(text)))
        if source is None:
            return None
        with self.graph.stage() as staging:
            seen = self._clone_version(edge, source, table, staging)
            found = self._blame_source(row, source, table, keys, column, seen)
        mine = found.who == 0
        found.via[:] = np.where(mine, 0, row.sequence)
        found.who[mine] = row.sequence
        return found

    def _clone_version(
        self, edge: Edge, source: SnapshotRow, table: str, staging: Staging
    ) -> Version | None:
        """A table of a clone as its source alone makes it; None if that is not known any more."""
        view = self.view_of(edge)
        if view is None and "definition" in edge.details:  # a clone that was made once
            view = View.from_json(edge.details["definition"])
        if view is None or view.what != "clone":
            return None
        changes = [SchemaChange.from_json(change) for change in view.changes]
        try:
            branch = view.branches[0]
            carrier = CloneCarrier(self.graph, branch, changes, staging, recipes="transient")
            tables = tables_of(self.graph, source)
            visible = {name: version for name, version in tables.items() if not is_hidden(name)}
            return carrier.first(visible).get(table)
        except LivingDBError:
            return None

    def _blame_source(
        self,
        row: SnapshotRow,
        source: SnapshotRow,
        table: str,
        keys: KeyArray,
        column: str | None,
        seen: Version | None = None,
    ) -> RowBlame:
        """Who is to blame at a source for what a snapshot sees of it; 0 where it has none.

        `seen` is the table through which it is seen, if it is not the snapshot's own.
        """
        graph = self.graph
        tables = graph.tables(source)
        names = {address: name for name, address in tables.items()}
        if table in tables:
            names[tables[table]] = table
        columns: Columns = None if column is None else frozenset([column])
        rows = trace_rows(graph, seen or graph.version(row, table), keys, columns, names)
        return self.newest_blame(
            len(keys), source, ((names[item.version.address], item) for item in rows)
        )

    def newest_blame(
        self, count: int, source: SnapshotRow, parts: Iterable[tuple[str, SourceRows]]
    ) -> RowBlame:
        """Of what rows of tables are made of, what was changed last."""
        whole = RowBlame.nobody(count)
        for table, part in parts:
            unique, inverse = np.unique(part.keys, return_inverse=True)
            for column in (None,) if part.columns is None else sorted(part.columns):
                found = self.blame(source, table, unique, column)
                take_newer(whole, part.places, found, inverse)
        return whole

    # --- syncs of schemas --------------------------------------------------------------------

    def _blame_carried(
        self, row: SnapshotRow, edge: Edge, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """What a sync carried is the work of the transaction that it carried."""
        source = self.source_of(edge)
        if source is None:
            return None
        passed = None
        if source.others or edge.operation == _REATTACH:
            passed = self._blame_other_side(source, edge, table, keys, column)
        if passed is None:
            passed = RowBlame.nobody(len(keys))
        passed.who[passed.who == 0] = self.cause(source).sequence
        passed.via[:] = row.sequence
        return passed

    def _blame_other_side(
        self, source: SnapshotRow, edge: Edge, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """Who is to blame on the other side, where a row there has the same key."""
        sync = self.sync_of(edge)
        if sync is None or sync.kind != "schema_change" or self._is_stage(sync):
            return None
        lens, name = lens_of(self.graph, sync).of_table(table), table
        is_forward = edge.details["direction"] == "forward" or self._is_source(sync, edge)
        if table in (lens.new if is_forward else lens.old):
            if not isinstance(lens, RowLens):
                return None
            name = lens.old_name if is_forward else lens.new_name
            sides = (lens.new_schema, lens.old_schema)
            column = same_column(*(sides if is_forward else sides[::-1]), column)
        version = self.graph.find_version(source, name)
        if version is None:
            return None
        there = np.flatnonzero(self.graph.versions.rows(version).contains(keys))
        known = self.graph.versions.definition(version).schema
        if column is not None and column not in known.whole.names:
            return None
        whole = RowBlame.nobody(len(keys))
        whole.put(there, self.blame(source, name, keys[there], column))
        return whole

    def _is_source(self, sync: SyncRow, edge: Edge) -> bool:
        """Whether what a reattached sync brought came from its source, and not from its target."""
        is_from = sync.sources[0] in source_ids(self.graph.catalog, edge)
        return edge.operation == _REATTACH and is_from

    # --- snapshots as a whole ----------------------------------------------------------------

    def source_of(self, edge: Edge) -> SnapshotRow | None:
        """The snapshot that a sync carried to another branch."""
        for text in edge.sources.values():
            return self.graph.snapshots.find(Address(bytes.fromhex(text)))
        return None

    def cause(self, row: SnapshotRow) -> SnapshotRow:
        """The snapshot without which another would not be there: itself, unless it follows one."""
        while row.kind in ("propagate", "derive"):
            edge = self.graph.record(row.address).edge
            before: SnapshotRow | None = None
            if is_carried(edge):
                before = self.source_of(edge)
            elif AT in edge.details:
                before = ViewCause(self, row, self.view_of(edge), "").newest_source()
            if before is None:
                return row
            row = before
        return row

    def view_of(self, edge: Edge) -> View | None:
        """The derived object that an edge made a version of, if it is still known."""
        sync = self.sync_of(edge)
        return None if sync is None or sync.kind != KIND else View.from_json(sync.spec)

    def sync_of(self, edge: Edge) -> SyncRow | None:
        """The sync that made a snapshot, if it is still there."""
        return find_sync(self.graph.catalog, edge, self._syncs)

    def sync_name(self, edge: Edge) -> str:
        """What the sync that made a snapshot is called now; if it was dropped, what it was then."""
        then = str(edge.details.get(SYNC, ""))
        sync = self.sync_of(edge) if SYNC_ID in edge.details or "/" in then else None
        return then if sync is None else self._sync_names[sync.id]

    @cached_property
    def _syncs(self) -> Sequence[SyncRow]:
        return self.graph.catalog.syncs.all()

    def _is_stage(self, sync: SyncRow) -> bool:
        """Whether a sync is one of several that together join two branches."""
        return any(is_hidden(self._names.get(end, "")) for end in (*sync.sources, sync.target))

    @cached_property
    def _names(self) -> Mapping[BranchId, str]:
        return {row.id: row.name for row in self.graph.branches.all()}

    @cached_property
    def _sync_names(self) -> Mapping[SyncId, str]:
        hidden = {branch for branch, name in self._names.items() if is_hidden(name)}
        known = with_end_names(self._syncs, self._names, hidden)
        return {sync.id: sync.name for sync in (*known, *known.inactive)}


def is_carried(edge: Edge) -> bool:
    """Whether a sync of two schemas carried a snapshot from the other side."""
    return "direction" in edge.details


def same_column(here: TableSchema, there: TableSchema, column: str | None) -> str | None:
    """What the other side calls a column; the name itself if it has none."""
    if column is None:
        return None
    number = here.column(column).id
    return next((known.name for known in there.columns if known.id == number), column)


def take_newer(whole: RowBlame, places: Numbers, found: RowBlame, inverse: Numbers) -> None:
    """Take over what was found for distinct keys where it is newer than what is known."""
    who, via, local = (side[inverse] for side in (found.who, found.via, found.local))
    order = np.argsort(who, kind="stable")
    newest = np.zeros(len(whole.who), np.int64)
    newest[places[order]] = order + 1
    at = np.flatnonzero(newest)
    taken = newest[at] - 1
    newer = who[taken] > whole.who[at]
    at, taken = at[newer], taken[newer]
    whole.who[at], whole.via[at], whole.local[at] = who[taken], via[taken], local[taken]
