"""What happens when a sync cannot carry a change: it stops, and an alert says what and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import raise_alert
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import ACTIVE, DETACHED, ERROR, SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.named_functions import FunctionFailed
from livingdb.errors import (
    Conflict,
    InvalidData,
    LimitExceeded,
    LivingDBError,
    Locked,
    StorageFailure,
)
from livingdb.evolution.changes.mask_column import MaskedKeysMeet
from livingdb.evolution.masked_history import UNFIT, has_mask
from livingdb.graph.graph import Graph
from livingdb.guard.sync_state import NOBODY, set_state, stop_sync_action, sync_chain

__all__ = ["NOBODY", "TRANSIENT_ERRORS", "detach_action", "reason_of_rows", "record_failure"]

TRANSIENT_ERRORS = (Conflict, LimitExceeded, Locked, StorageFailure)
"""What goes by: it says nothing about the sync, and the same may work when it is tried again."""
_PATIENCE = 3


def reason_of_rows(graph: Graph, sync: SyncRow, error: LivingDBError) -> str:
    """Why rows cannot be carried along a sync: without their values, if a mask is ahead of them."""
    if isinstance(error, InvalidData) and not isinstance(error, MaskedKeysMeet):
        chain = sync_chain(graph, sync)
        ahead = chain[[row.id for row in chain].index(sync.id) :]
        if any(has_mask(row.spec) for row in ahead):
            return UNFIT
    return str(error)


def detach_action(
    graph: Graph,
    sync: SyncRow,
    reason: str,
    time: int,
    details: Mapping[str, Any] | None = None,
    pair: Mapping[BranchId, Address] | None = None,
) -> Callable[[Connection], None]:
    """What a transaction does to detach a sync; its target stays as it is.

    Of a schema sync, `pair` are the last snapshots of its branches that belong together.
    """
    return stop_sync_action(graph, sync, DETACHED, reason, NOBODY, time, "error", details, pair)


def record_failure(
    graph: Graph, sync: SyncRow, error: LivingDBError, began: int, spent: int
) -> None:
    """Write down that a run failed.

    A change that the sync cannot carry detaches it; a function that fails is tried again, and the
    sync is in error when it failed several times in a row.
    """
    earlier = graph.catalog.runs.of(sync.id, _PATIENCE - 1)
    is_lasting = not isinstance(error, FunctionFailed)
    in_a_row = len(earlier) == _PATIENCE - 1 and all(run.outcome == "failed" for run in earlier)
    with graph.catalog.write() as connection:
        graph.catalog.runs.add(
            connection, sync.id, None, began, spent, "failed", {"error": str(error)}
        )
        if is_lasting:
            detach_action(graph, sync, str(error), began)(connection)
            return
        state = ERROR if in_a_row else ACTIVE
        event = "error" if in_a_row else "failed"
        raise_alert(graph, connection, sync, event, "error", str(error), began)
        if in_a_row:
            set_state(graph, connection, [sync], state, str(error), NOBODY, began)
