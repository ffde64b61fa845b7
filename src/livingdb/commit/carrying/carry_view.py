"""Carries moves of branches to derived objects: bound to other schemas, and refreshed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carried import Carried
from livingdb.commit.carrying.rebind_view import (
    pending_schema_change,
    rebind_view,
    unchanged_tables,
)
from livingdb.commit.deriving.derive_version import derive_version
from livingdb.commit.proposal import BranchMove
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.query_answers import EmbeddedAnswers
from livingdb.derivation.refresh_view import RefreshInput, RefreshResult, SourceVersion
from livingdb.derivation.source_positions import (
    AT,
    At,
    RefreshRequest,
    positions_by_name,
    source_positions,
    source_versions,
)
from livingdb.derivation.stage_inputs import DeltaCache
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError, MaskKeyMissing, NotFound
from livingdb.evolution.masked_history import has_mask
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import SYNC, SYNC_ID
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import pending_refresh
from livingdb.guard.conditions.kinds.model import METRICS
from livingdb.guard.conditions.pending_change import PendingChange
from livingdb.guard.sync_failure import TRANSIENT_ERRORS
from livingdb.trees.delta import PATCH

__all__ = ["ViewCarrier", "Views", "edge_details", "topological_order"]

Readers = dict[frozenset[str] | None, list[int]]
"""The places of views, by the columns they read; None: all."""


@dataclass(frozen=True)
class Views:
    """The derived objects there are, those that others read first."""

    every: tuple[tuple[SyncRow, View], ...]
    immediate: Mapping[tuple[BranchId, str], Readers] = field(default_factory=dict)
    """For a table of a branch, which immediate ones read it, and which of its columns."""
    columns: Mapping[tuple[BranchId, str], Sequence[str]] = field(default_factory=dict)
    """For a table of a branch, the columns that any of them reads, where not all are read."""
    clones: Mapping[BranchId, Sequence[int]] = field(default_factory=dict)
    """For a branch, the places of its clones, which see all of it."""

    @cached_property
    def by_sync(self) -> Mapping[SyncId, View]:
        """The views by their syncs."""
        return {sync.id: view for sync, view in self.every}

    @classmethod
    def of(cls, syncs: Sequence[SyncRow]) -> Views:
        """Those among the syncs."""
        known = [(s, View.from_json(s.spec)) for s in syncs if s.kind == KIND]
        every = topological_order(known)
        immediate: dict[tuple[BranchId, str], Readers] = {}
        clones: dict[BranchId, list[int]] = {}
        for place, (sync, view) in enumerate(every):
            if view.what == "clone":
                clones.setdefault(view.branches[0], []).append(place)
                continue
            if sync.frequency != "immediate":
                continue
            for plain, table in view.tables.items():
                if not table.snapshot:
                    used = view.uses.get(plain)
                    readers = immediate.setdefault((table.branch, table.table), {})
                    readers.setdefault(None if used is None else frozenset(used), []).append(place)
        columns = {
            place: sorted({name for used in readers for name in used or ()})
            for place, readers in immediate.items()
            if None not in readers
        }
        return cls(every, immediate, columns, clones)


def topological_order(views: Sequence[tuple[SyncRow, View]]) -> tuple[tuple[SyncRow, View], ...]:
    """The views, each after those that it reads."""
    by_target = {sync.target: (sync, view) for sync, view in views}
    found: dict[BranchId, tuple[SyncRow, View]] = {}

    def visit(target: BranchId) -> None:
        if target in found or target not in by_target:
            return
        for branch in by_target[target][1].branches:
            visit(branch)
        found[target] = by_target[target]

    for sync, _ in sorted(views, key=lambda item: item[0].number):
        visit(sync.target)
    return tuple(found.values())


def edge_details(
    sync: str, sync_id: SyncId, at: Mapping[BranchId, Address], done: RefreshResult
) -> dict[str, object]:
    """What the edge of a refresh remembers."""
    details: dict[str, object] = {
        SYNC: sync,
        SYNC_ID: sync_id,
        "strategy": done.strategy,
        "rows": done.rows,
        "engine": done.engine,
        AT: _to_hex(at),
    }
    if done.reason is not None:
        details["reason"] = done.reason
    return details


@dataclass(frozen=True)
class _Turn:
    """What a derived object is about to be made of: where its sources were, and are now."""

    sync: SyncRow
    view: View
    target: BranchRow
    head: SnapshotRow
    then: At
    at: At
    moved: Mapping[BranchId, BranchMove]
    cause: Edge
    sources: Mapping[str, str]


class ViewCarrier:
    """Carries moves of branches to the derived objects that read them."""

    def __init__(self, graph: Graph, trust: Sequence[str]):
        self._graph = graph
        self._trust = trust
        self._views: tuple[str, Views] | None = None
        self._answers = EmbeddedAnswers()

    def views(self, epoch: str) -> Views:
        """The derived objects, as of an epoch of the catalog."""
        known = self._views
        if known is None or known[0] != epoch:
            known = self._views = epoch, Views.of(self._graph.syncs(epoch))
        return known[1]

    def reached(self, move: BranchMove) -> list[SyncRow]:
        """The syncs of derived objects that a move of a branch reaches.

        Those that read a table of another schema now have to be bound to it, whenever they run;
        immediate ones are refreshed.
        """
        views = self.views(move.branch.epoch)
        places: set[int] = set()
        for table in move.changed:
            readers = views.immediate.get((move.branch.id, table))
            if not readers:
                continue
            columns = self._patched_columns(move, table)
            for used, some in readers.items():
                if columns is None or used is None or columns & used:
                    places.update(some)
        if move.other_schemas or move.is_evolved:
            places.update(
                place for place, (_, view) in enumerate(views.every) if _is_other(move, view)
            )
        is_seen = any(not is_hidden(name) for name in move.changed)
        for place in views.clones.get(move.branch.id, ()):
            sync = views.every[place][0]
            if _changes_schema(move) or (is_seen and sync.frequency == "immediate"):
                places.add(place)
        return [views.every[place][0] for place in sorted(places)]

    def carry(
        self,
        sync: SyncRow,
        target: BranchRow,
        moved: Mapping[BranchId, BranchMove],
        deltas: DeltaCache,
        staging: Staging,
    ) -> Carried | None:
        """The next version of a derived object over branches that move; None if it stays."""
        graph = self._graph
        known = {} if self._views is None else self._views[1].by_sync
        view = known.get(sync.id) or View.from_json(sync.spec)
        head = graph.snapshots.at(target.head)
        then = source_positions(graph, head)
        at = {n: moved[n].address if n in moved else then[n] for n in view.branches}
        rows = graph.branches.by_ids([n for n in view.branches if n not in moved])
        rows |= {n: moved[n].branch for n in view.branches if n in moved}
        names = {number: row.name for number, row in rows.items()}
        cause = _cause(view, moved)
        said = cause.author, cause.message
        sources = positions_by_name(at, names)
        rebound = view
        others = [m for n, m in moved.items() if n in view.branches and _is_other(m, view)]
        pending: PendingChange | None = None
        if others and sync.guard.get("conditions"):
            authors = [cause.author]
            pending = pending_schema_change(graph, sync, view, others, head, authors, self._trust)
        try:
            for move in others:
                rebound = rebind_view(graph, rebound, move)
        except TRANSIENT_ERRORS:
            raise
        except LivingDBError as error:
            return Carried(None, pending=pending, broken=error)
        spec = rebound.to_json() if rebound != view else None
        if others:
            same = unchanged_tables(graph, sync, view, rebound, others, head)
            if same is not None:
                details = self._follow_details(sync, at, head)
                made = Intent(
                    (head,), (target,), "propagate", "follow", *said, same, sources, details
                )
                return Carried(made, pending=pending, spec=spec)
            if sync.frequency != "immediate":
                return Carried(None, pending=pending, spec=spec)
        turn = _Turn(sync, rebound, target, head, then, at, moved, cause, sources)
        return self._refresh(turn, pending, spec, deltas, staging)

    def _refresh(
        self,
        turn: _Turn,
        pending: PendingChange | None,
        spec: Mapping[str, Any] | None,
        deltas: DeltaCache,
        staging: Staging,
    ) -> Carried | None:
        """The next version, of what its sources are now; None if it waits for a key."""
        graph, sync, view = self._graph, turn.sync, turn.view
        head, then, at, moved = turn.head, turn.then, turn.at, turn.moved
        held = {n: graph.versions.require(a) for n, a in graph.tables(head).items()}
        source = moved.get(view.branches[0]) if view.what == "clone" else None
        inputs = (
            self._inputs(view, then, at, moved)
            if source is None
            else self._clone_inputs(then, source)
        )
        request = RefreshRequest(
            view, inputs, whole_tables(held), at, self._trust, before=then if source else {}
        )
        try:
            result = derive_version(graph, request, self._answers, staging, deltas, source)
        except MaskKeyMissing:  # it stays where it is, until somebody has the key
            return None if spec is None else Carried(None, pending=pending, spec=spec)
        done = result.refresh_result
        details = edge_details(sync.name, sync.id, at, done)
        made = Intent(
            (head,),
            (turn.target,),
            "propagate",
            "refresh",
            turn.cause.author,
            turn.cause.message,
            result.tables,
            turn.sources,
            details,
            intermediates=result.intermediates,
        )
        if sync.guard.get("conditions"):
            pairs = {} if pending is None else pending.sources
            authors = [turn.cause.author]
            pending = pending_refresh(graph, sync, request, result.tables, done, head, authors)
            pending.sources = {**pending.sources, **pairs}
            pending.drafted = {n: moved[n].addresses for n in view.branches if n in moved}
        is_next = source is not None and then.get(source.branch.id) == source.head.address
        followed = source.schema_changes if source is not None and is_next else ()
        brings_rows = source is not None and not source.is_schema_alone
        unified = {} if source is None else {**source.unified, **result.unified}
        return Carried(
            made,
            held,
            pending,
            spec=spec,
            schema_changes=followed,
            brings_rows=brings_rows,
            unified=unified,
        )

    def _follow_details(self, sync: SyncRow, at: At, head: SnapshotRow) -> dict[str, object]:
        """What the edge of a view remembers that is as it was over another schema."""
        same = RefreshResult({}, "none", "SCHEMA_CHANGED", 0, "embedded")
        details = edge_details(sync.name, sync.id, at, same)
        metrics = self._graph.record(head.address).edge.details.get(METRICS)
        return {**details, METRICS: metrics} if metrics else details

    def _patched_columns(self, move: BranchMove, table: str) -> frozenset[str] | None:
        """The columns that a change sets in rows that stay; None if it may be more."""
        after, before = move.addresses.get(table), move.before.get(table)
        if after is None or before is None:
            return None
        versions = self._graph.versions
        version = versions.require(after)
        if version.base != before:
            return None
        delta = versions.delta(version)
        if (delta.ops != PATCH).any():
            return None
        schema = versions.definition(version).schema
        given = zip(schema.stored_columns, delta.columns, strict=True)
        return frozenset(
            column.name for column, values in list(given)[len(schema.key) :] if values is not None
        )

    def _clone_inputs(self, then: At, move: BranchMove) -> dict[str, RefreshInput]:
        """The tables that a clone sees: all there are on its source, whichever they are."""
        graph = self._graph
        taken = then.get(move.branch.id)
        before = {} if taken is None else graph.record(taken).tables
        found = {}
        for name, address in move.addresses.items():
            if not is_hidden(name):
                old = before.get(name)
                known = None if old is None else SourceVersion(graph.versions.require(old))
                found[name] = RefreshInput(known, SourceVersion(graph.versions.require(address)))
        return found

    def _inputs(
        self, view: View, then: At, at: At, moved: Mapping[BranchId, BranchMove]
    ) -> dict[str, RefreshInput]:
        """The tables that a view reads, as it knows them and as they are to be."""
        graph = self._graph
        try:
            before: Mapping[str, SourceVersion | None] = source_versions(graph, view, then)
        except (NotFound, KeyError):
            before = dict.fromkeys(view.tables)
        found = {}
        for name, source in view.tables.items():
            move = moved.get(source.branch)
            if not source.snapshot and move is not None:
                address = move.addresses.get(source.table)
                if address is None:
                    raise LivingDBError(f"the table {source.table!r} is gone")
                new = SourceVersion(graph.versions.require(address))
            else:
                known = before[name]
                new = source_versions(graph, view, at)[name] if known is None else known
            found[name] = RefreshInput(before[name], new)
        return found


def _cause(view: View, moved: Mapping[BranchId, BranchMove]) -> Edge:
    """What led to the next version: behind a mask nothing is said of it but where it is from."""
    move = next(moved[branch] for branch in view.branches if branch in moved)
    if view.what == "clone" and has_mask(view.changes):
        return replace(move.edge, message=f"follows {move.branch.name}")
    return move.edge


def _is_other(move: BranchMove, view: View) -> bool:
    """Whether a view reads a table of a branch that has another schema where it moves."""
    if view.what == "clone":
        return move.branch.id in view.branches and _changes_schema(move)
    return any(
        table.branch == move.branch.id
        and not table.snapshot
        and (table.table in move.other_schemas or (table.table in move.changed and move.is_evolved))
        for table in view.tables.values()
    )


def _changes_schema(move: BranchMove) -> bool:
    """Whether a branch has other tables, or others of its tables' schemas, where it moves."""
    is_new = any(name not in move.before for name in move.changed)
    return is_new or bool(move.other_schemas) or move.is_evolved


def _to_hex(at: At) -> dict[str, str]:
    return {branch: address.hex() for branch, address in at.items()}
