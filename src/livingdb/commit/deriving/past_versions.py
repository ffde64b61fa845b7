"""The version of a derived object for a past source snapshot: looked up, or derived beside the
branch.
"""

from __future__ import annotations

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_view import edge_details
from livingdb.commit.carrying.judge_carried import judge_carried
from livingdb.commit.deriving.derive_version import answers_for, derive_version
from livingdb.commit.deriving.refresh import DEFINITION
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.moved_views import follow_moves
from livingdb.derivation.source_positions import (
    At,
    RefreshRequest,
    last_derived_snapshot,
    positions_by_name,
    refresh_inputs,
    source_positions,
    source_versions,
)
from livingdb.derivation.view import View
from livingdb.derivation.view_names import is_on_branch
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.ancestry import first_parents, is_ancestor
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.guard.build_pending_change import pending_refresh

__all__ = ["is_defined_by", "version_for"]


def version_for(
    pipeline: Pipeline, sync: SyncRow, source: SnapshotRow, engine: str | None
) -> SnapshotRow:
    """The version of a derived object for a snapshot of what it reads, by the definition of then.

    One that was made from tables as they are there, if there is one; else a new snapshot beside
    the branch, made of the nearest version there is.
    """
    graph, trust = pipeline.graph, pipeline.trust
    now = View.from_json(sync.spec)
    source = _moved_source(graph, now, source)
    target = graph.branches.by_id(sync.target)
    assert target is not None
    head = last_derived_snapshot(graph, graph.snapshots.at(target.head))
    if head is None:
        raise NotFound(f"no version of {now.name!r} is left on its branch: somebody reset it")
    view, branch, versions = _versions_of_time(graph, now, source, head)
    for row in versions:
        then = source_positions(graph, row)
        if _is_same_input(graph, view, then, {**then, branch: source.address}):
            return row
    nearest = versions[-1]
    then = source_positions(graph, nearest)
    at = {**then, branch: source.address}

    def propose(attempt: Attempt) -> Proposal:
        read = refresh_inputs(graph, view, then, at)
        answers = answers_for(view, engine, sync.frequency == "immediate", trust)
        held = tables_of(graph, nearest)
        request = RefreshRequest(view, read, whole_tables(held), at, trust, before=then)
        result = derive_version(graph, request, answers, attempt.staging)
        done = result.refresh_result
        pending = pending_refresh(graph, sync, request, result.tables, done, nearest, ())
        judged = judge_carried(pending, held, result.tables, attempt.staging, stops=False)
        names = {row.id: row.name for row in graph.branches.by_ids(view.branches).values()}
        intent = Intent(
            (nearest,),
            (),
            "derive",
            "derive",
            "livingdb",
            f"derive {view.name} for a past snapshot",
            judged.tables,
            positions_by_name(at, names),
            edge_details(view.name, sync.id, at, done),
            intermediates=result.intermediates,
        )
        return Proposal([intent])

    return pipeline.run(view.name, propose)


def _moved_source(graph: Graph, view: View, source: SnapshotRow) -> SnapshotRow:
    """The snapshot of what a view reads now that is beside one of what it read before."""
    for branch in graph.branches.by_ids(view.moved).values():
        if is_on_branch(graph, branch, source):
            *_, last = follow_moves(graph, view.moved, branch, source).values()
            return last or source
    return source


def _versions_of_time(
    graph: Graph, now: View, source: SnapshotRow, head: SnapshotRow
) -> tuple[View, BranchId, list[SnapshotRow]]:
    """The definition that a derived object had when a snapshot was the source, and its versions.

    Which branch the snapshot is of, too.  The versions are newest first, down to the one that the
    object had then; the oldest ones of all for a snapshot from before.
    """
    definitions = _definitions(graph, now, head)
    view, branch = now, _branch_of(graph, now, source, head)
    found: list[SnapshotRow] = []
    for row in first_parents(graph.snapshots, head):
        known = next(known for since, known in definitions if since <= row.sequence)
        then = source_positions(graph, row)
        if not set(known.branches) <= set(then):
            continue  # somebody else wrote it
        if known is not view:
            view, found = known, []
            if branch not in view.branches:
                branch = _branch_of(graph, view, source, row)
        found.append(row)
        seen = graph.snapshots.find(then[branch]) if branch in then else None
        if seen is not None and is_ancestor(graph.snapshots, seen, source):
            break
    return view, branch, found or [head]


def _definitions(graph: Graph, now: View, head: SnapshotRow) -> list[tuple[int, View]]:
    """The definitions that a derived object has had, newest first, and since which version."""
    found = _recorded_definitions(graph, head)
    # The newest one has followed what was renamed since; the first is also that of earlier formats.
    known = found or [(0, now)]
    if _is_same_definition(known[0][1], now):
        known = [(known[0][0], now), *known[1:]]
    return [*known, (0, known[-1][1])]


def is_defined_by(graph: Graph, view: View, version: SnapshotRow) -> bool:
    """Whether a version was made by a definition, and not by one from before it."""
    found = _recorded_definitions(graph, version)
    return not found or _is_same_definition(found[0][1], view)


def _is_same_definition(one: View, other: View) -> bool:
    """Whether two definitions say the same, whatever was renamed between them."""
    return (one.what, one.text, one.function, one.params) == (
        other.what,
        other.text,
        other.function,
        other.params,
    )


def _recorded_definitions(graph: Graph, head: SnapshotRow) -> list[tuple[int, View]]:
    """The definitions on the line of a version, newest first, as they were written down."""
    snapshots = graph.snapshots
    found = []
    for row in snapshots.of_kind("derive", 0, head.sequence):
        is_below = row.depth <= head.depth
        if is_below and snapshots.ancestor(head, row.depth).sequence == row.sequence:
            data = graph.record(row.address).edge.details.get(DEFINITION)
            if data is not None:
                found.append((row.sequence, View.from_json(data)))
    return sorted(found, key=lambda item: -item[0])


def _branch_of(graph: Graph, view: View, source: SnapshotRow, head: SnapshotRow) -> BranchId:
    """The branch of the view that a snapshot belongs to."""
    rows = graph.branches.by_ids(view.branches)
    for number, row in rows.items():
        if is_ancestor(graph.snapshots, source, graph.snapshots.at(row.head)):
            return number
    for number, address in source_positions(graph, head).items():
        row_seen = graph.snapshots.find(address)
        if row_seen is not None and is_ancestor(graph.snapshots, source, row_seen):
            return number
    if len(view.branches) == 1:
        return view.branches[0]
    raise InvalidData(f"the snapshot is on none of the branches that {view.name!r} reads")


def _is_same_input(graph: Graph, view: View, then: At, at: At) -> bool:
    if then == at:
        return True
    if view.what == "clone":
        return False
    one, other = source_versions(graph, view, then), source_versions(graph, view, at)
    return all(one[name].version.address == other[name].version.address for name in one)
