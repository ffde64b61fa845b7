"""Sweeping: chunks that nobody needs leave the disk.

Only packs of which a good share is dead are written anew; one that is all dead is just let go.
What is needed is found from the catalog alone, so that the next run carries on for whoever was
killed, and what others committed meanwhile is looked at before the new packs count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import plain_payload
from livingdb.chunks.pack import Pack
from livingdb.chunks.repack import RepackReport
from livingdb.chunks.repack_packs import PackSwap, repack_packs
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot import is_table_map
from livingdb.graph.storage.drain_journal import give_back_pages
from livingdb.maintenance.live_chunks import KnownRows, LiveChunks

__all__ = ["pack_bytes", "sweep"]

_DEAD_SHARE = 0.2
_SMALL_BYTES = 1 << 20  # which are written anew in no time
_ATTEMPTS = 3


@dataclass(frozen=True)
class _Opened:
    """A pack: its size, and how many bytes each of its chunks takes."""

    name: str
    size_bytes: int
    sizes: Mapping[Address, int]


@dataclass(frozen=True)
class _Weighed:
    """A pack: its size, and how many bytes those of its chunks take that nobody needs."""

    name: str
    size_bytes: int
    dead_bytes: int

    @classmethod
    def of(cls, pack: _Opened, needed: set[Address]) -> _Weighed:
        """The pack, if these chunks are needed."""
        dead = sum(size for address, size in pack.sizes.items() if address not in needed)
        return cls(pack.name, pack.size_bytes, dead)

    @property
    def dead_share(self) -> float:
        """How much of it is dead."""
        return self.dead_bytes / self.size_bytes

    @property
    def is_worth(self) -> bool:
        """Whether so much of it is dead, or it is so small, that it is worth to be written anew."""
        return self.dead_share >= _DEAD_SHARE or self.size_bytes <= _SMALL_BYTES


def sweep(graph: Graph, known: KnownRows | None = None) -> None:
    """Take away what nobody needs, and give the space back; `known` rows are not read again."""
    live = LiveChunks(graph, known=known, with_table_maps=False)
    for _ in range(_ATTEMPTS):
        live.find_new()
        if _sweep_packs(graph, live, known or KnownRows()):
            break
    give_back_pages(graph.store)


def pack_bytes(graph: Graph) -> int:
    """The bytes of all packs and of the journal."""
    sizes = (graph.place.files.size(f"packs/{n}") for n in graph.catalog.packs.names())
    return sum(sizes) + graph.store.journal.size_bytes()


def _sweep_packs(graph: Graph, live: LiveChunks, known: KnownRows) -> bool:
    """Write packs anew that are worth it; False if something in them is needed after all."""
    graph.store.refresh()
    packs = [_open(graph, name) for name in graph.catalog.packs.names()]
    needed = live.addresses | graph.store.references(live.addresses - live.records)
    spare = {a for pack in packs for a in pack.sizes if a not in needed}
    maps = _table_maps(graph, spare.difference(known.recipes))
    needed |= maps
    weighed = [_Weighed.of(pack, needed) for pack in packs]
    chosen = _choose(weighed, graph.store.journal.size_bytes())
    if not chosen:
        return True
    names = tuple(pack.name for pack in chosen)
    others = (a for pack in packs if pack.name not in names for a in pack.sizes)
    leant_on = graph.store.references((needed - live.records).intersection(others))
    needed = live.addresses | maps | leant_on
    held = {a for pack in packs if pack.name in names for a in pack.sizes}
    dead = held - needed
    swap = _Swap(graph, live, dead)
    if dead == held:
        swap(PackSwap(names, (), RepackReport()))
    else:
        source = graph.store.packs.with_packs(graph.catalog.packs.names())
        repack_packs(source, names, live=needed, swap=swap)
    swap.remove_files()
    return swap.is_done


def _table_maps(graph: Graph, addresses: set[Address]) -> set[Address]:
    """Those of some chunks that snapshots share for the names of tables: their records stay."""
    bodies = graph.store.packs.read_in_order(addresses)
    payloads = ((address, plain_payload(address, body)) for address, body in bodies)
    return {a for a, payload in payloads if payload is not None and is_table_map(payload)}


def _choose(packs: Sequence[_Weighed], at_least_bytes: int) -> list[_Weighed]:
    """The packs to be written anew: those that are worth it, and so many that nothing grows."""
    chosen: list[_Weighed] = []
    freed = 0
    for pack in sorted(packs, key=lambda pack: -pack.dead_share):
        if pack.dead_bytes and (pack.is_worth or freed < at_least_bytes):
            chosen.append(pack)
            freed += pack.dead_bytes
    return chosen


def _open(graph: Graph, name: str) -> _Opened:
    pack = Pack(graph.place.files.view(f"packs/{name}"), name)
    return _Opened(name, max(pack.size_bytes, 1), pack.sizes())


class _Swap:
    """Makes new packs count in place of old ones, if nothing that went is needed by then."""

    def __init__(self, graph: Graph, live: LiveChunks, dead: set[Address]):
        self._graph = graph
        self._live = live
        self._dead = dead
        self._unused: tuple[str, ...] = ()
        self.is_done = self.is_swapped = False

    def __call__(self, swap: PackSwap) -> None:
        catalog = self._graph.catalog
        levels = self._graph.store.levels(swap.new)
        self._unused = swap.new
        self._live.find_new()
        with catalog.write() as connection:
            there = {name for name, _ in catalog.packs.levels(connection)}
            is_there = there.issuperset(swap.old)
            self.is_done = is_there and self._dead.isdisjoint(self._live.find_new())
            if self.is_done and self._is_smaller(swap):
                catalog.packs.retire(connection, swap.old, now())
                catalog.packs.add(connection, levels)
                epoch = catalog.raise_epoch(connection)
                self._unused = ()
                self.is_swapped = True
        if self.is_swapped:
            self._graph.observe_epoch(epoch)

    def _is_smaller(self, swap: PackSwap) -> bool:
        """Whether it is worth it: small chunks that lose what they shared may weigh more."""
        size = self._graph.place.files.size
        old, new = (sum(size(f"packs/{n}") for n in names) for names in (swap.old, swap.new))
        return new < old

    def remove_files(self) -> None:
        """Remove the files of packs that do not count; old ones once nobody reads them."""
        self._graph.store.refresh()
        self._graph.store.drop_packs(self._unused)
        self._graph.sweep()
