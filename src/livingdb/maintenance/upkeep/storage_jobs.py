"""Jobs about where chunks lie: the journal, packs that can be tighter, files nobody needs."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.graph.graph import now
from livingdb.graph.storage.drain_journal import (
    JOURNAL_LIMIT_BYTES,
    drain_journal,
    join_small_packs,
    packs_to_join,
)
from livingdb.maintenance.compact import LEFT_BEHIND_SECONDS, compact
from livingdb.maintenance.projections import drop_unused_projections
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = [
    "compact_packs",
    "drain",
    "estimate_compaction",
    "estimate_drain",
    "estimate_sweep",
    "sweep",
]

_MEGABYTE = 1 << 20
_WORTH_DRAINING_BYTES = JOURNAL_LIMIT_BYTES // 8
_GROWN_MEGABYTES = 16
"""What packs have to have grown by before it is asked whether they can be tighter."""
_MORE_TREES = 8
_DAY = 86_400_000_000


def estimate_drain(work: Work, memory: Memory) -> Estimate | None:
    """A journal that is worth a pack, and packs that are too many."""
    store = work.graph.store
    size = store.journal.size_bytes()
    if size > _WORTH_DRAINING_BYTES:
        megabytes = size / _MEGABYTE
        return Estimate(f"the journal has {size:,} bytes", megabytes, 2.0 * megabytes)
    many = packs_to_join(store)
    if many:
        return Estimate(f"{len(many)} small packs can be one", len(many), 0.1 * len(many))
    return None


def drain(work: Work, memory: Memory) -> Iterator[Step]:
    """Move what the journal holds to packs, and join small ones."""
    store = work.graph.store
    size = store.journal.size_bytes()
    if size > _WORTH_DRAINING_BYTES:
        moved = drain_journal(store)
        yield Step({}, moved, f"{moved} chunks", units=size / _MEGABYTE)
    yield Step({}, join_small_packs(store), units=0, is_last=True)


def _megabytes(work: Work) -> int:
    """What packs weigh, by their levels: nobody is asked for their sizes."""
    return sum(8**level for _, level in work.graph.catalog.packs.levels())


def estimate_compaction(work: Work, memory: Memory) -> Estimate | None:
    """Packs that have doubled since they were last written anew, with trees to be thinned.

    Without trees that nobody needs any more, there is little to be had.
    """
    size, before = _megabytes(work), int(memory.get("megabytes", 0))
    if size < 2 * before + _GROWN_MEGABYTES:
        return None
    trees = work.graph.catalog.versions.count_materializations()
    if trees < int(memory.get("trees", 0)) + _MORE_TREES:
        return None
    text = f"packs have about {size} megabytes, and had {before} after the last time"
    return Estimate(text, size, 0.02 * (size - before), is_whole=True)


def compact_packs(work: Work, memory: Memory) -> Iterator[Step]:
    """Thin old trees, and write packs anew."""
    size = _megabytes(work)
    done = compact(work.graph)
    trees = work.graph.catalog.versions.count_materializations()
    after = {"megabytes": _megabytes(work), "trees": trees}
    freed = max(0, done.before_bytes - done.after_bytes)
    yield Step(after, freed // _MEGABYTE, f"{freed:,} bytes less", units=size, is_last=True)


def estimate_sweep(work: Work, memory: Memory) -> Estimate | None:
    """Packs that count no more, if nobody can be reading them; all else once a day."""
    graph, moment = work.graph, now()
    retired = graph.catalog.packs.retired_packs()
    lease = graph.place.lease
    is_alone = bool(retired) and lease is not None and lease.is_alone()
    gone = sum(is_alone or (lease is None and moment - time > _DAY) for _, time in retired)
    if gone:
        return Estimate(f"{gone} packs count no more", gone, 0.05 * gone)
    return Estimate("files left behind, once a day", due=int(memory.get("time", 0)) + _DAY)


def sweep(work: Work, memory: Memory) -> Iterator[Step]:
    """Remove the files that nobody can be reading, and what killed writers left."""
    graph = work.graph
    before = len(graph.catalog.packs.retired_packs())
    graph.sweep()
    gone = before - len(graph.catalog.packs.retired_packs())
    yield Step(memory, max(0, gone), "packs")
    drop_unused_projections(graph)
    left = graph.place.files.sweep(LEFT_BEHIND_SECONDS)
    yield Step({"time": now()}, left, "files", units=0, is_last=True)
