"""Propagation to immediate views: those that read what a commit changes are refreshed with it, in
topological order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.derive_version import derive_version
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.query_answers import EmbeddedAnswers
from livingdb.derivation.refresh_view import RefreshInput, RefreshResult, SourceVersion
from livingdb.derivation.source_positions import (
    AT,
    RefreshRequest,
    positions_by_name,
    source_positions,
    source_versions,
)
from livingdb.derivation.stage_inputs import DeltaCache
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.graph.draft import Draft, Intent, Propagation
from livingdb.graph.edge_ends import SYNC, SYNC_ID
from livingdb.graph.graph import Graph, now
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import pending_refresh
from livingdb.guard.judge import ConditionBroken, judge_change
from livingdb.guard.quarantine import quarantine_rows
from livingdb.guard.sync_failure import TRANSIENT_ERRORS, detach_action
from livingdb.trees.delta import PATCH

__all__ = ["ViewCarrier", "Views", "edge_details", "topological_order"]

_log = logging.getLogger("livingdb")

Make = Callable[[Intent], Draft]


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

    @classmethod
    def of(cls, syncs: Sequence[SyncRow]) -> Views:
        """Those among the syncs."""
        known = [(s, View.from_json(s.spec)) for s in syncs if s.kind == KIND]
        every = topological_order(known)
        immediate: dict[tuple[BranchId, str], Readers] = {}
        for place, (sync, view) in enumerate(every):
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
        return cls(every, immediate, columns)


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


@dataclass(frozen=True)
class _BranchMove:
    """A branch that moves: where to, and the tables that differ there."""

    name: str
    address: Address
    tables: Mapping[str, Address]
    changed: frozenset[str]
    before: Mapping[str, Address] = field(default_factory=dict)


@dataclass(frozen=True)
class _RefreshPass:
    """One pass over the views: what moves, by what, and what else its transaction does."""

    moved: Mapping[BranchId, _BranchMove]
    staging: Staging
    make: Make
    cause: Intent
    deltas: DeltaCache
    actions: list[Callable[[Connection], None]]


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
        AT: {branch: address.hex() for branch, address in at.items()},
    }
    if done.reason is not None:
        details["reason"] = done.reason
    return details


class ViewCarrier:
    """Keeps immediate views in step with what they read."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._views: tuple[str, Views] | None = None
        self._answers = EmbeddedAnswers()

    def views(self, epoch: str) -> Views:
        """The derived objects, as of an epoch of the catalog."""
        known = self._views
        if known is None or known[0] != epoch:
            known = self._views = epoch, Views.of(self._graph.syncs(epoch))
        return known[1]

    def carry(self, drafts: Sequence[Draft], staging: Staging, make: Make) -> Propagation:
        """The snapshots of views that read what the drafts change."""
        moves = [(branch, draft) for draft in drafts for branch in draft.intent.moves]
        if not moves:
            return Propagation()
        epoch = moves[0][0].epoch
        if not self.views(epoch).immediate:
            return Propagation()
        moved = {
            branch.id: _BranchMove(
                branch.name,
                draft.address,
                draft.record.tables,
                frozenset(draft.addresses),
                self._graph.tables(self._graph.snapshots.at(branch.head)),
            )
            for branch, draft in moves
        }
        return self._refresh_affected(epoch, moved, staging, make, drafts[0].intent)

    def carry_head_moves(
        self,
        moves: Sequence[tuple[BranchRow, SnapshotRow]],
        staging: Staging,
        make: Make,
    ) -> Propagation:
        """The same for branches that move to snapshots that are there."""
        if not moves or not self.views(moves[0][0].epoch).immediate:
            return Propagation()
        graph, moved = self._graph, {}
        for branch, to in moves:
            before = graph.tables(graph.snapshots.at(branch.head))
            after = graph.tables(to)
            changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            moved[branch.id] = _BranchMove(branch.name, to.address, after, frozenset(changed))
        first = moves[0][1]
        edge = graph.record(first.address).edge
        intent = Intent((), (), "propagate", "sync", edge.author, edge.message, {})
        return self._refresh_affected(moves[0][0].epoch, moved, staging, make, intent)

    def _refresh_affected(
        self,
        epoch: str,
        moved: dict[BranchId, _BranchMove],
        staging: Staging,
        make: Make,
        cause: Intent,
    ) -> Propagation:
        views = self.views(epoch)
        drafts: list[Draft] = []
        actions: list[Callable[[Connection], None]] = []
        due: set[int] = set()
        deltas = DeltaCache(columns=views.columns)

        def touch(branch: BranchId, change: _BranchMove) -> None:
            for table in change.changed:
                readers = views.immediate.get((branch, table))
                if not readers:
                    continue
                columns = self._patched_columns(change, table)
                for used, places in readers.items():
                    if columns is None or used is None or columns & used:
                        due.update(places)

        for branch, change in moved.items():
            touch(branch, change)
        while due:
            place = min(due)
            due.discard(place)
            sync, view = views.every[place]
            try:
                work = _RefreshPass(moved, staging, make, cause, deltas, actions)
                draft = self._refresh_view(sync, view, work)
            except (*TRANSIENT_ERRORS, ConditionBroken):
                raise
            except LivingDBError as error:
                actions.append(detach_action(self._graph, sync, str(error), now()))
                continue
            except Exception as error:
                # Whoever writes to the source is not to suffer from a mistake of ours.
                _log.exception("the view %r could not be maintained", view.name)
                reason = f"an error of LivingDB: {type(error).__name__}: {error}"
                actions.append(detach_action(self._graph, sync, reason, now()))
                continue
            if draft is None:
                continue
            drafts.append(draft)
            (target,) = draft.intent.moves
            change = _BranchMove(
                target.name, draft.address, draft.record.tables, frozenset(draft.addresses)
            )
            moved[target.id] = change
            touch(target.id, change)
        return Propagation(drafts, actions)

    def _patched_columns(self, change: _BranchMove, table: str) -> frozenset[str] | None:
        """The columns that a change sets in rows that stay; None if it may be more."""
        after, before = change.tables.get(table), change.before.get(table)
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

    def _refresh_view(self, sync: SyncRow, view: View, work: _RefreshPass) -> Draft | None:
        """The next snapshot of a view; None if its conditions do not let it pass."""
        graph, moved = self._graph, work.moved
        rows = graph.branches.by_ids([sync.target, *view.branches])
        target = rows[sync.target]
        head = graph.snapshots.at(target.head)
        then = source_positions(graph, head)
        at = {n: moved[n].address if n in moved else then[n] for n in view.branches}
        before = source_versions(graph, view, then)
        inputs = {name: self._input(view, name, before[name], moved) for name in view.tables}
        held = {n: graph.versions.require(a) for n, a in graph.tables(head).items()}
        whole = whole_tables(held)
        request = RefreshRequest(view, inputs, whole, at, graph.trust)
        result = derive_version(graph, request, self._answers, work.staging, work.deltas)
        done, tables = result.refresh_result, result.tables
        details = edge_details(sync.name, sync.id, at, done)
        if sync.guard.get("conditions"):
            authors = [work.cause.author]
            pending = pending_refresh(graph, sync, request, done.tables, done, head, authors)
            pending.drafted = {n: moved[n].tables for n in view.branches if n in moved}
            judgement = judge_change(pending)
            assert judgement is not None
            judgement.refuse()
            if judgement.is_blocking:
                graph.index.forget(list(done.tables.values()))
                work.actions.append(judgement.stop_action(work.cause.author))
                return None
            work.actions.extend(judgement.warning_actions())
            tables = quarantine_rows(graph.versions, held, done.tables, judgement, work.staging)
            details.update(judgement.details())
        return work.make(
            Intent(
                (head,),
                (target,),
                "propagate",
                "refresh",
                work.cause.author,
                work.cause.message,
                tables,
                positions_by_name(at, {n: row.name for n, row in rows.items()}),
                details,
            )
        )

    def _input(
        self, view: View, name: str, before: SourceVersion, moved: Mapping[BranchId, _BranchMove]
    ) -> RefreshInput:
        source = view.tables[name]
        change = moved.get(source.branch)
        if source.snapshot or change is None:
            return RefreshInput(before, before)
        address = change.tables.get(source.table)
        if address is None:
            raise LivingDBError(f"the table {source.table!r} is gone")
        return RefreshInput(before, SourceVersion(self._graph.versions.require(address)))
