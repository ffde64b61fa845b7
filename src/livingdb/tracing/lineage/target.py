"""What a name of a derived object means: a table of a branch, in one of its snapshots."""

from __future__ import annotations

import re
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.source_positions import last_version_made, source_positions
from livingdb.derivation.view import KIND, View
from livingdb.derivation.view_names import version_not_after
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.graph.names import is_hidden

__all__ = ["Target", "makers", "target_of", "visible_columns"]


@dataclass(frozen=True)
class Target:
    """A table of a branch in one snapshot, whose rows are asked about."""

    name: str
    branch: BranchId
    snapshot: SnapshotRow
    table: str


def target_of(graph: Graph, view: str, at: SnapshotRow | None) -> Target:
    """What a name of a derived object means; `at` is one of its snapshots, or of its sources."""
    ref, table = _split(graph, view)
    resolved = graph.resolve(ref)
    row = resolved.snapshot
    branch = resolved.branch or graph.branches.find(re.split(r"[~@]", ref)[0])
    number = _maker(graph, row) if branch is None else branch.id
    sync = None if number is None else makers(graph).get(number)
    if number is None or sync is None:
        known = sorted(_derived_names(graph))
        there = f"; there are: {', '.join(known)}" if known else ""
        raise NotFound(f"{view!r} is not a derived object{there}")
    name = graph.branches.by_id(number)
    if at is not None:
        row = _version_at(graph, sync, number, at)
    tables = [other for other in graph.tables(row) if not is_hidden(other)]
    if table is None:
        own = name.name if name is not None else ""
        if own not in tables and len(tables) != 1 and sync.kind == KIND:
            made = None if name is None else _version_with(graph, sync, name)
            row, tables = (row, tables) if made is None else (made, [sync.spec["name"]])
        table = own if own in tables else tables[0] if len(tables) == 1 else None
    if table is None:
        shown = ", ".join(f"{ref}.{other}" for other in sorted(tables))
        raise InvalidData(f"{view!r} has several tables; name one of them: {shown}")
    if table not in tables:
        raise missing_table_error(table, graph.tables(row))
    return Target(view, number, row, table)


def visible_columns(graph: Graph, target: Target) -> list[str]:
    """The columns of a target's table."""
    schema = graph.versions.definition(graph.version(target.snapshot, target.table)).schema
    return [column.name for column in schema.visible_columns]


def _version_with(graph: Graph, sync: SyncRow, branch: BranchRow) -> SnapshotRow | None:
    """The last version of a view that its sync made; somebody took its table away since."""
    if sync.spec["what"] == "clone":
        return None
    made = last_version_made(graph, branch)
    return made if made is not None and sync.spec["name"] in graph.tables(made) else None


def _split(graph: Graph, view: str) -> tuple[str, str | None]:
    """A ref, and the table of it that a name says, as in `masked.users`."""
    try:
        graph.resolve(view)
        return view, None
    except NotFound:
        ref, dot, table = view.rpartition(".")
        if not dot:
            raise
        graph.resolve(ref)
        return ref, table


def _derived_names(graph: Graph) -> list[str]:
    names = {row.id: row.name for row in graph.branches.all()}
    syncs = graph.catalog.syncs.all()
    return [names[s.target] for s in syncs if not is_hidden(names.get(s.target, "~"))]


def makers(graph: Graph) -> dict[BranchId, SyncRow]:
    """What makes the tables of branches: a derivation, or else a schema change."""
    syncs = sorted(graph.catalog.syncs.all(), key=lambda sync: sync.kind == KIND)
    return {sync.target: sync for sync in syncs}


def _maker(graph: Graph, row: SnapshotRow) -> BranchId | None:
    """The branch of the derived object that a snapshot is one of."""
    made = set(source_positions(graph, row))
    if not made:
        return None
    tables = graph.tables(row)
    for sync in graph.catalog.syncs.all():
        if sync.kind == KIND and made <= set(View.from_json(sync.spec).branches):
            is_its = sync.spec["name"] in tables or sync.spec["what"] == "clone"
            if is_its:
                return sync.target
    return None


def _version_at(graph: Graph, sync: SyncRow, branch: BranchId, at: SnapshotRow) -> SnapshotRow:
    """A snapshot of a derived object, or the newest made from what is not after a snapshot."""
    if sync.kind != KIND or _maker(graph, at) == branch:
        return at
    for number in View.from_json(sync.spec).branches:
        source = graph.branches.by_id(number)
        if source is not None:
            try:
                return version_not_after(graph, sync, source, at)
            except NotFound:
                continue
    raise NotFound(f"no version of {sync.spec['name']!r} was made from that snapshot or before")
