"""Merges branches: schemas first, then rows of one schema; and what a merge would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.check_proposal import check_made_tables
from livingdb.commit.evolving.keep_schema import SchemaKept, keeps_schema, rehearse
from livingdb.commit.merging.align_schemas import AlignedSides
from livingdb.commit.merging.merge_sides import merge_sides
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.errors import InvalidData, MergeConflict, RuleViolation
from livingdb.evolution.merge_schemas import SchemaConflict
from livingdb.evolution.policy_names import policies_after
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.diff import count_changes
from livingdb.graph.draft import HeadMove, Intent
from livingdb.graph.graph import Graph
from livingdb.graph.merge import MergedTables, merge_error, merge_tables
from livingdb.graph.merge_policy import Policies, check_policy
from livingdb.graph.rules import check_writable, is_synced
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = [
    "MergeOptions",
    "Preview",
    "RequestedMerge",
    "conflict_tables",
    "merge",
    "merge_cleanly",
    "preview",
    "schema_error",
]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class MergeOptions:
    """How to merge."""

    on_conflict: Any = "fail"
    granularity: str = "row"
    symmetric: bool = False
    fast_forward: bool = True

    def __post_init__(self) -> None:
        check_policy(self.on_conflict, self.granularity)


class RequestedMerge(Protocol):
    """What a merge request has to say in a merge."""

    def check(self, target: BranchRow, theirs: SnapshotRow) -> None:
        """`RuleViolation` unless what is merged is what was asked for, and may be."""
        ...

    def added_to(self, proposal: Proposal) -> Proposal:
        """The proposal of the merge, with what becomes of the request."""
        ...


def merge(
    pipeline: Pipeline,
    source: str,
    into: str,
    options: MergeOptions,
    author: str,
    message: str,
    request: RequestedMerge | None = None,
) -> SnapshotRow:
    """Put what the source changed on a branch; where the branch then stands.

    With a `request` it goes through only as that says, and always as a merge of its own.  A branch
    in two-way syncs first gets the schema changes alone: its present schema is kept as a
    hidden branch, between it and those that it is in step with.
    """
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
        if request is not None:
            request.check(branch, theirs)
        if is_ancestor(graph.snapshots, theirs, ours):
            if other is None or other.head == branch.head:
                return ours
            if is_free:
                return Proposal(moves=[HeadMove(other, ours, "merge")])
        if options.fast_forward and is_free and is_ancestor(graph.snapshots, ours, theirs):
            return Proposal(moves=[HeadMove(branch, theirs, "merge")])
        moves = (branch,) if other is None else (branch, other)
        proposal = _merge_heads(
            pipeline, moves, ours, theirs, (source, options), author, text, attempt.staging
        )
        return proposal if request is None else request.added_to(proposal)

    text = message or f"merge {source} into {into}"
    try:
        return pipeline.run(into, propose)
    except SchemaKept as kept:
        kept.evolve(pipeline, into, author, text)
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
    graph = pipeline.graph
    sides = merge_sides(graph, pipeline.lifter, ours, theirs, options.on_conflict, staging)
    if sides.conflicts:
        raise schema_error(sides.conflicts)
    merged = merge_cleanly(graph, sides, options, staging)
    rows = {name: len(changes) for name, changes in merged.deltas.items()}
    is_evolved = bool(sides.changes or sides.evolved)
    intent = Intent(
        (theirs,) if is_evolved else (ours, theirs),
        moves,
        "merge",
        "merge",
        author,
        message,
        merged.tables,
        {source: theirs.address.hex()},
        {"granularity": options.granularity, "rows": rows},
        intermediates=() if is_evolved else sides.intermediates,
        on_previous=is_evolved,
    )
    intents = [intent]
    if is_evolved:
        intents.insert(0, _schema_intent(ours, source, theirs, sides, author, message))
    proposal = Proposal(intents, deltas=merged.deltas, is_checked=True, rebuilt=sides.rebuilt)
    if sides.changes and len(moves) == 1 and keeps_schema(graph, moves[0]):
        if sides.taken_back:
            raise RuleViolation(
                f"rule 4: {moves[0].name!r} is in a two-way sync, which stays with its present "
                "schema, and this merge would take back changes of that: detach the sync first"
            )
        pipeline.check(proposal, staging)
        rehearse(pipeline, moves[0], sides.changes, sides.ours, merged.tables, staging)
        raise SchemaKept(sides.changes)
    return proposal


def _schema_intent(
    ours: SnapshotRow,
    source: str,
    theirs: SnapshotRow,
    sides: AlignedSides,
    author: str,
    message: str,
) -> Intent:
    """The snapshot of ours in the schema of both, before the rows of theirs come."""
    details: dict[str, Any] = {"changes": [change.to_json() for change in sides.changes]}
    if sides.taken_back:
        details["taken_back"] = sorted(sides.taken_back)
    return Intent(
        (ours,),
        (),
        "schema_change",
        "merge",
        author,
        message,
        sides.evolved,
        {source: theirs.address.hex()},
        details,
        intermediates=tuple(sides.intermediates),
    )


def schema_error(
    conflicts: Sequence[SchemaConflict],
    said: str = "the schema changes of the two sides contradict each other",
    hint: str = "choose on_conflict, or look at .conflicts",
) -> MergeConflict:
    """The error that says where the schemas of the sides contradict each other."""
    what = "; ".join(f"{one.element}: {one.reason}" for one in conflicts)
    error = MergeConflict(f"{said} ({what}); {hint}")
    error.conflicts = conflict_tables(conflicts)
    error.schema_conflicts = {one.table: one.reason for one in conflicts}
    return error


def conflict_tables(conflicts: Sequence[SchemaConflict]) -> dict[str, pa.Table]:
    """For each table what the sides contradict each other about, a row each."""
    found: dict[str, pa.Table] = {}
    for table in sorted({one.table for one in conflicts}):
        some = [one for one in conflicts if one.table == table]
        changes = [
            [[change.change.title for change in side] for side in (one.ours, one.theirs)]
            for one in some
        ]
        found[table] = pa.table(
            {
                "kind": pa.array(["schema"] * len(some)),
                "column": pa.array([one.column for one in some], pa.string()),
                "ours": pa.array([mine for mine, _ in changes], pa.list_(pa.string())),
                "theirs": pa.array([yours for _, yours in changes], pa.list_(pa.string())),
                "reason": pa.array([one.reason for one in some]),
            }
        )
    return found


def merge_cleanly(
    graph: Graph, sides: AlignedSides, options: MergeOptions, staging: Staging
) -> MergedTables:
    """The merged tables; `MergeConflict` if something stands in the way."""
    merged = _merge_rows(graph, sides, options, staging)
    if not merged.is_clean:
        raise merge_error(graph, merged, {**sides.theirs, **sides.ours})
    return merged


def _merge_rows(
    graph: Graph, sides: AlignedSides, options: MergeOptions, staging: Staging
) -> MergedTables:
    """Rows of one schema merged, and what stands in the way."""
    tables = {**sides.theirs, **sides.ours}
    after = {name: graph.versions.definition(v) for name, v in tables.items()}
    policy = policies_after(options.on_conflict, sides.before, after)
    schemas = {name: definition.schema for name, definition in after.items()}
    policies = Policies.of(policy, options.granularity, schemas)
    return merge_tables(graph, sides.base, sides.ours, sides.theirs, policies, staging)


@dataclass(frozen=True)
class Preview:
    """What a merge would do: the merged tables, all tables there are, rows changed by table.

    `schema_changes` are those that ours would get, and `schema_conflicts` what contradicts.
    `refusal` says which constraint the merged rows would break.
    """

    merged: MergedTables
    tables: Tables
    changes: Mapping[str, tuple[int, int, int]]
    fast_forward: bool
    schema_changes: Sequence[SchemaChange] = ()
    schema_conflicts: Sequence[SchemaConflict] = ()
    refusal: str = ""


def preview(pipeline: Pipeline, source: str, into: str, options: MergeOptions) -> Preview:
    """Merge and write nothing."""
    graph = pipeline.graph
    ours = graph.resolve(into).snapshot
    theirs = graph.resolve(source).snapshot
    forward = is_ancestor(graph.snapshots, ours, theirs)
    with graph.stage() as staging:
        sides = merge_sides(graph, pipeline.lifter, ours, theirs, options.on_conflict, staging)
        tables = {**sides.theirs, **sides.ours}
        if sides.conflicts:
            return Preview(MergedTables(), tables, {}, forward, (), sides.conflicts)
        merged = _merge_rows(graph, sides, options, staging)
        changes = {
            name: count_changes(graph.versions, sides.ours.get(name), version)
            for name, version in merged.tables.items()
        }
        is_checked = merged.is_clean and not forward
        refusal = _refusal(graph, sides, merged) if is_checked else ""
    return Preview(merged, tables, changes, forward, sides.changes, refusal=refusal)


def _refusal(graph: Graph, sides: AlignedSides, merged: MergedTables) -> str:
    """Why merged rows would be refused, though neither side is in the way of the other."""
    try:
        check_made_tables(graph, sides.ours, merged.tables, merged.deltas, sides.rebuilt)
    except InvalidData as error:
        return str(error)
    return ""
