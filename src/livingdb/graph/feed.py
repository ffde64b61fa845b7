"""Change feeds: what happened to a table of a branch, movement by movement.

A branch's log numbers its movements; each changes the table from what it was to what it is.  So
a merge appears as what it brought in, and a reset as the changes that undo what it left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow, Movement
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import NotFound
from livingdb.graph.compare import diff_versions
from livingdb.graph.graph import Graph
from livingdb.graph.history import is_ancestor
from livingdb.tables.index import Version
from livingdb.trees.diff import DiffBatch

__all__ = ["Step", "feed_steps", "position_of"]

BEFORE_THE_LOG = -1


@dataclass(frozen=True)
class Step:
    """One movement: from one version of a table to another, and the snapshot it led to."""

    position: int
    snapshot: SnapshotRow
    before: Version | None
    after: Version | None

    def batches(self, graph: Graph) -> Iterator[DiffBatch]:
        """The rows that differ."""
        if self.before is not None or self.after is not None:
            yield from diff_versions(graph.versions, self.before, self.after)


def position_of(graph: Graph, branch: BranchRow, snapshot: SnapshotRow) -> int:
    """The last movement of a branch to a snapshot; before all, if it is an ancestor of the first.

    `NotFound` if the branch never stood there.
    """
    moves = graph.branches.log(branch)
    for move in moves:
        if move.snapshot == snapshot.sequence:
            return move.position
    first = graph.snapshots.at(moves[-1].snapshot)
    if is_ancestor(graph.snapshots, snapshot, first):
        return BEFORE_THE_LOG
    raise NotFound(
        f"the branch {branch.name!r} was never at {snapshot.address.hex()[:12]}; a feed starts "
        "and ends at snapshots of its branch"
    )


def feed_steps(
    graph: Graph, branch: BranchRow, table: str, start: SnapshotRow, after: int, upto: int
) -> Iterator[Step]:
    """The movements after one and up to another, oldest first.

    `start` is where the branch was at `after`, or an ancestor of where it began.
    """
    moves = [move for move in graph.branches.log(branch) if after < move.position <= upto]
    before = start
    for move in reversed(moves):
        row = graph.snapshots.at(move.snapshot)
        yield _step(graph, move, table, before, row)
        before = row


def _step(
    graph: Graph, move: Movement, table: str, before: SnapshotRow, after: SnapshotRow
) -> Step:
    old, new = graph.find_version(before, table), graph.find_version(after, table)
    return Step(move.position, after, old, new)
