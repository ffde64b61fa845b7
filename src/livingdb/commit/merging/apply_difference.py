"""Applies a difference of two snapshots to a branch: its schema changes, then its rows, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.evolving.keep_schema import SchemaKept, keeps_schema, rehearse
from livingdb.commit.merging.align_schemas import AlignedSides
from livingdb.commit.merging.merge import MergeOptions, merge_cleanly, schema_error
from livingdb.commit.merging.replay import Kinship, check_masks, columns_known, in_schema_of
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.evolution.masked_history import masks_made
from livingdb.evolution.merge_schemas import SchemaMerge, patch_schema, replay_changes
from livingdb.evolution.plan import changed_tables
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import fork_of, schema_history, visible_schemas
from livingdb.evolution.schema_path import inverse_id
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.merge import MergeBase
from livingdb.graph.rules import check_writable
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["Difference", "apply_difference"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class Difference:
    """The schema changes from one snapshot to another, and the tables whose rows differ.

    Those are in the schema of the second; None: a table is not there.
    """

    start: SnapshotRow
    end: SnapshotRow
    made: Sequence[MadeChange]
    tables: Mapping[str, tuple[Version | None, Version | None]]


def apply_difference(
    pipeline: Pipeline, name: str, difference: Difference, author: str, message: str
) -> SnapshotRow:
    """Make what differs on a branch; a schema change that the branch has, by its id, is none.

    `MergeConflict` names a change that contradicts what the branch is; rows are as they are in the
    second snapshot, whatever the branch had.  A branch in a two-way sync first gets the schema
    changes alone, as in a merge.
    """
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        ours = graph.snapshots.at(branch.head)
        done = _schema_on(pipeline, difference, ours)
        if done.conflicts:
            raise schema_error(done.conflicts, "merge it, and say whose change counts")
        mine = tables_of(graph, ours)
        after, versions = pipeline.lifter.tables_after(mine, done.onto_ours, attempt.staging)
        sides = _sides(graph, difference, after, attempt.staging)
        new = {change.identity for change in done.onto_ours}
        brought = masks_made(one for one in difference.made if one.identity in new)
        check_masks(pipeline, ours, difference.end, *sides, brought)
        kin = Kinship(lambda: done.aliases, lambda: columns_known(pipeline, difference.end, ours))
        base, theirs = in_schema_of(graph, after, *sides, kin, attempt.staging)
        options = MergeOptions(on_conflict="theirs")
        aligned = AlignedSides(MergeBase(base), after, theirs)
        merged = merge_cleanly(graph, aligned, options, attempt.staging)
        sources = {"difference": difference.end.address.hex()}
        intents = []
        if done.onto_ours:
            details = {"changes": [change.to_json() for change in done.onto_ours]}
            moves = () if merged.tables else (branch,)
            intents.append(
                Intent(
                    (ours,), moves, "schema_change", "apply", author, message,
                    changed_tables(mine, after), sources, details, intermediates=versions,
                )
            )  # fmt: skip
        if merged.tables:
            is_second = bool(intents)
            parents = () if is_second else (ours,)
            intents.append(
                Intent(
                    parents, (branch,), "transaction", "apply", author, message,
                    merged.tables, sources, on_previous=is_second,
                )
            )  # fmt: skip
        if not intents:
            return ours
        proposal = Proposal(intents, deltas=merged.deltas, is_checked=bool(merged.tables))
        if done.onto_ours and keeps_schema(graph, branch):
            pipeline.check(proposal, attempt.staging)
            rehearse(pipeline, branch, done.onto_ours, after, merged.tables, attempt.staging)
            raise SchemaKept(done.onto_ours)
        return proposal

    try:
        return pipeline.run(name, propose)
    except SchemaKept as kept:
        kept.evolve(pipeline, name, author, message)
        return pipeline.run(name, propose)


def _schema_on(pipeline: Pipeline, difference: Difference, ours: SnapshotRow) -> SchemaMerge:
    """The schema changes of a difference on a branch, and what of it contradicts them."""
    graph, lifter = pipeline.graph, pipeline.lifter
    ends = difference.start, ours, difference.end
    fork = fork_of(graph, *ends)
    if fork is not None and is_ancestor(graph.snapshots, difference.start, difference.end):
        base, mine, yours = (schema_history(graph, lifter, fork, row) for row in ends)
        schemas = [visible_schemas(graph, row) for row in ends]
        return patch_schema((schemas[0], schemas[1], schemas[2]), (base, mine, yours))
    known = _known_changes(pipeline, difference, ours)
    return replay_changes(difference.made, visible_schemas(graph, ours), known)


def _known_changes(pipeline: Pipeline, difference: Difference, ours: SnapshotRow) -> set[str]:
    """The ids of changes of a difference that a branch has; or lacks, of those to take back."""
    origin, _ = _ids_since_fork(pipeline, difference.start, difference.end)
    inverses = {inverse_id(identity): identity for identity in origin}
    there, here = _ids_since_fork(pipeline, difference.end, ours)
    own = {one.identity for one in difference.made} - inverses.keys()
    since, mine = _ids_since_fork(pipeline, difference.start, ours)
    lacking = {inverse for inverse, known in inverses.items() if known in since - mine}
    return here | (own - there) | lacking


def _ids_since_fork(
    pipeline: Pipeline, one: SnapshotRow, other: SnapshotRow
) -> tuple[set[str], set[str]]:
    """The ids of the changes that each of two snapshots has since they parted."""
    graph = pipeline.graph
    fork = fork_of(graph, one, other)
    if fork is None:
        return set(), set()
    histories = (schema_history(graph, pipeline.lifter, fork, row) for row in (one, other))
    mine, yours = ({made.identity for made in history} for history in histories)
    return mine, yours


def _sides(
    graph: Graph, difference: Difference, here: Tables, staging: Staging
) -> tuple[dict[str, Version], dict[str, Version]]:
    """The tables that differ, before and after; one that was not there had no rows."""
    before: dict[str, Version] = {}
    after: dict[str, Version] = {}
    for name, (old, new) in difference.tables.items():
        if new is None and name not in here:
            continue
        if new is not None:
            after[name] = new
            definition = graph.versions.definition(new)
            before[name] = old or graph.versions.create(definition, [], staging.sink)
        elif old is not None:
            before[name] = old
    return before, after
