"""Change feeds: what happened to a table of a branch, movement by movement.

A branch's log numbers its movements; each changes the table from what it was to what it is.  So
a merge appears as what it brought in, and a reset as the changes that undo what it left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import NotFound
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.diff import diff_versions
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version
from livingdb.trees.diff import DiffBatch

__all__ = ["FeedEntry", "feed_entries", "position_of"]

BEFORE_THE_LOG = -1


@dataclass(frozen=True)
class FeedEntry:
    """One movement: from one version of a table to another, and the snapshots of both."""

    position: int
    previous: SnapshotRow
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
    move = graph.movements.last_to(branch, snapshot.sequence)
    if move is not None:
        return move.position
    (began,) = graph.movements.of(branch, upto=0)
    first = graph.snapshots.at(began.snapshot)
    if is_ancestor(graph.snapshots, snapshot, first):
        return BEFORE_THE_LOG
    raise NotFound(
        f"the branch {branch.name!r} was never at {snapshot.address.hex()[:12]}; a feed starts "
        "and ends at snapshots of its branch"
    )


def feed_entries(
    graph: Graph, branch: BranchRow, table: str, start: SnapshotRow, after: int, upto: int
) -> Iterator[FeedEntry]:
    """The movements after one and up to another, oldest first.

    `start` is where the branch was at `after`, or an ancestor of where it began.
    """
    before = start
    for move in reversed(graph.movements.of(branch, after, upto)):
        row = graph.snapshots.at(move.snapshot)
        old, new = graph.find_version(before, table), graph.find_version(row, table)
        yield FeedEntry(move.position, before, row, old, new)
        before = row
