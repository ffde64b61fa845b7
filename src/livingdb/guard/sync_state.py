"""State transitions of syncs and their trail; the last pair of snapshots in step of a stopped sync.

A step is written down with whatever else happens in its transaction.  Where a schema sync stops,
its step names the last snapshots of both branches that belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import printable, raise_alert
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import ACTIVE, DETACHED, ERROR, HELD, SyncRow
from livingdb.chunks.address import Address
from livingdb.errors import TransactionConflict
from livingdb.graph.edge_ends import AT, FROM
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden

__all__ = [
    "APPROVED",
    "AT",
    "NOBODY",
    "PAIR",
    "approvers",
    "last_pair",
    "set_state",
    "snapshots_in_step",
    "stop_sync_action",
    "stopped_since",
    "sync_chain",
]

APPROVED = "approved"
"""A step that is no state: somebody lets a change that is held pass."""
PAIR = "pair"
NOBODY = "livingdb"
"""Who does what nobody asked for."""
_FAR = 100


def sync_chain(graph: Graph, sync: SyncRow) -> list[SyncRow]:
    """The rows of one sync, from its source to its target: several where changes compose."""
    known = graph.sync_chains()
    if not any(is_hidden(known.names.get(end, "")) for end in (*sync.sources, sync.target)):
        return [sync]
    return next(list(chain) for chain in known.every if any(row.id == sync.id for row in chain))


def set_state(
    graph: Graph,
    connection: Connection,
    stages: Iterable[SyncRow],
    state: str,
    reason: str,
    by: str,
    time: int,
    details: Mapping[str, Any] | None = None,
    why: str = "",
) -> None:
    """Let a sync be in a state from now on, and write down why; `why`: in the trail alone."""
    reason, told = printable(reason), printable(why or reason)
    for row in stages:
        graph.catalog.syncs.set_state(connection, row.id, state, reason)
        graph.catalog.trail.add(connection, row.id, time, state, by, told, details or {})
        if row.behind is not None:
            graph.catalog.syncs.set_spec(connection, row.id, row.spec_in_step)
    graph.catalog.raise_epoch(connection)


def stop_sync_action(
    graph: Graph,
    sync: SyncRow,
    state: str,
    reason: str,
    by: str,
    time: int,
    severity: str = "error",
    details: Mapping[str, Any] | None = None,
    pair: Mapping[BranchId, Address] | None = None,
) -> Callable[[Connection], None]:
    """What a transaction does to hold or detach a sync; its target stays as it is."""
    stages = sync_chain(graph, sync)
    steps = dict(details or {})
    if pair is not None:
        steps[PAIR] = {branch: address.hex() for branch, address in pair.items()}

    def act(connection: Connection) -> None:
        set_state(graph, connection, stages, state, reason, by, time, steps)
        event = {HELD: "held", DETACHED: "detached"}.get(state, state)
        raise_alert(graph, connection, sync, event, severity, reason, time, details)

    return act


def last_pair(graph: Graph, sync: SyncRow) -> dict[BranchId, Address]:
    """The snapshots of both branches that belonged together when the sync stopped."""
    former = graph.catalog.former_names
    for step in graph.catalog.trail.of(sync.id):
        if PAIR in step.details:
            return {
                former.branch(branch): Address(bytes.fromhex(text))
                for branch, text in step.details[PAIR].items()
            }
    raise TransactionConflict(f"it is not known since when the sync {sync.name!r} is stopped")


def stopped_since(graph: Graph, sync: SyncRow) -> int | None:
    """When a sync that is not active was stopped; None if that is not known."""
    found: int | None = None
    for step in graph.catalog.trail.of(sync.id):
        if step.state == ACTIVE:
            break
        if step.state in (HELD, DETACHED, ERROR):
            found = step.time
    return found


def snapshots_in_step(
    graph: Graph, chain: Sequence[SyncRow], heads: Mapping[BranchId, Address]
) -> dict[BranchId, Address]:
    """The last snapshots of the branches of a schema sync that belong together.

    They are the heads, unless it waits for the key of a mask.
    """
    found = dict(heads)
    at: Address | None = None
    for sync in reversed(chain):
        if at is not None:  # what the next one in the chain has seen was made of this
            edge = graph.record(at).edge
            text = edge.details.get(FROM, {}).get(sync.sources[0])
            at = graph.record(at).parents[0] if text is None else Address(bytes.fromhex(text))
        at = sync.behind or at
        if at is not None:
            found[sync.sources[0]] = at
    return found


def approvers(graph: Graph, sync: SyncRow, at: Mapping[BranchId, Address]) -> list[str]:
    """Who has let pass what comes from these snapshots, since the sync was last active."""
    former = graph.catalog.former_names
    wanted = {branch: address.hex() for branch, address in at.items()}
    found: list[str] = []
    for step in graph.catalog.trail.of(sync.id, _FAR):
        if step.state == ACTIVE:
            break
        given = {former.branch(branch): text for branch, text in step.details.get(AT, {}).items()}
        if step.state == APPROVED and given == wanted and step.author not in found:
            found.append(step.author)
    return found
