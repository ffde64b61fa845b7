"""The schema changes on the way of a branch that moves: those that its followers carry on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.proposal import BranchMove
from livingdb.errors import LivingDBError
from livingdb.evolution.equal_changes import unified_changes
from livingdb.evolution.lift import Lifter
from livingdb.evolution.masked_history import masked_columns, remasked_columns
from livingdb.evolution.merge_schemas import own_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import (
    fork_of,
    line_between,
    made_between,
    made_of,
    schema_history,
    settled_fork,
    visible_schemas,
)
from livingdb.graph.ancestry import first_parents, is_ancestor
from livingdb.graph.draft import Draft, HeadMove
from livingdb.graph.edge_ends import UNIFIED
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden

__all__ = ["forwarded_move", "line_to_draft", "unified_between", "unmasked_by_drafts"]


def line_to_draft(graph: Graph, branch: BranchRow, drafts: Sequence[Draft]) -> Sequence[MadeChange]:
    """What happens to the schema of a branch that goes to the last of some drafts.

    Nothing, if that is not made on another of them: then its own edge says so.
    """
    if not drafts[-1].intent.on_previous or drafts[-2].record.edge.kind != "schema_change":
        return ()
    if not graph.syncs(branch.epoch):
        return ()  # nobody asks
    head = graph.snapshots.at(branch.head)
    items = drafts[-2].record.edge.details.get("changes", ())
    changes = [SchemaChange.from_json(item) for item in items]
    try:
        made = made_of(changes, visible_schemas(graph, head))
    except LivingDBError:  # a merge has taken back changes of ours, so that they lead nowhere
        return ()
    tables = drafts[-1].record.tables.items()
    now = {
        name: graph.versions.definition(graph.versions.require(address))
        for name, address in tables
        if not is_hidden(name)
    }
    return [*made, *made_between(graph, head, head, made[-1].after, now)] if made else ()


def unmasked_by_drafts(
    graph: Graph, lifter: Lifter, branch: BranchRow, drafts: Sequence[Draft]
) -> frozenset[str]:
    """The columns, by their ids, whose masks are taken back where a branch goes to some drafts."""
    gone = {change for draft in drafts for change in draft.record.edge.taken_back}
    if not gone or not graph.syncs(branch.epoch):
        return frozenset()
    head = graph.snapshots.at(branch.head)
    masks = masked_columns(graph, lifter, graph.snapshots.ancestor(head, 0), head)
    return frozenset(column for mask, column in masks if mask in gone)


def forwarded_move(graph: Graph, lifter: Lifter, move: HeadMove) -> BranchMove:
    """A branch that goes to a snapshot that is there, and the schema changes on the way."""
    found = BranchMove.to_snapshot(graph, move)
    if graph.syncs(found.branch.epoch):
        found = replace(found, remasked=remasked_columns(graph, lifter, found.head, move.to))
    if not is_ancestor(graph.snapshots, found.head, move.to):
        return found
    unified: Mapping[str, str] = {}
    line: Sequence[MadeChange] = ()
    made = lifter.made_between(found.head, move.to)
    histories = _histories_apart(graph, lifter, found.head, move.to)
    if histories is not None:
        before, after = histories
        unified = unified_changes(before, after).ids
        line = own_changes(after, before)
    elif made and graph.syncs(found.branch.epoch):
        line = line_between(graph, lifter, found.head, move.to)
    return replace(found, made_changes=made, unified=unified, line=line)


def unified_between(
    graph: Graph, lifter: Lifter, then: SnapshotRow, now: SnapshotRow
) -> Mapping[str, str]:
    """The ids that columns and tables have in a snapshot, by others in one that it comes from."""
    is_later = is_ancestor(graph.snapshots, then, now)
    if not is_later or visible_schemas(graph, then) == visible_schemas(graph, now):
        return {}
    histories = _histories_apart(graph, lifter, then, now)
    if histories is not None:
        return unified_changes(*histories).ids
    line = takewhile(lambda row: row != then, first_parents(graph.snapshots, now))
    found: dict[str, str] = {}
    for row in reversed(list(line)):
        step = graph.record(row.address).edge.details.get(UNIFIED, {})
        found = {**step, **{old: step.get(new, new) for old, new in found.items()}}
    return found


def _histories_apart(
    graph: Graph, lifter: Lifter, head: SnapshotRow, to: SnapshotRow
) -> tuple[Sequence[MadeChange], Sequence[MadeChange]] | None:
    """The schema changes of two snapshots since their fork; None if one is on the other's line."""
    fork = fork_of(graph, head, to)
    if fork is None or fork == head:
        return None
    fork = settled_fork(graph, lifter, head, to) or fork
    before, after = (schema_history(graph, lifter, fork, end) for end in (head, to))
    return before, after
