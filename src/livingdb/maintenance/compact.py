"""Compact: the same snapshots in fewer bytes.

The journal is drained, old trees are thinned, and packs are written anew: tighter, and without
the trees nobody needs any more.  Projections that no head is read from go, and so does what killed
writers left half written a day ago.  What was dropped can no longer be built upon, so the
catalog's *epoch* goes up with it: a transaction that began before notices and starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.chunks.address import Address
from livingdb.chunks.repack import RepackReport
from livingdb.chunks.repack_packs import PackSwap, repack_packs
from livingdb.graph.graph import Graph, now
from livingdb.graph.storage.drain_journal import drain_journal, give_back_pages
from livingdb.maintenance.live_chunks import LiveChunks
from livingdb.maintenance.projections import drop_unused_projections
from livingdb.maintenance.reach import Trees
from livingdb.tables.index import Tree, Version
from livingdb.tables.recipe import Derived
from livingdb.tables.secondary_tree import INDEX_KINDS
from livingdb.tables.thin_keyframes import thin_keyframes
from livingdb.trees.nodes import Entries

__all__ = ["LEFT_BEHIND_SECONDS", "CompactionReport", "add_runs", "compact", "live_chunks"]

Progress = Callable[[str], None]
_ATTEMPTS = 3
LEFT_BEHIND_SECONDS = 86_400.0  # no writer takes that long over one file


@dataclass(frozen=True)
class CompactionReport:
    """What compacting did: bytes of packs before and after, and trees thinned out."""

    before_bytes: int
    after_bytes: int
    drained_chunks: int
    thinned: int

    def __str__(self) -> str:
        return (
            f"packs: {self.before_bytes:,} bytes to {self.after_bytes:,}; "
            f"{self.drained_chunks:,} chunks drained, {self.thinned} trees thinned out"
        )


def compact(graph: Graph, progress: Progress | None = None) -> CompactionReport:
    """Drain, thin, and write all packs anew."""
    say = progress or (lambda text: None)
    store = graph.store
    store.refresh()
    say("draining the journal")
    drained = drain_journal(store)
    say("thinning old trees")
    thinned = _thin(graph)
    add_runs(graph)
    before = _pack_bytes(graph, graph.catalog.packs.names())
    for _ in range(_ATTEMPTS):
        if _repack(graph, say):
            break
    give_back_pages(store)
    drop_unused_projections(graph)
    graph.place.files.sweep(LEFT_BEHIND_SECONDS)
    return CompactionReport(
        before, _pack_bytes(graph, graph.catalog.packs.names()), drained, thinned
    )


def _repack(graph: Graph, say: Progress) -> bool:
    """Write all packs anew; False if others wrote meanwhile, and the old ones had to stay."""
    store = graph.store
    names = tuple(graph.catalog.packs.names())
    if not names:
        return True
    say("finding what is alive")
    graph.branches.follow()
    pulse = graph.catalog.write_counters()
    live, older = live_chunks(graph)
    say("writing packs")
    swap = _Swap(graph, pulse)
    source = store.packs.with_packs(names)
    large = graph.large
    if large is not None and large.takes(lambda: _head_rows(graph)):
        pairs = {a: older.get(a) for a in source.in_written_order() if a in live}
        new = large.repack(graph, names, pairs)
        swap(PackSwap(names, new, RepackReport()))
    else:
        repack_packs(source, names, older=older, live=live, swap=swap)
    swap.remove_files()
    return swap.is_done


def _head_rows(graph: Graph) -> int:
    """How many rows the heads of all branches hold, each version counted once."""
    return sum(map(graph.versions.count, _head_versions(graph).values()))


def _pack_bytes(graph: Graph, names: Sequence[str]) -> int:
    return sum(graph.place.files.size(f"packs/{name}") for name in names)


def _head_versions(graph: Graph) -> dict[Address, Version]:
    """The versions of all tables on the heads of all branches."""
    heads: dict[Address, Version] = {}
    for branch in graph.branches.all():
        for address in graph.tables(graph.snapshots.at(branch.head)).values():
            heads[address] = graph.versions.require(address)
    return heads


def add_runs(graph: Graph) -> None:
    """Write down the runs to the heads of branches that have none: they are older than runs are."""
    for head in _head_versions(graph).values():
        graph.upkeep.save_missing_runs(head)


def _thin(graph: Graph) -> int:
    """Evict keyframes that lie between others, behind the heads of all branches."""
    heads = _head_versions(graph)
    frames = (graph.versions.nearest_stored(version) for version in heads.values())
    keep = {frame.address for frame in frames if frame is not None}
    thinned = sum(len(thin_keyframes(graph.versions, version, keep)) for version in heads.values())
    return thinned + _thin_indexes(graph, heads.values())


def _thin_indexes(graph: Graph, heads: Iterable[Version]) -> int:
    """Evict indexes by which no head is checked or read."""
    kinds = (graph.versions.uniques, graph.versions.indexes)
    used = {address for head in heads for kind in kinds for address in kind.used_by(head)}
    evicted = 0
    for address, *_ in graph.catalog.versions.materializations():
        recipe = graph.versions.recipe(graph.versions.require(address))
        is_index = isinstance(recipe, Derived) and recipe.kind in INDEX_KINDS
        if is_index and address not in used:
            graph.index.evict(address)
            evicted += 1
    return evicted


def live_chunks(
    graph: Graph,
    trees_to_be: Mapping[Address, Tree] | None = None,
    runs_to_go: Collection[Address] = (),
) -> tuple[set[Address], dict[Address, Address]]:
    """Every chunk something needs, and for tree nodes the older ones they took the place of.

    Versions are about to have the `trees_to_be`, and others to lose their runs.
    """
    live = LiveChunks(graph, trees_to_be, runs_to_go)
    live.find_new()
    return live.addresses, _older_leaves(graph, live.trees)


def _older_leaves(
    graph: Graph, roots: list[tuple[int, Address, Address]]
) -> dict[Address, Address]:
    """For a leaf, the leaf of an older tree that ends at the same key."""
    older: dict[Address, Address] = {}
    last: dict[Address, dict[tuple[int, Any], Address]] = {}
    trees = Trees(graph.store, graph.versions.cache)
    for _, definition, root in roots:
        known = last.setdefault(definition, {})
        ends = leaf_ends(trees, definition, root)
        for end, address in ends.items():
            before = known.get(end)
            if before is not None and before != address and address not in older:
                older[address] = before
        known.update(ends)
    return older


def leaf_ends(trees: Trees, definition: Address, root: Address) -> dict[tuple[int, Any], Address]:
    """The leaves of a tree by group and last key."""
    found: dict[tuple[int, Any], Address] = {}
    forest = trees.forest(definition)
    for group, (reader, top) in enumerate(zip(forest.readers, forest.roots(root), strict=True)):
        waiting = [top]
        while waiting:
            node = reader.read(waiting.pop(), keep=False)
            if not isinstance(node, Entries):
                continue
            if node.level > 1:
                waiting += node.addresses
                continue
            for key, address in zip(node.keys, node.addresses, strict=True):
                found[group, key] = address
    return found


class _Swap:
    """Makes new packs count in place of old ones, if nothing else happened meanwhile."""

    def __init__(self, graph: Graph, pulse: tuple[object, ...]):
        self._graph = graph
        self._pulse = pulse
        self._unused: tuple[str, ...] = ()
        self.is_done = False

    def __call__(self, swap: PackSwap) -> None:
        catalog = self._graph.catalog
        levels = self._graph.store.levels(swap.new)
        with catalog.write() as connection:
            self.is_done = catalog.write_counters(connection) == self._pulse
            if self.is_done:
                catalog.packs.retire(connection, swap.old, now())
                catalog.packs.add(connection, levels)
                catalog.raise_epoch(connection)
        self._unused = () if self.is_done else swap.new

    def remove_files(self) -> None:
        """Remove the files of packs that do not count; old ones once nobody reads them."""
        self._graph.store.refresh()
        self._graph.store.drop_packs(self._unused)
        self._graph.sweep()
