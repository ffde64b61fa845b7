"""Detaches, approves, resumes and reattaches syncs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import EPOCH, BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, DETACHED, HELD, ActiveSyncs, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.stopping.reattach import rejoin
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.view import KIND, View
from livingdb.errors import InvalidData, LivingDBError, RuleViolation, TransactionConflict
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.diff import differing_keys
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.merge import MergedTables, merge_error, permanent_conflicts
from livingdb.graph.merge_policy import check_one_way, check_policy, is_given_up
from livingdb.graph.names import is_hidden
from livingdb.graph.rules import check_again
from livingdb.guard.sync_state import (
    APPROVED,
    AT,
    PAIR,
    set_state,
    snapshots_in_step,
    stopped_since,
)
from livingdb.tables.recipe import Definition

__all__ = ["approve", "detach", "pending_snapshots", "reattach", "resume"]

SyncChain = Sequence[SyncRow]
_ATTEMPTS = 8


def detach(graph: Graph, stages: SyncChain, by: str, reason: str) -> None:
    """Let both branches go their own ways; where they were in step is written down."""
    numbers = [*stages[0].sources, *(row.target for row in stages)]
    for _ in range(_ATTEMPTS):
        rows = graph.branches_by_ids(numbers)
        heads = {n: graph.snapshots.at(r.head).address for n, r in rows.items()}
        together = snapshots_in_step(graph, stages, heads) if stages[0].kind != KIND else heads
        pair = {str(n): address.hex() for n, address in together.items()}
        details = {} if stages[0].kind == KIND or not stages[0].is_active else {PAIR: pair}
        with graph.catalog.write() as connection:
            if all(graph.branches.is_at(connection, row) for row in rows.values()):
                text = reason or "detached by hand"
                set_state(graph, connection, stages, DETACHED, text, by, now(), details)
                return
    raise TransactionConflict(f"others keep moving what {stages[0].name!r} joins; try again")


def pending_snapshots(graph: Graph, stages: SyncChain) -> dict[BranchId, Address]:
    """The snapshots that the target of a sync has not seen, or may not have."""
    if stages[0].kind == KIND:
        numbers: Sequence[BranchId] = View.from_json(stages[0].spec).branches
    else:
        numbers = stages[0].sources if stages[0].direction != "reverse" else (stages[-1].target,)
    rows = graph.branches_by_ids(numbers)
    return {number: graph.snapshots.at(row.head).address for number, row in rows.items()}


def approve(pipeline: Pipeline, stages: SyncChain, by: str, note: str, engine: str | None) -> bool:
    """Let what a held sync waits with pass; whether it is active now.

    It waits on if its conditions ask for more people than have said so yet.
    """
    if _state(stages) != HELD:
        raise RuleViolation(f"the sync {stages[0].name!r} is {_state(stages)}; nothing waits")
    graph = pipeline.graph
    if stages[0].kind == KIND:
        _stopped_view(graph, stages[0])
    at = {
        str(branch): address.hex() for branch, address in pending_snapshots(graph, stages).items()
    }
    with graph.catalog.write() as connection:
        for row in stages:
            graph.catalog.trail.add(connection, row.id, now(), APPROVED, by, note, {AT: at})
    try:
        resume(pipeline, stages, by, engine)
    except RuleViolation:
        return False
    return True


def resume(pipeline: Pipeline, stages: SyncChain, by: str, engine: str | None) -> None:
    """Let a sync that is held or in error go on; `RuleViolation` if conditions still stop it."""
    state = _state(stages)
    if state == ACTIVE:
        return
    if state == DETACHED:
        raise RuleViolation(
            f"the sync {stages[0].name!r} is detached, and its target may have been written since: "
            "reattach() brings both together"
        )
    if stages[0].kind == KIND:
        _reactivate_view(pipeline, stages[0], by, engine, guarded=True)
    else:
        rejoin(pipeline, stages, by, guarded=True)


def reattach(
    pipeline: Pipeline, stages: SyncChain, by: str, on_conflict: Any, engine: str | None
) -> None:
    """Let a sync that stopped go on, whatever its conditions say of what came up meanwhile.

    What was written to the target since is merged with what its sources did; where that is not
    possible, `MergeConflict` shows it, and `on_conflict` says who wins.
    """
    check_policy(on_conflict, "row")
    if _state(stages) == ACTIVE:
        return
    check_again(_active_syncs(pipeline.graph), stages)
    if stages[0].kind != KIND:
        rejoin(pipeline, stages, by, on_conflict)
        return
    check_one_way(on_conflict)
    _reactivate_view(pipeline, stages[0], by, engine, on_conflict=on_conflict)


def _active_syncs(graph: Graph) -> ActiveSyncs:
    return graph.syncs(graph.catalog.meta(EPOCH) or "")


def _state(stages: SyncChain) -> str:
    return next((row.state for row in stages if not row.is_active), ACTIVE)


def _reactivate_view(
    pipeline: Pipeline,
    sync: SyncRow,
    by: str,
    engine: str | None,
    guarded: bool = False,
    on_conflict: Any = "fail",
) -> None:
    """Let a derived object follow its sources again: it is refreshed, then active.

    What its sources do in between, it follows once it is active.
    """
    from livingdb.commit.carrying.rebind_view import rebind_to_heads
    from livingdb.commit.deriving.past_versions import is_defined_by
    from livingdb.commit.deriving.refresh import refresh

    graph, known = pipeline.graph, sync.spec
    stopped = _stopped_view(graph, sync)
    view, made, head, then = stopped.view, stopped.made, stopped.head, stopped.then
    sync = replace(sync, spec=view.to_json()) if view.what == "clone" else sync
    if not guarded and made.sequence != head.sequence:
        _check_discarded_rows(pipeline, sync, made, head, on_conflict, engine)
    # Rows that were erased here have gone from what it was, too, so that nothing tells of them.
    full = made.sequence != head.sequence or (not guarded and bool(graph.store.redacted))
    defines = not is_defined_by(graph, view, made)  # somebody reset it to before its definition
    try:
        outcome = refresh(pipeline, sync, by, engine, full=full, guarded=guarded, defines=defines)
    except InvalidData:  # a row that a clone keeps by its key may stand against what comes
        if guarded or full or view.what != "clone":
            raise
        outcome = refresh(pipeline, sync, by, engine, full=True, guarded=False)
    if outcome.stopped:
        raise RuleViolation(f"rule 7: it is still held: {outcome.error}")

    with graph.catalog.write() as connection:
        followed = rebind_to_heads(graph, view, then)
        if followed.to_json() != dict(known):
            graph.catalog.syncs.set_spec(connection, sync.id, followed.to_json())
        set_state(graph, connection, [sync], ACTIVE, "", by, now())
        resolve_alerts(graph, connection, sync, by, "active again")
    if sync.frequency == "immediate":
        again = replace(sync, state=ACTIVE, reason="", spec=followed.to_json())
        refresh(pipeline, again, by, engine)


@dataclass(frozen=True)
class _StoppedView:
    """A derived object that stopped: where it stands, and what it was last made of."""

    view: View
    head: SnapshotRow
    made: SnapshotRow
    then: dict[BranchId, Address]


def _stopped_view(graph: Graph, sync: SyncRow) -> _StoppedView:
    """A derived object that can go on over what it reads now; an error says why it cannot."""
    from livingdb.commit.carrying.rebind_view import rebind_to_heads
    from livingdb.commit.deriving.derive import plan_of

    view = View.from_json(sync.spec)
    if view.what == "sql":
        plan_of(graph, view)
    target = graph.branches.by_id(sync.target)
    assert target is not None
    head = graph.snapshots.at(target.head)
    made = _last_derived_snapshot(graph, target, head)
    then = source_positions(graph, made)
    if view.what == "clone":
        view = _follow_source(graph, sync, view)
    rebind_to_heads(graph, view, then)
    return _StoppedView(view, head, made, then)


def _follow_source(graph: Graph, sync: SyncRow, view: View) -> View:
    """A clone that stopped, its changes by the names that its source has now.

    They go by those it had when it stopped, or by those before the change that stopped it.
    """
    source = graph.branches.by_id(view.branches[0])
    since = stopped_since(graph, sync)
    move = None if source is None or since is None else graph.movements.at(source, since)
    if source is None or move is None:
        return view
    now_at = _visible_definitions(graph, graph.snapshots.at(source.head))
    changes = [SchemaChange.from_json(item) for item in view.changes]
    stopped = graph.snapshots.at(move.snapshot)
    before = () if stopped.first is None else (graph.snapshots.at(stopped.first),)
    for row in (stopped, *before):
        with suppress(LivingDBError):
            made = follow_names(changes, _visible_definitions(graph, row), now_at)
            return replace(view, changes=tuple(change.to_json() for change in made))
    return view


def _visible_definitions(graph: Graph, row: SnapshotRow) -> dict[str, Definition]:
    tables = {name: v for name, v in tables_of(graph, row).items() if not is_hidden(name)}
    return definitions_of(graph, tables)


def _last_derived_snapshot(graph: Graph, target: BranchRow, head: SnapshotRow) -> SnapshotRow:
    """The last snapshot of a derived object that its sync has made."""
    row = head
    while row.kind not in ("derive", "propagate") and row.first is not None:
        row = graph.snapshots.at(row.first)
    return row


def _check_discarded_rows(
    pipeline: Pipeline,
    sync: SyncRow,
    made: SnapshotRow,
    head: SnapshotRow,
    on_conflict: Any,
    engine: str | None,
) -> None:
    """`MergeConflict` with the rows that somebody wrote, and that the query does not give."""
    from livingdb.commit.deriving.refresh import derived_tables_now

    graph = pipeline.graph
    base, written = tables_of(graph, made), tables_of(graph, head)
    written = {n: v for n, v in written.items() if not is_given_up(on_conflict, n)}
    if not written:
        return
    found = MergedTables()
    with derived_tables_now(pipeline, sync, made, engine) as result:
        for name, yours in written.items():
            old = base.get(name)
            mine = result.get(name, old)
            if is_hidden(name) or (old is not None and old.address == yours.address):
                continue
            if old is None:
                found.clashes[name] = "the target alone has the table"
                continue
            if mine is None or mine.definition != yours.definition:
                found.clashes[name] = "the two sides have different schemas"
                continue
            parts = permanent_conflicts(
                graph, mine, yours, differing_keys(graph.versions, old, yours)
            )
            if parts:
                found.conflicts[name] = parts
        if not found.is_clean:
            raise merge_error(graph, found, {**written, **result})
