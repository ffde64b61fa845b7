"""Operations on branches: clone, reset, merge, revert, cherry-pick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.errors import InvalidData, RuleViolation
from livingdb.graph.ancestry import common_ancestors, is_ancestor
from livingdb.graph.diff import count_changes
from livingdb.graph.draft import HeadMove, Intent
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.merge import (
    MergeBase,
    MergedTables,
    merge_base,
    merge_error,
    merge_tables,
)
from livingdb.graph.merge_policy import Policies, check_policy
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_writable, is_synced
from livingdb.graph.storage.staging import Staging
from livingdb.graph.sync_groups import paired_snapshots
from livingdb.tables.index import Version

__all__ = ["MergeOptions", "Preview", "cherry_pick", "clone", "merge", "preview", "reset", "revert"]


@dataclass(frozen=True)
class MergeOptions:
    """How to merge."""

    on_conflict: Any = "fail"
    granularity: str = "row"
    symmetric: bool = False
    fast_forward: bool = True

    def __post_init__(self) -> None:
        check_policy(self.on_conflict, self.granularity)


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


def merge(
    pipeline: Pipeline,
    source: str,
    into: str,
    options: MergeOptions,
    author: str,
    message: str,
) -> SnapshotRow:
    """Put what the source changed on a branch; where the branch then stands."""
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        branch = graph.branch(into)
        syncs = graph.syncs(branch.epoch)
        check_writable(syncs, branch)
        ours = graph.snapshots.at(branch.head)
        resolved = graph.resolve(source)
        theirs = resolved.snapshot
        if options.symmetric and resolved.branch is None:
            raise RuleViolation(
                f"rule 1: a symmetric merge moves both heads, and {source!r} is no branch"
            )
        other = resolved.branch if options.symmetric else None
        if other is not None:
            check_writable(syncs, other)
        is_free = not any(is_synced(syncs, moved) for moved in (branch, other) if moved is not None)
        if is_ancestor(graph.snapshots, theirs, ours):
            if other is None or other.head == branch.head:
                return ours
            if is_free:
                return Proposal(moves=[HeadMove(other, ours, "merge")])
        if options.fast_forward and is_free and is_ancestor(graph.snapshots, ours, theirs):
            return Proposal(moves=[HeadMove(branch, theirs, "merge")])
        moves = (branch,) if other is None else (branch, other)
        text = message or f"merge {source} into {into}"
        return _merge_heads(
            pipeline, moves, ours, theirs, (source, options), author, text, attempt.staging
        )

    return pipeline.run(into, propose)


def _merge_heads(
    pipeline: Pipeline,
    moves: tuple[BranchRow, ...],
    ours: SnapshotRow,
    theirs: SnapshotRow,
    how: tuple[str, MergeOptions],
    author: str,
    message: str,
    staging: Staging,
) -> Proposal:
    source, options = how
    base, tables, stages = _align_schemas(pipeline, ours, theirs, staging)
    merged = _merge_cleanly(pipeline.graph, base, ours, tables, options, staging)
    rows = {name: len(changes) for name, changes in merged.deltas.items()}
    intent = Intent(
        (ours, theirs),
        moves,
        "merge",
        "merge",
        author,
        message,
        merged.tables,
        {source: theirs.address.hex()},
        {"granularity": options.granularity, "rows": rows},
        intermediates=stages,
    )
    return Proposal([intent], deltas=merged.deltas, is_checked=True)


def _align_schemas(
    pipeline: Pipeline, ours: SnapshotRow, theirs: SnapshotRow, staging: Staging
) -> tuple[MergeBase, Mapping[str, Version], Sequence[Version]]:
    """What both come from, and theirs, in the schema of ours; and what was made for that."""
    graph, lifter = pipeline.graph, pipeline.lifter
    common = common_ancestors(graph.snapshots, ours, theirs)
    if not common:
        raise RuleViolation(
            "a merge needs a snapshot both sides come from, and there is none: what is derived or "
            "masked shares no history with what it is made of, and is not merged; insert its rows"
        )
    base = merge_base(graph, ours, theirs, staging)
    tables = tables_of(graph, theirs)
    steps = (
        lifter.schema_changes_between(common[0], ours),
        lifter.schema_changes_between(common[0], theirs),
    )
    if not any(steps):
        return base, tables, ()
    lifted = lifter.lift_tables(base.tables, tables, steps, staging)
    return replace(base, tables=lifted.base, lost=lifted.lost), lifted.theirs, lifted.intermediates


def _merge_cleanly(
    graph: Graph,
    base: MergeBase,
    ours: SnapshotRow,
    theirs: Mapping[str, Version],
    options: MergeOptions,
    staging: Staging,
) -> MergedTables:
    """The merged tables; `MergeConflict` if something stands in the way."""
    mine = tables_of(graph, ours)
    policies = _policies(graph, options, mine, theirs)
    merged = merge_tables(graph, base, mine, theirs, policies, staging)
    if not merged.is_clean:
        raise merge_error(graph, merged, {**theirs, **mine})
    return merged


def _policies(
    graph: Graph,
    options: MergeOptions,
    ours: Mapping[str, Version],
    theirs: Mapping[str, Version],
) -> Policies:
    tables = {**theirs, **ours}
    schemas = {name: graph.versions.definition(v).schema for name, v in tables.items()}
    return Policies.of(options.on_conflict, options.granularity, schemas)


@dataclass(frozen=True)
class Preview:
    """What a merge would do: the merged tables, all tables there are, rows changed by table."""

    merged: MergedTables
    tables: Mapping[str, Version]
    changes: Mapping[str, tuple[int, int, int]]
    fast_forward: bool


def preview(pipeline: Pipeline, source: str, into: str, options: MergeOptions) -> Preview:
    """Merge and write nothing."""
    graph = pipeline.graph
    ours = graph.resolve(into).snapshot
    theirs = graph.resolve(source).snapshot
    mine = tables_of(graph, ours)
    with graph.stage() as staging:
        base, yours, _ = _align_schemas(pipeline, ours, theirs, staging)
        policies = _policies(graph, options, mine, yours)
        merged = merge_tables(graph, base, mine, yours, policies, staging)
        changes = {
            name: count_changes(graph.versions, mine.get(name), version)
            for name, version in merged.tables.items()
        }
    forward = is_ancestor(graph.snapshots, ours, theirs)
    return Preview(merged, {**yours, **mine}, changes, forward)


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
        merged = _merge_cleanly(graph, base, ours, theirs, how_to, attempt.staging)
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
