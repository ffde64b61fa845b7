"""Views by name: which derived object a name means on a branch or at a snapshot, in which version.

A name resolves on the branches that a view reads, without regard to case, in the version of the
newest source that is not after the ref; of several from one source, the newest.  A ref that names
a branch (`main`, `main~3`, `main@time`) is on that one; a tag or an id is on each branch whose
line or log has the snapshot, first of all on the branch on which the view was derived.  Of a view
over several branches, the source on the branch of the ref counts, and the others are what the
version has.  What somebody wrote to a detached view is what its name means at the head of its
source, and belongs to no past snapshot of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.moved_views import follow_moves, moves_of
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.view import KIND
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.ancestry import first_parents, is_ancestor
from livingdb.graph.graph import Graph
from livingdb.tables.letter_case import are_alike

__all__ = [
    "is_on_branch",
    "source_tables_of",
    "version_not_after",
    "view_at",
    "view_on",
    "views_of",
]


def views_of(syncs: Sequence[SyncRow]) -> list[SyncRow]:
    """The syncs of what has one table of its own name: views, functions and models."""
    return [sync for sync in syncs if sync.kind == KIND and sync.spec["what"] != "clone"]


def view_on(syncs: Sequence[SyncRow], branch: BranchRow, name: str) -> SyncRow | None:
    """The view that has a name on a branch: derived there, or else made of what is there."""
    views = views_of(syncs)
    here = [sync for sync in views if sync.spec["home"] == branch.id]
    readers = [sync for sync in views if branch.id in _read_branches(sync)]
    found = [
        *(sync for sync in here if name in (sync.spec["called"], sync.spec["name"])),
        *(sync for sync in readers if name == sync.spec["name"]),
        *(sync for sync in here if _is_called(sync, name)),
        *(sync for sync in readers if are_alike(name, sync.spec["name"])),
    ]
    return found[0] if found else None


def view_at(
    graph: Graph, syncs: Sequence[SyncRow], at: SnapshotRow, name: str
) -> tuple[SyncRow, BranchRow] | None:
    """The view that has a name at a snapshot, and the branch of its that the snapshot is on.

    `InvalidData` if clones have views of that name, and the snapshot is on several of them.
    """
    found: list[tuple[SyncRow, BranchRow]] = []
    for sync in views_of(syncs):
        if _is_called(sync, name):
            order = dict.fromkeys((sync.spec["home"], *_read_branches(sync)))
            rows = graph.branches.by_ids(order)
            on = (rows[n] for n in order if n in rows and is_on_branch(graph, rows[n], at))
            found += [(sync, branch) for branch in on][:1]
    own = [(sync, branch) for sync, branch in found if are_alike(name, sync.spec["name"])]
    if len(own or found) > 1:
        names = " or ".join(sorted(f"{branch.name}.{name}" for _, branch in found))
        raise InvalidData(
            f"{name!r} is ambiguous there: the snapshot is on several branches; {names}"
        )
    return next(iter(own or found), None)


def _read_branches(sync: SyncRow) -> list[BranchId]:
    """The branches that a view reads, and those that it read before it was moved."""
    return [*sync.sources, *sync.spec.get("moved", {})]


def _is_called(sync: SyncRow, name: str) -> bool:
    titles = (sync.spec["called"], sync.spec["name"])
    return any(title and are_alike(name, title) for title in titles)


def is_on_branch(graph: Graph, branch: BranchRow, at: SnapshotRow) -> bool:
    """Whether a snapshot is on the line of a branch's first parents, or in its log."""
    head = graph.snapshots.at(branch.head)
    is_older = at.depth <= head.depth
    if is_older and graph.snapshots.ancestor(head, at.depth).sequence == at.sequence:
        return True
    return graph.movements.last_to(branch, at.sequence) is not None


def version_not_after(
    graph: Graph, sync: SyncRow, branch: BranchRow, at: SnapshotRow
) -> SnapshotRow:
    """The version of a derived object whose source is the newest that is not after a snapshot.

    `NotFound` if there is none, or if nothing of the branch goes into it.
    """
    target = graph.branches.by_id(sync.target)
    assert target is not None
    syncs = graph.catalog.syncs.all()
    places = follow_moves(graph, moves_of(syncs, sync), branch, at)
    derived = {other.target for other in syncs if other.kind == KIND}
    found: SnapshotRow | None = None
    newest = -1
    reads_branch = False
    for row in first_parents(graph.snapshots, graph.snapshots.at(target.head)):
        if row.sequence <= newest:
            break  # what is older was made from what is older
        if at.sequence != branch.head and not source_positions(graph, row):
            continue  # what somebody wrote to a detached one belongs to no past of its source
        seen = list(_source_snapshots(graph, row, places, derived))
        reads_branch = reads_branch or bool(seen)
        position = max((source.sequence for _, source in seen), default=-1)
        # After a reset, a version of an earlier source follows one of a later source.
        is_newer = position > newest
        if is_newer and all(
            (last := places[number]) is None or is_ancestor(graph.snapshots, source, last)
            for number, source in seen
        ):
            found, newest = row, position
    if found is not None:
        return found
    if not reads_branch:
        rows = graph.branches.by_ids(sync.sources).values()
        names = " or ".join(repr(row.name) for row in rows)
        raise NotFound(
            f"{target.name!r} reads nothing of {branch.name!r}: a ref of {names} says which version"
        )
    raise NotFound(
        f"{target.name!r} was made later: it has no version made from {branch.name!r} at that "
        f"time or before; db.derived_at({target.name!r}, source=…) makes one"
    )


def _source_snapshots(
    graph: Graph, row: SnapshotRow, branches: Collection[BranchId], derived: set[BranchId]
) -> Iterator[tuple[BranchId, SnapshotRow]]:
    """The snapshots of branches that a derived one was made from, also through others.

    What somebody wrote to a detached one was made from what is below it.
    """
    made = row
    positions = source_positions(graph, made)
    while not positions and made.first is not None:
        made = graph.snapshots.at(made.first)
        positions = source_positions(graph, made)
    for number, address in positions.items():
        source = graph.snapshots.find(address)
        if source is None:
            continue
        if number in branches:
            yield number, source
        elif number in derived:
            yield from _source_snapshots(graph, source, branches, derived)


def source_tables_of(syncs: Sequence[SyncRow], sync: SyncRow, branch: BranchId) -> set[str]:
    """The tables of a branch that a derived object is made of, also through others."""
    found: set[str] = set()
    for table in sync.spec["tables"].values():
        if table["snapshot"]:
            continue
        if table["branch"] == branch:
            found.add(table["table"])
        for other in syncs:
            if other.kind == KIND and other.target == table["branch"] and other.id != sync.id:
                found |= source_tables_of(syncs, other, branch)
    return found
