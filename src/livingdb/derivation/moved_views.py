"""Where a view that was moved to the branch that keeps its schema is, seen from where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.view import KIND
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.graph import Graph
from livingdb.graph.sync_groups import movement_at

__all__ = ["Moved", "follow_moves", "is_before_move", "moves_of"]

Moved = Mapping[BranchId, Sequence[str]]
"""For a branch that a view has read: the one it reads instead, and the last snapshot it read."""


def moves_of(syncs: Sequence[SyncRow], sync: SyncRow) -> Moved:
    """The moves of a view, and of those that it reads."""
    found = dict(sync.spec.get("moved", {}))
    for other in syncs:
        if other.kind == KIND and other.target in sync.sources and other.id != sync.id:
            found |= moves_of(syncs, other)
    return found


def follow_moves(
    graph: Graph, moved: Moved, branch: BranchRow, at: SnapshotRow
) -> dict[BranchId, SnapshotRow | None]:
    """Where a branch was at a snapshot, and those that views read instead of it since.

    They are in the order in which they were read; None: it was dropped.
    """
    found: dict[BranchId, SnapshotRow | None] = {branch.id: at}
    while branch.id in moved and not is_before_move(graph, moved, branch.id, at):
        number = moved[branch.id][0]
        kept = graph.branches.by_id(number)
        if kept is None:
            found[number] = None
            break
        at, branch = _snapshot_beside(graph, branch, at, kept), kept
        found[number] = at
    return found


def is_before_move(graph: Graph, moved: Moved, branch: BranchId, at: SnapshotRow) -> bool:
    """Whether a snapshot is one of those that a view read on a branch."""
    last = graph.snapshots.find(Address(bytes.fromhex(moved[branch][1])))
    return last is not None and is_ancestor(graph.snapshots, at, last)


def _snapshot_beside(
    graph: Graph, branch: BranchRow, at: SnapshotRow, kept: BranchRow
) -> SnapshotRow:
    """Where a branch was when another one, which it is in step with, was at a snapshot."""
    if at.sequence != branch.head:
        move = graph.movements.last_to(branch, at.sequence)
        there = movement_at(graph, kept, at.time if move is None else move.time)
        if there is not None:
            return graph.snapshots.at(there.snapshot)
    return graph.snapshots.at(kept.head)
