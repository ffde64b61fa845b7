"""Sync groups: branches that move together, and where each was when one of them was somewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph

__all__ = ["paired_snapshots", "reached_syncs", "schema_syncs"]


def schema_syncs(graph: Graph, branch: BranchRow, of_branch: bool = False) -> list[SyncRow]:
    """The syncs of schema changes, as of when the branch was seen; `of_branch`: those it is in."""
    return [
        sync
        for sync in graph.syncs(branch.epoch).schema_syncs
        if not of_branch or branch.id in (*sync.sources, sync.target)
    ]


def reached_syncs(
    syncs: Sequence[SyncRow], branch: BranchId
) -> Iterator[tuple[SyncRow, BranchId, BranchId]]:
    """The immediate syncs a change of the branch goes along: from which branch, to which."""
    seen, waiting = {branch}, [branch]
    while waiting:
        here = waiting.pop(0)
        for sync in syncs:
            if sync.kind != "schema_change" or sync.frequency != "immediate":
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

    `RuleViolation` if the group was not one yet.
    """
    found: list[tuple[BranchRow, SnapshotRow]] = []
    at = {branch.id: (branch, to)}
    for sync, here, other in reached_syncs(graph.syncs(branch.epoch), branch.id):
        mine, snapshot = at[here]
        row = graph.branches.by_id(other)
        assert row is not None
        since = _arrival_time(graph, mine, snapshot, sync)
        there = None if since is None else graph.branches.log_at(row, since)
        if there is None:
            raise RuleViolation(
                f"{branch.name!r} is in the sync {sync.name!r}, whose other side has no snapshot "
                f"that belongs to {snapshot.address.hex()[:12]}; detach the sync first"
            )
        at[other] = row, graph.snapshots.at(there.snapshot)
        found.append(at[other])
    return found


def _arrival_time(graph: Graph, branch: BranchRow, to: SnapshotRow, sync: SyncRow) -> int | None:
    """When a branch came to a snapshot, or the sync to the branch there; None if it never did."""
    move = graph.branches.last_move_to(branch, to.sequence)
    if move is None or move.time >= sync.time:
        return None if move is None else move.time
    first = graph.branches.log_at(branch, sync.time)
    return sync.time if first is not None and first.position == move.position else None
