"""Detaches, approves, resumes and reattaches syncs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, DETACHED, HELD, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carriers import Carriers
from livingdb.commit.carry_lens import LensCarrier
from livingdb.commit.reattach import rejoin
from livingdb.derivation.view import KIND, View
from livingdb.errors import IllegalSync, RuleViolation, TransactionConflict
from livingdb.graph.diff import differing_keys
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.merge import MergedTables, merge_error, permanent_conflicts
from livingdb.graph.names import is_hidden
from livingdb.guard.sync_state import APPROVED, AT, PAIR, set_state

__all__ = ["approve", "detach", "pending_snapshots", "reattach", "resume"]

SyncChain = Sequence[SyncRow]
_ATTEMPTS = 8


def detach(graph: Graph, stages: SyncChain, by: str, reason: str) -> None:
    """Let both branches go their own ways; where they were in step is written down."""
    numbers = [*stages[0].sources, *(row.target for row in stages)]
    for _ in range(_ATTEMPTS):
        rows = graph.branches_by_ids(numbers)
        pair = {str(n): graph.snapshots.at(r.head).address.hex() for n, r in rows.items()}
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


def approve(
    graph: Graph, stages: SyncChain, by: str, note: str, engine: str | None, trust: Sequence[str]
) -> bool:
    """Let what a held sync waits with pass; whether it is active now.

    It waits on if its conditions ask for more people than have said so yet.
    """
    if _state(stages) != HELD:
        raise RuleViolation(f"the sync {stages[0].name!r} is {_state(stages)}; nothing waits")
    at = {
        str(branch): address.hex() for branch, address in pending_snapshots(graph, stages).items()
    }
    with graph.catalog.write() as connection:
        for row in stages:
            graph.catalog.trail.add(connection, row.id, now(), APPROVED, by, note, {AT: at})
    try:
        resume(graph, stages, by, engine, trust)
    except RuleViolation:
        return False
    return True


def resume(
    graph: Graph, stages: SyncChain, by: str, engine: str | None, trust: Sequence[str]
) -> None:
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
        _reactivate_view(graph, stages[0], by, engine, trust, guarded=True)
    else:
        rejoin(graph, _lens_carrier(graph), stages, by, guarded=True)


def reattach(
    graph: Graph,
    stages: SyncChain,
    by: str,
    on_conflict: str,
    engine: str | None,
    trust: Sequence[str],
) -> None:
    """Let a sync that stopped go on, whatever its conditions say of what came up meanwhile.

    What was written to the target since is merged with what its sources did; where that is not
    possible, `MergeConflict` shows it, and `on_conflict` says who wins.
    """
    if _state(stages) == ACTIVE:
        return
    if stages[0].kind != KIND:
        rejoin(graph, _lens_carrier(graph), stages, by, on_conflict)
        return
    if on_conflict not in ("fail", "source"):
        raise IllegalSync(
            f"on_conflict={on_conflict!r}: a derived object is what its query says; 'source' gives "
            "up what was written to it"
        )
    _reactivate_view(graph, stages[0], by, engine, trust, on_conflict=on_conflict)


def _lens_carrier(graph: Graph) -> LensCarrier:
    assert isinstance(graph.carrier, Carriers)
    return graph.carrier.lenses


def _state(stages: SyncChain) -> str:
    return next((row.state for row in stages if not row.is_active), ACTIVE)


def _reactivate_view(
    graph: Graph,
    sync: SyncRow,
    by: str,
    engine: str | None,
    trust: Sequence[str],
    guarded: bool = False,
    on_conflict: str = "fail",
) -> None:
    """Let a derived object follow its sources again: it is refreshed, then active.

    What its sources do in between, it follows once it is active.
    """
    from livingdb.commit import derive as deriving

    view = View.from_json(sync.spec)
    if view.what == "sql":
        deriving.plan_of(graph, view)
    target = graph.branches.by_id(sync.target)
    assert target is not None
    head = graph.snapshots.at(target.head)
    made = _last_derived_snapshot(graph, target, head)
    if not guarded and made.sequence != head.sequence:
        _check_discarded_rows(graph, sync, made, head, on_conflict, engine, trust)
    full = made.sequence != head.sequence
    outcome = deriving.refresh(graph, sync, by, engine, trust, full=full, guarded=guarded)
    if outcome.stopped:
        raise RuleViolation(f"rule 7: it is still held: {outcome.error}")

    def act(connection: Connection) -> None:
        set_state(graph, connection, [sync], ACTIVE, "", by, now())
        resolve_alerts(graph, connection, sync, by, "active again")

    with graph.catalog.write() as connection:
        act(connection)
    if sync.frequency == "immediate":
        again = replace(sync, state=ACTIVE, reason="")
        deriving.refresh(graph, again, by, engine, trust)


def _last_derived_snapshot(graph: Graph, target: BranchRow, head: SnapshotRow) -> SnapshotRow:
    """The last snapshot of a derived object that its sync has made."""
    row = head
    while row.kind not in ("derive", "propagate") and row.first is not None:
        row = graph.snapshots.at(row.first)
    return row


def _check_discarded_rows(
    graph: Graph,
    sync: SyncRow,
    made: SnapshotRow,
    head: SnapshotRow,
    on_conflict: str,
    engine: str | None,
    trust: Sequence[str],
) -> None:
    """`MergeConflict` with the rows that somebody wrote, and that the query does not give."""
    if on_conflict == "source":
        return
    from livingdb.commit.derive import derived_tables_now

    base, written = tables_of(graph, made), tables_of(graph, head)
    found = MergedTables()
    with derived_tables_now(graph, sync, made, engine, trust) as result:
        for name, yours in written.items():
            old = base.get(name)
            mine = result.get(name, old)
            if is_hidden(name) or old is None or old.address == yours.address:
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
