"""Judges the result of a refresh: quarantines rows, or stops the sync."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.derive_version import DerivedVersion
from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.guard.conditions.pending_change import PendingChange
from livingdb.guard.judge import Judgement, judge_change
from livingdb.guard.quarantine import quarantine_rows
from livingdb.tables.index import Version

__all__ = ["guard_first_version", "guard_refresh", "stop_refresh"]


def guard_refresh(
    pending: PendingChange,
    held: Mapping[str, Version],
    result: DerivedVersion,
    staging: Staging,
    guarded: bool = True,
) -> tuple[DerivedVersion, Judgement | None]:
    """What is to be stored, and what the conditions say; `held` is all that the target has.

    Where it is not to be `guarded`, they stop nothing.
    """
    judgement = judge_change(pending)
    if judgement is not None and not guarded:
        judgement = judgement.without_stops()
    if judgement is not None and judgement.is_blocking:
        return result, judgement
    tables = quarantine_rows(pending.versions, held, result.tables, judgement, staging)
    details = {} if judgement is None else judgement.details()
    return replace(result, tables=tables, details=details), judgement


def guard_first_version(
    pending: PendingChange, result: DerivedVersion, staging: Staging
) -> tuple[DerivedVersion, Judgement | None]:
    """The same for what is just being made: `RuleViolation` if it does not hold from the start."""
    judgement = judge_change(pending)
    if judgement is None:
        return result, None
    if judgement.is_blocking:
        raise RuleViolation(
            f"rule 7: {pending.sync.name!r} would break its conditions from the start: "
            f"{judgement.reason}"
        )
    tables = quarantine_rows(pending.versions, {}, result.tables, judgement, staging)
    return replace(result, tables=tables, details=judgement.details()), judgement


def stop_refresh(
    graph: Graph,
    sync: SyncRow,
    target: BranchRow,
    judgement: Judgement,
    by: str,
    began: int,
    spent: int,
) -> bool:
    """Hold or detach a sync whose change is stopped; False if somebody else was first."""
    act = judgement.stop_action(by)
    with graph.catalog.write() as connection:
        if not _is_as_seen(graph, connection, sync, target):
            return False
        act(connection)
        details = {"stopped": judgement.action, "reason": judgement.reason}
        graph.catalog.runs.add(connection, sync.id, None, began, spent, "stopped", details)
    return True


def _is_as_seen(graph: Graph, connection: Connection, sync: SyncRow, target: BranchRow) -> bool:
    if not graph.branches.is_at(connection, target):
        return False
    return not sync.is_active or graph.catalog.syncs.state(connection, sync.id) == ACTIVE
