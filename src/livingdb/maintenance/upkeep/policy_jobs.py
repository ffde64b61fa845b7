"""Jobs about what users asked for: other layouts of tables."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.maintenance.layouts import lay_out_due
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = ["estimate_layouts", "lay_out_heads"]


def _layouts(work: Work) -> list[list[str]]:
    """The layouts that tables were given, as plain values."""
    return sorted(map(list, work.graph.catalog.table_layouts.all().items()))


def estimate_layouts(work: Work, memory: Memory) -> Estimate | None:
    """Tables that were given other layouts since all heads were laid out."""
    asked = _layouts(work)
    if asked == memory.get("layouts", []):
        return None
    return Estimate("tables were given other layouts", len(asked), 0.2 * len(asked))


def lay_out_heads(work: Work, memory: Memory) -> Iterator[Step]:
    """Lay out anew what heads are read from, a tree at a time."""
    graph, asked = work.graph, _layouts(work)
    for tree in lay_out_due(graph):
        graph.fold(tree.version)
        graph.versions.forget_mapped_rows()
        yield Step(memory, 1, f"{tree.table} on {tree.branch}")
    yield Step({"layouts": asked}, units=0, is_last=True)
