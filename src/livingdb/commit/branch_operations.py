"""Operations on branches that make no snapshot: clone and reset."""

from __future__ import annotations

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.graph.catalog_changes import NewBranch
from livingdb.graph.draft import HeadMove
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_writable
from livingdb.graph.sync_groups import paired_snapshots

__all__ = ["clone", "reset"]


def clone(
    pipeline: Pipeline, name: str, at: SnapshotRow, origin: str, author: str, message: str = ""
) -> None:
    """A new branch that stands on a snapshot; who made it and why is in its log."""
    check_branch(name)
    branch = NewBranch(name, at, origin, "clone", author=author, message=message)
    pipeline.run(name, lambda attempt: Proposal(changes=[branch], at=at))


def reset(pipeline: Pipeline, name: str, to: SnapshotRow) -> None:
    """Move a branch to any snapshot."""
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        moves = [(branch, to), *paired_snapshots(graph, branch, to)]
        return Proposal(moves=[HeadMove(moved, there, "reset") for moved, there in moves])

    pipeline.run(name, propose)
