"""Jobs about what users asked for: other layouts of tables, and what is to be forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.graph.graph import now
from livingdb.graph.retention import Retention
from livingdb.maintenance.layouts import lay_out_due
from livingdb.maintenance.retention.collect import collect_garbage
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = ["collect", "estimate_collection", "estimate_layouts", "lay_out_heads"]

_DAY = 86_400_000_000


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
        graph.versions.derived.forget_mapped_rows()
        yield Step(memory, 1, f"{tree.table} on {tree.branch}")
    yield Step({"layouts": asked}, units=0, is_last=True)


def estimate_collection(work: Work, memory: Memory) -> Estimate | None:
    """Once a day, and at once when there is another policy; never where everything is kept."""
    policy = work.graph.catalog.retention()
    if policy is None or not Retention.from_text(policy).forgets:
        return None
    is_same = memory.get("policy") == policy
    due = int(memory.get("time", 0)) + _DAY if is_same else 0
    return Estimate("what no policy keeps, once a day", due=due, is_whole=True)


def collect(work: Work, memory: Memory) -> Iterator[Step]:
    """Forget what the policy of the database does not keep, and give its space back."""
    policy = work.graph.catalog.retention()
    done = collect_garbage(work.graph, Retention.from_text(policy))
    told = f"{done.freed_bytes:,} bytes less"
    yield Step({"policy": policy, "time": now()}, len(done.snapshots), told, is_last=True)
