"""Sync groups: branches that move together, and where each was when one of them was somewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, DETACHED, ERROR, HELD, SyncRow
from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot_time import MOST_RAISED_MICROSECONDS

__all__ = ["movement_at", "paired_snapshot", "paired_snapshots", "reached_syncs"]

_FAR = 10_000


def reached_syncs(
    syncs: Sequence[SyncRow], branch: BranchId
) -> Iterator[tuple[SyncRow, BranchId, BranchId]]:
    """The two-way syncs a change of the branch goes along: from which branch, to which."""
    seen, waiting = {branch}, [branch]
    while waiting:
        here = waiting.pop(0)
        for sync in syncs:
            if sync.kind != "schema_change" or sync.direction != "both":
                continue
            for end in sync.far_ends(here):
                if end not in seen:
                    seen.add(end)
                    waiting.append(end)
                    yield sync, here, end


def paired_snapshots(
    graph: Graph, branch: BranchRow, to: SnapshotRow
) -> list[tuple[BranchRow, SnapshotRow]]:
    """The other branches of a group, and where they stood when this one came to a snapshot.

    `RuleViolation` if the group was not one yet, or not in step then.
    """
    found: list[tuple[BranchRow, SnapshotRow]] = []
    at = {branch.id: (branch, to)}
    for sync, here, other in reached_syncs(graph.syncs(branch.epoch), branch.id):
        if sync.behind is not None:
            raise RuleViolation(
                f"{branch.name!r} is in the sync {sync.name!r}, which waits for the key of a mask: "
                "db.propagate() where the key is known carries what waits; or detach the sync first"
            )
        mine, snapshot = at[here]
        row = graph.branches.by_id(other)
        assert row is not None
        there = paired_snapshot(graph, sync, mine, snapshot, row)
        if there is None:
            raise RuleViolation(
                f"{branch.name!r} is in the sync {sync.name!r}, whose other side has no snapshot "
                f"that belongs to {snapshot.address.hex()[:12]}; detach the sync first"
            )
        at[other] = row, there
        found.append(at[other])
    return found


def paired_snapshot(
    graph: Graph, sync: SyncRow, branch: BranchRow, to: SnapshotRow, other: BranchRow
) -> SnapshotRow | None:
    """Where another branch stood when one that a sync joins with it came to a snapshot.

    None if they were not in step yet, or if a clock was set back, so that nobody knows.
    """
    since = _arrival_time(graph, branch, to, sync, other)
    there = None if since is None else movement_at(graph, other, since)
    return None if there is None else graph.snapshots.at(there.snapshot)


def movement_at(graph: Graph, branch: BranchRow, time: int) -> Movement | None:
    """Where a branch stood when another one of its group moved, at a time by the log of that one.

    None if it was not there, or if the clock was set back over that time, so that nobody knows.
    """
    along = graph.movements.exactly_at(branch, time)
    if along is not None:
        return along
    if graph.movements.ran_back_over(branch, time, MOST_RAISED_MICROSECONDS):
        return None
    return graph.movements.at(branch, time)


def _arrival_time(
    graph: Graph, branch: BranchRow, to: SnapshotRow, sync: SyncRow, other: BranchRow
) -> int | None:
    """When a branch came to a snapshot, or the sync to the branch there; None if it never did.

    Where the clock was set back over the beginning of the sync, it is known only of movements
    that the other branch made along.
    """
    move = graph.movements.last_to(branch, to.sequence)
    if move is None:
        return None
    if move.operation != "reattach" and not _was_active(graph, sync, move.time):
        return None
    if graph.movements.ran_back_over(branch, sync.time, MOST_RAISED_MICROSECONDS):
        is_along = graph.movements.exactly_at(other, move.time) is not None
        return move.time if is_along else None
    if move.time >= sync.time:
        return move.time
    first = graph.movements.at(branch, sync.time)
    return sync.time if first is not None and first.position == move.position else None


def _was_active(graph: Graph, sync: SyncRow, time: int) -> bool:
    """Whether a sync carried changes at a time."""
    states = (HELD, DETACHED, ERROR, ACTIVE)
    for step in graph.catalog.trail.of(sync.id, _FAR):
        if step.time <= time and step.state in states:
            return step.state == ACTIVE
    return True
