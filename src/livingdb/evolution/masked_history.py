"""Which snapshots lie behind a mask: nothing that it hides is to be told through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.evolution.changes.mask_column import MaskColumn
from livingdb.graph.graph import Graph

__all__ = ["has_mask", "is_behind_mask"]


def has_mask(spec: object) -> bool:
    """Whether a mask is among the schema changes that a sync or an edge has on record."""
    if isinstance(spec, Mapping):
        return spec.get("change") == MaskColumn.__name__ or any(map(has_mask, spec.values()))
    return isinstance(spec, list | tuple) and any(map(has_mask, spec))


def is_behind_mask(graph: Graph, rows: Iterable[SnapshotRow]) -> bool:
    """Whether the history of one of some snapshots begins with a mask, or with what is behind one.

    A branch that is masked in place is not: what it held before is its own history.  What was made
    of a snapshot that is gone may have been.
    """
    seen: set[int] = set()
    waiting = list(rows)
    while waiting:
        first = graph.snapshots.ancestor(waiting.pop(), 0)
        if first.sequence in seen:
            continue
        seen.add(first.sequence)
        edge = graph.record(first.address).edge
        sources = [graph.snapshots.find(Address(bytes.fromhex(at))) for at in edge.sources.values()]
        if has_mask(edge.details) or None in sources:
            return True
        waiting += [source for source in sources if source is not None]
    return False
