"""Repacking packs: new packs are written and read back before the old ones are left."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import RECORD, Chunk
from livingdb.chunks.pack_store import PACK_BYTES_LIMIT, PACK_CHUNKS_LIMIT, PackStore
from livingdb.chunks.repack import DEFAULT_LEVEL, DEPTH_LIMIT, RepackReport, repack
from livingdb.chunks.types import parse_descriptor
from livingdb.errors import Corruption, NotFound

__all__ = ["PackSwap", "repack_packs", "write_again"]


@dataclass(frozen=True, slots=True)
class PackSwap:
    """Packs that took the place of others."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    report: RepackReport


def repack_packs(
    store: PackStore,
    names: Sequence[str],
    *,
    older: Mapping[Address, Address] | None = None,
    live: Container[Address] | None = None,
    swap: Callable[[PackSwap], None] | None = None,
    level: int = DEFAULT_LEVEL,
    depth_limit: int = DEPTH_LIMIT,
    bytes_limit: int = PACK_BYTES_LIMIT,
    chunks_limit: int = PACK_CHUNKS_LIMIT,
) -> PackSwap:
    """Write the chunks of some packs of a store into new packs, tighter, and read those instead.

    `older` names, for a chunk, the one it replaced (see `repack`).  `live` are the chunks to
    keep, with what chunks in other packs are stored against; without it, all are.  `swap` is
    called when the new packs are durable and every chunk in them was read back without the old
    ones: there a catalog makes them the packs that count.
    The old packs' files stay, for readers that still hold them.

    If anything fails before `swap` is called, the new packs are gone and nothing has changed;
    if `swap` fails, both old and new ones are read.
    """
    names = tuple(dict.fromkeys(names))
    unknown = sorted(set(names) - set(store.names))
    if unknown:
        raise NotFound(f"no such pack: {', '.join(unknown)}")
    pairs = {
        address: older.get(address) if older else None
        for address in store.with_packs(names).in_written_order()
        if live is None or address in live
    }
    new, report = write_again(
        store, names, pairs, level, depth_limit, bytes_limit=bytes_limit, chunks_limit=chunks_limit
    )
    done = PackSwap(names, new, report)
    if swap is not None:
        swap(done)
    store.remove(*names)
    return done


def write_again(
    store: PackStore,
    names: Sequence[str],
    pairs: Mapping[Address, Address | None],
    level: int = DEFAULT_LEVEL,
    depth_limit: int = DEPTH_LIMIT,
    *,
    bytes_limit: int = PACK_BYTES_LIMIT,
    chunks_limit: int = PACK_CHUNKS_LIMIT,
) -> tuple[tuple[str, ...], RepackReport]:
    """Write chunks of some packs into new ones, and read them back without the old ones.

    `pairs` are the chunks and those they replaced.  What is written may lean on chunks of the
    store's other packs, and on nothing else.  If anything fails, the new packs are gone.
    """
    others = tuple(name for name in store.names if name not in names)
    remaining = store.with_packs(others)

    def lasts(address: Address) -> bool:
        return bool(remaining.contains([address])[0])

    with store.writer(bytes_limit, chunks_limit, again=True) as stream:
        report = repack(
            pairs.items(),
            store.get,
            stream.add,
            level=level,
            depth_limit=depth_limit,
            lasts=lasts,
            block_sink=stream.add_block,
            fetch_many=store.read_in_order,
        )
        new = stream.flush()
        written = store.with_packs(new)
        if not written.contains(list(pairs)).all():
            raise Corruption("a pack was written and not all of its chunks are there")
        _read_back(written, store.with_packs((*others, *new)))
    return new, report


def _read_back(new: PackStore, whole: PackStore) -> None:
    """Read every column of every chunk from the new packs; `Corruption` if one cannot be."""
    done = new.read_back_blocks()
    others = (address for address in new.in_written_order() if address not in done)
    for address, buffer in new.read_in_order(others):
        chunk = Chunk(address, buffer, whole.get)
        if chunk.kind == RECORD:
            chunk.payload()
            continue
        for position, descriptor in enumerate(chunk.descriptors):
            chunk.canonical(position, parse_descriptor(descriptor))
