"""Which snapshot dropped a table, or put another one in its place under the same name."""

from __future__ import annotations

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address, short
from livingdb.graph.ancestry import common_ancestors, is_ancestor
from livingdb.graph.graph import Graph

__all__ = ["REMADE", "dropped_since"]

REMADE = "remade"
"""What an edge calls the tables that its transaction dropped and made anew."""


def dropped_since(graph: Graph, name: str, base: SnapshotRow, head: SnapshotRow) -> str | None:
    """What became of a table after a snapshot, as a message says it; None if it is still there.

    A table is gone if it was dropped, even if there is another one of its name and schema by now.
    """
    is_there = graph.find_version(head, name) is not None
    by = _dropping_snapshot(graph, name, base, head)
    if by is not None:
        anew = " or replaced" if is_there else ""
        return f"table {name!r} was dropped{anew} meanwhile by {short(by.address)}"
    return None if is_there else f"table {name!r} was dropped meanwhile"


def _dropping_snapshot(
    graph: Graph, name: str, base: SnapshotRow, head: SnapshotRow
) -> SnapshotRow | None:
    """The snapshot that the head comes from, and the base does not, that dropped a table."""
    snapshots, touches = graph.snapshots, graph.catalog.touches
    low = base.sequence + 1
    for number, _ in touches.changes_between(name, low, head.sequence):
        for other in snapshots.at(number).others:
            common = common_ancestors(snapshots, base, snapshots.at(other))
            low = min([low, *(row.sequence + 1 for row in common)])
    for number, version in touches.changes_between(name, low, head.sequence):
        row = snapshots.at(number)
        # Schema changes on the line of the head itself are behind the base by now: this is one
        # of a branch that was merged, and the name may be another table's since.
        changes = row.kind == "schema_change"
        drops = version is None or changes or _is_remade(graph, name, row, version)
        is_new = drops and not is_ancestor(snapshots, row, base)
        if is_new and is_ancestor(snapshots, row, head):
            return row
    return None


def _is_remade(graph: Graph, name: str, row: SnapshotRow, version: Address) -> bool:
    """Whether a snapshot dropped a table and made another one of its name."""
    if graph.versions.require(version).base is not None:
        return False
    return name in graph.record(row.address).edge.details.get(REMADE, ())
