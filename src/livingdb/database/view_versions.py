"""The version of a view that SQL means by its name, at a ref."""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.database.sync import updatable_sync
from livingdb.derivation.moved_views import is_before_move, moves_of
from livingdb.derivation.view_names import (
    is_on_branch,
    source_tables_of,
    version_not_after,
    view_at,
    view_on,
    views_of,
)
from livingdb.errors import NotFound
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.sync_groups import paired_snapshot
from livingdb.tables.letter_case import find_alike

__all__ = ["ViewVersion", "find_view_version"]


@dataclass(frozen=True)
class ViewVersion:
    """A snapshot of a view, and its table there; no `sync` if it is one that can be written."""

    snapshot: SnapshotRow
    table: str
    sync: SyncRow | None = None
    notice: str = ""
    """What whoever asks by the name is told."""

    def source_tables(self, graph: Graph, branch: BranchId) -> set[str]:
        """The tables of a branch that it is made of; all of them, if it can be written."""
        if self.sync is not None:
            return source_tables_of(graph.catalog.syncs.all(), self.sync, branch)
        row = graph.branches.by_id(branch)
        assert row is not None
        return {n for n in graph.tables(graph.snapshots.at(row.head)) if not is_hidden(n)}


def find_view_version(
    graph: Graph, name: str, at: SnapshotRow, named: str | None
) -> ViewVersion | None:
    """The version of the view of that name whose source is not after a snapshot; None: no view.

    `named` is the branch that the ref names.  `NotFound` if the view is on another branch, or was
    made later.
    """
    syncs = graph.catalog.syncs.all()
    branch = None if named is None else graph.branches.find(named)
    if branch is None:
        found = view_at(graph, syncs, at, name)
    else:
        view = view_on(syncs, branch, name)
        found = None if view is None else (view, branch)
    if found is not None:
        sync, of = found
        row = version_not_after(graph, sync, of, at)
        return ViewVersion(row, sync.spec["name"], sync, _move_notice(graph, sync, of, at))
    updatable = _updatable_version(graph, name, at, branch)
    others = find_alike(name, [sync.spec["name"] for sync in views_of(syncs)])
    if updatable is None and others:
        raise _elsewhere(others[0], named)
    return updatable


def _move_notice(graph: Graph, sync: SyncRow, branch: BranchRow, at: SnapshotRow) -> str:
    """That a view reads another branch since the one that it is asked for on has another schema."""
    moved = moves_of(graph.catalog.syncs.all(), sync)
    if branch.id not in moved or is_before_move(graph, moved, branch.id, at):
        return ""
    kept = graph.branches.by_id(moved[branch.id][0])
    what = "a branch that was dropped since" if kept is None else repr(kept.name)
    return f"{sync.spec['name']!r} is made of {what}, with the schema that {branch.name!r} had"


def _updatable_version(
    graph: Graph, name: str, at: SnapshotRow, branch: BranchRow | None
) -> ViewVersion | None:
    """A view that can be written, where it stood when the branch it shows was at a snapshot."""
    for title in find_alike(name, [row.name for row in graph.branches.all()]):
        sync = updatable_sync(graph, title)
        source = None if sync is None else graph.branches.by_id(sync.sources[0])
        if sync is None or source is None:
            continue
        is_here = is_on_branch(graph, source, at) if branch is None else branch.id == source.id
        if not is_here:
            raise _elsewhere(title, None if branch is None else branch.name)
        view = graph.branch(title)
        if source.head == at.sequence:
            return ViewVersion(graph.snapshots.at(view.head), title)
        there = paired_snapshot(graph, sync, source, at, view)
        if there is None:
            raise NotFound(
                f"{title!r} was made later: it was not in step with {source.name!r} when that was "
                f"at {at.address.hex()[:12]}"
            )
        return ViewVersion(there, title)
    return None


def _elsewhere(name: str, named: str | None) -> NotFound:
    where = "there" if named is None else f"on {named!r}"
    return NotFound(
        f"the derived object {name!r} is not {where}, but on its source; a clone has its own if it "
        f"was made by clone(…, derived=True); {name}.{name} names it from anywhere"
    )
