"""Operations on branches: clone, reset, revert, cherry-pick."""

from __future__ import annotations

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.merge import MergeOptions, merge_cleanly
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.errors import InvalidData, RuleViolation
from livingdb.graph.draft import HeadMove, Intent
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.merge import MergeBase
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_writable
from livingdb.graph.sync_groups import paired_snapshots

__all__ = ["cherry_pick", "clone", "reset", "revert"]


def clone(
    graph: Graph, name: str, at: SnapshotRow, origin: str, author: str, message: str = ""
) -> None:
    """A new branch that stands on a snapshot; who made it and why is in its log."""
    check_branch(name)
    with graph.catalog.write() as connection:
        graph.branches.add(
            connection, name, at.sequence, now(), origin, author=author, message=message
        )


def reset(pipeline: Pipeline, name: str, to: SnapshotRow) -> None:
    """Move a branch to any snapshot."""
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        moves = [(branch, to), *paired_snapshots(graph, branch, to)]
        return Proposal(moves=[HeadMove(moved, there, "reset") for moved, there in moves])

    pipeline.run(name, propose)


def revert(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    author: str,
    message: str,
    options: MergeOptions | None = None,
) -> SnapshotRow:
    """A snapshot that undoes what another one changed, on a branch."""
    if which.first is None:
        raise InvalidData("the first snapshot of a database cannot be reverted")
    if which.kind == "schema_change":
        raise RuleViolation("a schema change is not reverted: evolve the schema back instead")
    parent = pipeline.graph.snapshots.at(which.first)
    text = message or f"revert {which.message or which.address.hex()[:12]}"
    return _replay(pipeline, name, (which, parent), ("revert", which), author, text, options)


def cherry_pick(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    author: str,
    message: str,
    options: MergeOptions | None = None,
) -> SnapshotRow:
    """A snapshot with what another one changed, on a branch."""
    if which.first is None:
        raise InvalidData("the first snapshot of a database changes nothing to pick")
    if which.kind == "schema_change":
        raise RuleViolation("a schema change is not picked: evolve the branch instead")
    parent = pipeline.graph.snapshots.at(which.first)
    text = message or which.message
    return _replay(pipeline, name, (parent, which), ("cherry_pick", which), author, text, options)


def _replay(
    pipeline: Pipeline,
    name: str,
    step: tuple[SnapshotRow, SnapshotRow],
    how: tuple[str, SnapshotRow],
    author: str,
    message: str,
    options: MergeOptions | None,
) -> SnapshotRow:
    """Put the difference of two snapshots on a branch."""
    graph, (before, after), (operation, which) = pipeline.graph, step, how

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        ours = graph.snapshots.at(branch.head)
        base = MergeBase(tables_of(graph, before))
        theirs = tables_of(graph, after)
        how_to = options or MergeOptions()
        mine = tables_of(graph, ours)
        merged = merge_cleanly(graph, base, mine, theirs, how_to, attempt.staging)
        if not merged.tables:
            return ours
        intent = Intent(
            (ours,),
            (branch,),
            "transaction",
            operation,
            author,
            message,
            merged.tables,
            {"snapshot": which.address.hex()},
        )
        return Proposal([intent], deltas=merged.deltas, is_checked=True)

    return pipeline.run(name, propose)
