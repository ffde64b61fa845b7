"""Judges what a schema sync is to carry, before the target's snapshot is drafted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.graph.draft import Draft
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import pending_schema_sync
from livingdb.guard.judge import judge_change
from livingdb.guard.quarantine import quarantine_rows
from livingdb.guard.sync_state import sync_chain

if TYPE_CHECKING:
    from livingdb.commit.carry_lens import BranchChange, TargetChange

__all__ = ["GuardedChange", "guard_change"]


@dataclass(frozen=True)
class GuardedChange:
    """What passes: the target's change (None: nothing), and what the transaction does.

    `dropped` are branches between the two ends, which stay where they are with the target.
    """

    target_change: TargetChange | None
    actions: list[Callable[[Connection], None]]
    skipped_branches: Collection[BranchId] = ()


def guard_change(
    graph: Graph,
    sync: SyncRow,
    step: BranchChange,
    found: TargetChange,
    group: Mapping[BranchId, BranchRow],
    draft: Draft,
    staging: Staging,
) -> GuardedChange:
    """What the conditions of a sync say about a change that it is to carry to a branch."""
    whole, intent, _, _ = found
    (head,) = intent.parents
    source = graph.snapshots.at(group[step.branch].head)
    pending = pending_schema_sync(
        graph,
        sync,
        (whole, intent.tables),
        (step.before, step.after),
        {step.branch: step.snapshot},
        {step.branch: source.address},
        head,
        [draft.intent.author],
    )
    judgement = judge_change(pending)
    assert judgement is not None
    judgement.refuse()
    if judgement.is_blocking:
        graph.index.forget([v for v in intent.tables.values() if v is not None])
        stages = sync_chain(graph, sync)
        ends = [stages[0].sources[0], *(row.target for row in stages)]
        pair = {b: graph.snapshots.at(group[b].head).address for b in ends}
        return GuardedChange(None, [judgement.stop_action(draft.intent.author, pair)], ends[1:-1])
    held = tables_of(graph, head)
    tables = quarantine_rows(graph.versions, held, intent.tables, judgement, staging)
    details = {**intent.details, **judgement.details()}
    passed = replace(intent, tables=tables, details=details)
    is_as_made = tables == dict(intent.tables)
    changes, deltas = (found[2], found[3]) if is_as_made else ({}, {})
    return GuardedChange((held, passed, changes, deltas), judgement.warning_actions())
