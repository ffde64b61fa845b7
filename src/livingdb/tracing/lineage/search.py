"""From a derived object down to what it was made from, step by step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.sync_lens import lens_over
from livingdb.derivation.column_lineage.normalize_query import Untraceable, normalize_query
from livingdb.derivation.find_rows import matching_rows, matching_rows_in
from livingdb.derivation.refresh_view import SourceVersion
from livingdb.derivation.source_positions import (
    last_derived_snapshot,
    source_names,
    source_positions,
    source_versions,
)
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.engines.engine_choice import choose_engine, load_engine
from livingdb.engines.request import Request, Source
from livingdb.errors import (
    InvalidData,
    LivingDBError,
    MaskKeyMissing,
    NotFound,
    TransactionConflict,
    Unsupported,
    Untrusted,
)
from livingdb.evolution.lift import tables_in_schema_of
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.edge_ends import FROM, SYNC_ID
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.sync_groups import movement_at
from livingdb.graph.table_ids import matching_columns, matching_tables
from livingdb.guard.sync_state import last_pair
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tracing.lineage.lens_rows import changes_at, trace_changes, trace_lens
from livingdb.tracing.lineage.requested_rows import RequestedRows
from livingdb.tracing.lineage.target import Target, makers
from livingdb.tracing.lineage.trace_query import Answer, KnownTable, QueryTracer, TableTrace
from livingdb.tracing.lineage.written_rows import split_rows

__all__ = ["UNANSWERABLE", "Origin", "Search", "TracedRows", "engine_answer", "trace_rows"]

UNANSWERABLE = (NotFound, InvalidData, MaskKeyMissing, Unsupported, Untrusted)
"""Why a query or a lens cannot be gone through any more; then no more can be said than all."""


@dataclass(frozen=True)
class Origin:
    """Rows of a table of a branch in one snapshot; `source` are all of its rows."""

    branch: BranchId
    branch_name: str
    table: str
    snapshot: SnapshotRow
    rows: pa.Table
    source: RowSet
    is_whole: bool = False


class Search:
    """Finds what is behind rows of derived objects; `base`: down to what is not derived."""

    def __init__(self, graph: Graph, engine: str | None, base: bool, trust: Sequence[str] = ()):
        self.graph = graph
        self._trust = trust
        self._engine = engine
        self._base = base
        self.is_to_base = base
        self._makers = makers(graph)
        self._dropped: dict[BranchId, str] = {}

    def to_base(self) -> Search:
        """The same, down to what is not derived."""
        return Search(self.graph, self._engine, True, self._trust)

    def source_rows(self, target: Target, rows: pa.Table | None) -> list[Origin]:
        """The source rows behind rows of a derived object; None for all of them."""
        steps: list[tuple[Target | Origin, Origin]] = []
        steps += [(target, o) for o in self._trace_once(*_place(target), target.table, rows)]
        done: list[Origin] = []
        while steps:
            traced, origin = steps.pop(0)
            # What was written to the branch itself, while it was detached, comes from nowhere else.
            is_own = _place(traced) == _place(origin)
            if not self._base or is_own or not self._is_derived(origin):
                done.append(origin)
                continue
            table, rows = self._in_own_names(origin)
            steps += [(origin, o) for o in self._trace_once(*_place(origin), table, rows)]
        return self._merge_origins(done)

    def _in_own_names(self, origin: Origin) -> tuple[str, pa.Table | None]:
        """The table and rows of an origin (None: all) as they are called in its snapshot.

        A query that followed renames since then gives them as they are called now.
        """
        graph, branch = self.graph, self.graph.branches.by_id(origin.branch)
        table = origin.table
        if branch is not None and graph.find_version(origin.snapshot, table) is None:
            head = graph.snapshots.at(branch.head)
            table = matching_tables(graph, head, origin.snapshot).get(table, table)
        if origin.is_whole:
            return table, None
        held = graph.versions.rows(graph.version(origin.snapshot, table))
        later = matching_columns(held.schema, origin.source.schema)
        if all(later.get(name) == name for name in held.schema.arrow.names):
            return table, origin.rows
        names = [n for n in held.schema.arrow.names if later.get(n) in origin.rows.column_names]
        given = origin.rows.select([later[name] for name in names]).rename_columns(names)
        return table, matching_rows(held, distinct_rows(given))

    def _is_derived(self, origin: Origin) -> bool:
        """Whether nobody but a sync writes the table."""
        sync = self._makers.get(origin.branch)
        if sync is None:
            return False
        if sync.kind == KIND:
            return bool(source_positions(self.graph, origin.snapshot))
        return sync.direction == "forward" and sync.is_active

    def _merge_origins(self, parts: list[Origin]) -> list[Origin]:
        """Each row of a table in a snapshot once."""
        places: dict[tuple[BranchId, str, int], list[Origin]] = {}
        for part in parts:
            place = part.branch, part.table, part.snapshot.sequence
            places.setdefault(place, []).append(part)
        return [some[0] if len(some) == 1 else _merge_origin_rows(some) for some in places.values()]

    # --- one step ---------------------------------------------------------------------------

    def _trace_once(
        self, branch: BranchId, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> Iterator[Origin]:
        sync = self._makers[branch]
        made = self._version_made(sync, branch, row)
        if made is not None and made.sequence == row.sequence:
            yield from self._trace_made(sync, branch, row, table, rows)
            return
        written = split_rows(self.graph, made, row, table, rows)
        if written.own.num_rows or written.made is None:
            source = self.graph.versions.rows(self.graph.version(row, table))
            yield Origin(branch, self._name(branch), table, row, written.own, source)
        if made is not None and written.made is not None and written.made.num_rows:
            yield from self._trace_made(sync, branch, made, written.table, written.made)

    def _version_made(
        self, sync: SyncRow, branch: BranchId, row: SnapshotRow
    ) -> SnapshotRow | None:
        """The last version that the sync made, before what others wrote; None: there is none."""
        graph = self.graph
        if sync.kind == KIND:
            return last_derived_snapshot(graph, row)
        pair = self._pair(sync)
        made = graph.snapshots.find(pair[branch]) if branch in pair else None
        if made is not None and is_ancestor(graph.snapshots, made, row):
            return made
        return self._last_carried(branch, row) if sync.direction == "forward" else row

    def _last_carried(self, branch: BranchId, row: SnapshotRow) -> SnapshotRow:
        """The last snapshot that a sync made, before what was written while it was detached."""
        graph, target = self.graph, self.graph.branches.by_id(branch)
        first, made = None if target is None else target.origin_head, row
        while made.sequence != first and not _is_carried(graph.record(made.address).edge):
            if made.first is None:
                return row
            made = graph.snapshots.at(made.first)
        return made

    def _pair(self, sync: SyncRow) -> Mapping[BranchId, Address]:
        """Where the branches of a stopped schema sync were last in step."""
        try:
            return {} if sync.is_active else last_pair(self.graph, sync)
        except TransactionConflict:
            return {}

    def _trace_made(
        self, sync: SyncRow, branch: BranchId, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> Iterator[Origin]:
        """The source rows behind rows of a version that a sync made.

        Where its query or lens cannot be gone through any more, all that it read.
        """
        try:
            yield from list(self._trace_step(sync, branch, row, table, rows))
        except UNANSWERABLE:
            yield from self._trace_whole(sync, branch, row)

    def _trace_step(
        self, sync: SyncRow, branch: BranchId, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> Iterator[Origin]:
        if sync.kind != KIND:
            yield from self._trace_schema_change(sync, branch, row, table, rows)
            return
        view = View.from_json(sync.spec)
        at = source_positions(self.graph, row)
        if not set(view.branches) <= set(at):
            raise NotFound(f"{view.name!r} reads other branches now than when this was made")
        self._dropped |= source_names(self.graph, row)
        if view.what == "clone":
            yield from self._trace_clone(view, at, row, table, rows)
        elif view.what == "sql":
            yield from self._trace_query(sync, view, at, row, table, rows)
        else:
            for name, item in source_versions(self.graph, view, at).items():
                source = self.graph.versions.rows(item.version)
                yield self._origin(view.tables[name], at, source.to_arrow(), source, True)

    def _trace_whole(self, sync: SyncRow, branch: BranchId, row: SnapshotRow) -> Iterator[Origin]:
        """Every table that a version was made from, as far as it is known."""
        graph = self.graph
        if sync.kind != KIND:
            try:
                number, before = sync.sources[0], self._paired_snapshot(sync, branch, row)
            except UNANSWERABLE:
                return
            for table in graph.tables(before):
                if not is_hidden(table):
                    yield self._whole_origin(number, before, table)
            return
        at = source_positions(graph, row)
        for source in View.from_json(sync.spec).tables.values():
            pinned = Address(bytes.fromhex(source.snapshot)) if source.snapshot else None
            address = pinned or at.get(source.branch)
            found = None if address is None else graph.snapshots.find(address)
            if found is not None and source.table in graph.tables(found):
                yield self._whole_origin(source.branch, found, source.table)

    def _whole_origin(self, branch: BranchId, row: SnapshotRow, table: str) -> Origin:
        rows = self.graph.versions.rows(self.graph.version(row, table))
        return Origin(branch, self._name(branch), table, row, rows.to_arrow(), rows, True)

    def _trace_query(
        self,
        sync: SyncRow,
        view: View,
        at: dict[BranchId, Address],
        row: SnapshotRow,
        table: str,
        rows: pa.Table | None,
    ) -> Iterator[Origin]:
        graph = self.graph
        known: dict[str, KnownTable] = {}
        sources: dict[str, RowSet] = {}
        for name, item in self._source_versions(view, at).items():
            source = sources[name] = graph.versions.rows(item.version)
            key = source.schema.visible_key or None
            known[name] = KnownTable(Source(source, location=item.location), key)
        schema = graph.versions.definition(graph.version(row, table)).schema
        wanted = None
        if rows is not None:
            shown = [column.name for column in schema.visible_columns]
            names = list(schema.visible_key) or shown
            positions = tuple(shown.index(name) for name in names)
            wanted = RequestedRows(distinct_rows(rows.select(names)), positions)
        answer = engine_answer(view, sync, self._engine, self._trust)
        query = view.tree({name: source.schema for name, source in sources.items()})
        for name, some in trace_rows(query, known, wanted, answer).items():
            yield self._origin(view.tables[name], at, some.rows, sources[name], some.is_whole)

    def _source_versions(self, view: View, at: dict[BranchId, Address]) -> dict[str, SourceVersion]:
        """The tables that a view reads, in the schema that its query is written for.

        A rename since then was followed by the query: old rows are seen through it.  What it uses
        and what is gone since was not: a view that stopped there reads rows as they were.
        """
        graph, bound = self.graph, view.bound
        used = {} if bound is None else bound.uses()
        tables: dict[str, SourceVersion] = {}
        for name, source in view.tables.items():
            uses = used.get(name, frozenset[str]())
            lifted = (
                None if source.snapshot else self._lifted_version(source, at[source.branch], uses)
            )
            if lifted is None:
                one = replace(view, tables={name: source})
                tables[name] = source_versions(graph, one, at)[name]
            else:
                tables[name] = SourceVersion(lifted)
        return tables

    def _lifted_version(
        self, source: SourceTable, at: Address, uses: Collection[str]
    ) -> Version | None:
        """A table in the schema of its branch's head; None if that is the one it has.

        None, too, if a column is gone since that the view uses: `uses` are ids.
        """
        graph = self.graph
        branch, row = graph.branches.by_id(source.branch), graph.snapshots.find(at)
        if branch is None or row is None or branch.head == row.sequence:
            return None
        head = graph.snapshots.at(branch.head)
        then, now = graph.find_version(row, source.table), graph.find_version(head, source.table)
        if now is None:
            return None
        if then is not None:
            held, kept = _names(graph, then), _names(graph, now)
            gone = dict(held).keys() - dict(kept).keys()
            if held == kept or not gone.isdisjoint(uses):
                return None
        try:
            return tables_in_schema_of(graph, row, head).get(source.table)
        except LivingDBError:
            return None

    def _origin(
        self,
        source: SourceTable,
        at: dict[BranchId, Address],
        rows: pa.Table,
        every: RowSet,
        is_whole: bool,
    ) -> Origin:
        graph = self.graph
        address = Address(bytes.fromhex(source.snapshot)) if source.snapshot else at[source.branch]
        row = graph.snapshots.find(address)
        assert row is not None
        name = self._name(source.branch)
        return Origin(source.branch, name, source.table, row, rows, every, is_whole)

    def _name(self, branch: BranchId) -> str:
        row = self.graph.branches.by_id(branch)
        return self._dropped.get(branch, "?") if row is None else row.name

    # --- schema changes ---------------------------------------------------------------------

    def _trace_clone(
        self,
        view: View,
        at: dict[BranchId, Address],
        row: SnapshotRow,
        table: str,
        rows: pa.Table | None,
    ) -> Iterator[Origin]:
        ((branch, address),) = at.items()
        before = self.graph.snapshots.find(address)
        assert before is not None
        changes = changes_at(self.graph, view, branch, before)
        old = tables_of(self.graph, before)
        rows = self._with_hidden_columns(row, table, rows)
        for name, some in trace_changes(self.graph, changes, table, rows, old).items():
            yield self._snapshot_origin(branch, before, name, some)

    def _trace_schema_change(
        self, sync: SyncRow, branch: BranchId, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> Iterator[Origin]:
        graph = self.graph
        source = graph.branches.by_id(sync.sources[0])
        assert source is not None
        before = self._paired_snapshot(sync, branch, row)
        old = tables_of(graph, before)
        rows = self._with_hidden_columns(row, table, rows)
        for name, some in trace_lens(graph, lens_over(graph, sync, old), table, rows, old).items():
            origin = self._snapshot_origin(source.id, before, name, some)
            inner = self._makers.get(source.id) if is_hidden(source.name) else None
            if inner is None:
                yield origin
            else:
                yield from self._trace_schema_change(inner, source.id, before, name, some)

    def _with_hidden_columns(
        self, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> pa.Table | None:
        """Rows with all their columns; where nothing else tells them apart, all that look so."""
        held = self.graph.versions.rows(self.graph.version(row, table))
        whole = held.schema.whole.names
        if rows is None or set(whole) <= set(rows.column_names):
            return rows
        return matching_rows(held, distinct_rows(rows.select(held.schema.arrow.names)), whole)

    def _paired_snapshot(self, sync: SyncRow, branch: BranchId, row: SnapshotRow) -> SnapshotRow:
        """Where the branch of the old schema was when that of the new one was at a snapshot."""
        graph = self.graph
        here = graph.branches.by_id(branch)
        there = graph.branches.by_id(sync.sources[0])
        assert here is not None
        assert there is not None
        pair = self._pair(sync)
        if pair.get(branch) == row.address and there.id in pair:
            found = graph.snapshots.find(pair[there.id])
            if found is not None:
                return found
        if here.head == row.sequence:
            return graph.snapshots.at(there.head)
        known = graph.record(row.address).edge.details.get(FROM, {}).get(there.id)
        found = None if known is None else graph.snapshots.find(Address(bytes.fromhex(known)))
        if found is not None:
            return found
        is_first = row.sequence == here.origin_head and sync.direction == "forward"
        move = None if is_first else graph.movements.last_to(here, row.sequence)
        entry = None if move is None else movement_at(graph, there, move.time)
        if is_first and is_hidden(there.name) and there.origin_head is not None:
            return graph.snapshots.at(there.origin_head)  # beside this one: both have one parent
        if entry is None and row.kind == "schema_change" and row.first is not None:
            return graph.snapshots.at(row.first)  # the one that the sync began with
        if entry is None:
            raise NotFound(
                f"the snapshot {row.address.hex()[:12]} was not made from {there.name!r}: "
                "it is older than the sync"
            )
        return graph.snapshots.at(entry.snapshot)

    def _snapshot_origin(
        self, branch: BranchId, row: SnapshotRow, table: str, rows: pa.Table | None
    ) -> Origin:
        source = self.graph.versions.rows(self.graph.version(row, table))
        every = source.to_arrow() if rows is None else rows.select(source.schema.arrow.names)
        return Origin(branch, self._name(branch), table, row, every, source, False)


def _names(graph: Graph, version: Version) -> list[tuple[str, str]]:
    return [(c.id, c.name) for c in graph.versions.definition(version).schema.columns]


def _merge_origin_rows(parts: list[Origin]) -> Origin:
    whole = [part for part in parts if part.is_whole]
    if whole:
        return whole[0]
    first = parts[0]
    schema = first.rows.schema
    rows = distinct_rows(pa.concat_tables([part.rows.cast(schema) for part in parts]))
    made = pa.Table.from_arrays(rows.columns, schema=schema)
    return Origin(first.branch, first.branch_name, first.table, first.snapshot, made, first.source)


def engine_answer(
    view: View, sync: SyncRow, engine: str | None, trust: Sequence[str] = ()
) -> Answer:
    """Answers requests by the engine that a view is answered by."""
    wanted = view.engine or ("embedded" if sync.frequency == "immediate" else engine)

    def answer(request: Request) -> pa.Table:
        asked = replace(request, trust=trust)
        name, _ = choose_engine(asked, wanted)
        return load_engine(name).rows(asked)

    return answer


@dataclass(frozen=True)
class TracedRows:
    """The rows of one table behind rows of an answer; `is_whole`: more cannot be said than all."""

    rows: pa.Table
    is_whole: bool = False


def trace_rows(
    query: exp.Query, tables: Mapping[str, KnownTable], wanted: RequestedRows | None, answer: Answer
) -> dict[str, TracedRows]:
    """For each table of a query the rows behind those rows of its answer; None for all of them."""
    trace = QueryTracer(tables, answer)
    try:
        tree = normalize_query(query, {name: known.source.schema for name, known in tables.items()})
        trace.trace(tree, wanted)
    except Untraceable:
        trace.trace_all(query)
        if not any(found.is_whole for found in trace.found.values()):
            trace.found = {name: TableTrace(is_whole=True) for name in tables}
    return {name: _traced_rows(tables[name], found) for name, found in trace.found.items()}


def _place(of: Target | Origin) -> tuple[BranchId, SnapshotRow]:
    return of.branch, of.snapshot


def _is_carried(edge: Edge) -> bool:
    """Whether a sync made what an edge leads to; old ones do not say which."""
    return SYNC_ID in edge.details or edge.kind == "propagate"


def all_rows(source: Source) -> pa.Table:
    """Every row of a table."""
    return source.rows.to_arrow() if isinstance(source.rows, RowSet) else source.rows


def _traced_rows(known: KnownTable, found: TableTrace) -> TracedRows:
    if found.is_whole:
        return TracedRows(all_rows(known.source), True)
    schema = known.source.schema
    if known.key is not None and len(found.rows) == 1 and not found.keys:
        return TracedRows(_sort_by_key(known, _cast_to_schema(found.rows[0], schema)))
    names = schema.names if known.key is None else list(known.key)
    fields = pa.schema([schema.field(name) for name in names])
    parts = [_cast_to_schema(part.select(names), fields) for part in (*found.rows, *found.keys)]
    values = distinct_rows(pa.concat_tables([fields.empty_table(), *parts]))
    rows = known.source.rows
    if isinstance(rows, RowSet):
        return TracedRows(matching_rows(rows, values))
    return TracedRows(matching_rows_in(rows, values) if values.num_rows else rows.slice(0, 0))


def _sort_by_key(known: KnownTable, rows: pa.Table) -> pa.Table:
    """The rows by their key."""
    if not isinstance(known.source.rows, RowSet) or known.key is None or rows.num_rows < 2:
        return rows
    codec = known.source.rows.forest.shape
    keys = codec.keys([flat(rows.column(name)) for name in known.source.rows.schema.key])
    if (keys[1:] >= keys[:-1]).all():
        return rows
    return rows.take(pa.array(keys.argsort(kind="stable")))


def _cast_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows as the table has them: engines widen some types, and forget what is never null."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
