"""The index of a pack: where each chunk lies, found by binary search and checked as it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from livingdb.chunks.address import ADDRESS_BYTES, Address, digest
from livingdb.chunks.pack_format import (
    BLOCK_ENTRIES,
    HEADER_BYTES,
    IN_BLOCK,
    Trailer,
    block_digest,
)
from livingdb.errors import Corruption, InvalidData

__all__ = ["PackIndex"]

Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]

BlockHead = Callable[[int], tuple[int, int]]

_WORDS = ADDRESS_BYTES // 8
_SLICE = 1 << 16


class PackIndex:
    """The sorted index of one pack, as views on its bytes: nothing is copied or read ahead.

    Every answer rests on entries whose block was checked against its digest: a hit on its own
    entry, a miss on the two entries it would lie between.  What was damaged raises
    `Corruption`.
    """

    def __init__(self, section: bytes | memoryview, trailer: Trailer, name: str) -> None:
        layout = trailer.layout
        view = memoryview(section)
        assert len(view) == layout.trailer_at - layout.digests_at
        self._name = name
        self._count = count = layout.count
        self._layout = layout
        self._has_blocks = trailer.has_blocks

        def part(start: int, stop: int) -> memoryview:
            return view[start - layout.digests_at : stop - layout.digests_at]

        self._digests = part(layout.digests_at, layout.prefixes_at)
        if digest(self._digests) != trailer.index_digest:
            raise Corruption(f"pack {name}: the digests of its index are damaged")
        self.bodies_digest = (
            bytes(self._digests[-ADDRESS_BYTES:]) if trailer.has_bodies_digest else None
        )
        self._columns = (
            part(layout.prefixes_at, layout.addresses_at),
            part(layout.addresses_at, layout.offsets_at),
            part(layout.offsets_at, layout.lengths_at),
            part(layout.lengths_at, layout.trailer_at),
        )
        prefixes, addresses, offsets, lengths = self._columns
        self._prefixes: Numbers = np.frombuffer(prefixes, "<u8")
        self._words: Numbers = np.frombuffer(addresses, "<u8").reshape(count, _WORDS)
        self._offsets: Numbers = np.frombuffer(offsets, "<u8")
        self._lengths: npt.NDArray[np.uint32] = np.frombuffer(lengths, "<u4")
        self._checked = np.zeros(-(-count // BLOCK_ENTRIES), np.bool_)

    def __len__(self) -> int:
        return self._count

    def place(self, address: Address) -> int:
        """Which entry has this address; -1 if none has."""
        key = np.uint64(int.from_bytes(address[:8], "big"))
        place = int(self._prefixes.searchsorted(key))
        if place:
            self._check(place - 1)
            if self._prefixes[place - 1] >= key:
                raise self._disorder()
        if place < self._count:
            self._check(place)
            if self._prefixes[place] < key:
                raise self._disorder()
        while place < self._count and self._prefixes[place] == key:
            self._check(place)
            if self._address(place) == address:
                return place
            place += 1
        return -1

    def find(self, addresses: Sequence[Address]) -> Places:
        """Which entry has each of the addresses; -1 where none has."""
        found = np.full(len(addresses), -1, np.int64)
        if not self._count or not len(addresses):
            return found
        wanted = _words(addresses)
        keys = wanted[:, 0].byteswap()
        places = self._prefixes.searchsorted(keys).astype(np.int64, copy=False)
        self._check_order(keys, places)
        open_ones = np.arange(len(addresses))
        while len(open_ones):
            open_ones = open_ones[places[open_ones] < self._count]
            self._check_all(places[open_ones])
            open_ones = open_ones[self._prefixes[places[open_ones]] == keys[open_ones]]
            same = (self._words[places[open_ones]] == wanted[open_ones]).all(axis=1)
            found[open_ones[same]] = places[open_ones[same]]
            open_ones = open_ones[~same]
            places[open_ones] += 1
        return found

    def span(self, place: int) -> tuple[int, int]:
        """Where the body of an entry begins and ends in the pack."""
        self._check(place)
        start = int(self._offsets[place])
        stop = start + int(self._lengths[place])
        if not HEADER_BYTES <= start <= stop <= self._layout.bodies_end:
            raise Corruption(f"pack {self._name}: a chunk at {start}–{stop} is not in its bodies")
        return start, stop

    def bodies(self, places: Places) -> tuple[Places, list[int], list[int]]:
        """Where the bodies of entries begin, in that order: which entries, starts and lengths.

        Of what is in a block, where that begins, and a length as the index has it.
        """
        self._check_all(places)
        order = np.lexsort((self._lengths[places], self._offsets[places]))
        starts, lengths = self._offsets[places[order]], self._lengths[places[order]]
        stops = starts + lengths
        if self._has_blocks:
            stops[(lengths & IN_BLOCK) != 0] = 0
        edges = np.uint64(HEADER_BYTES), np.uint64(self._layout.bodies_end)
        if ((starts < edges[0]) | (stops > edges[1])).any():
            raise Corruption(f"pack {self._name}: a chunk is not in its bodies")
        return order, starts.tolist(), lengths.tolist()

    def block_place(self, place: int) -> tuple[int, int] | None:
        """Where the block of an entry begins, and its place in that; None if it is in none."""
        if not self._has_blocks:
            return None
        self._check(place)
        length = int(self._lengths[place])
        return (int(self._offsets[place]), length & ~IN_BLOCK) if length & IN_BLOCK else None

    def batches(self, size: int) -> Iterator[list[Address]]:
        """All addresses in ascending order, up to `size` at a time."""
        for first in range(0, self._count, size):
            last = min(first + size, self._count)
            self._check_all(np.arange(first, last))
            yield self._addresses(first, last)

    def in_body_order(self) -> list[Address]:
        """All addresses in the order in which the bodies lie: that in which they were written."""
        self._check_all(np.arange(self._count))
        order = np.lexsort((self._lengths, self._offsets))
        addresses = self._addresses(0, self._count)
        return [addresses[place] for place in order.tolist()]

    def problems(self, block_head: BlockHead) -> Iterator[str]:
        """What is wrong with the index, block by block and as a whole.

        `block_head` tells of a block of records how many bytes it takes, and how many it holds.
        """
        for block in range(len(self._checked)):
            if not self._is_sound(block):
                yield f"pack {self._name}: block {block} of its index is damaged"
        for first in range(0, self._count, _SLICE):
            addresses = self._words[first : first + _SLICE + 1].byteswap()
            if not _ascending_mask(addresses).all():
                yield f"pack {self._name}: its addresses are not in order after entry {first}"
            prefixes = self._prefixes[first : first + _SLICE + 1]
            if not np.array_equal(addresses[:, 0], prefixes):
                yield f"pack {self._name}: its prefixes differ from its addresses"
        yield from self._body_problems(block_head)

    def _body_problems(self, block_head: BlockHead) -> Iterator[str]:
        offsets, lengths = self._offsets, self._lengths.astype(np.uint64)
        if self._has_blocks:
            in_block = (self._lengths & IN_BLOCK) != 0
            blocks, counts = np.unique(offsets[in_block], return_counts=True)
            heads = [block_head(int(at)) for at in blocks]
            places = self._lengths[in_block] & ~np.uint32(IN_BLOCK)
            ordered = places[np.lexsort((places, offsets[in_block]))]
            expected = [np.arange(count) for count in counts.tolist()]
            is_whole = [count for _, count in heads] == counts.tolist()
            if not is_whole or (len(blocks) and (ordered != np.concatenate(expected)).any()):
                yield f"pack {self._name}: a block of records does not hold what it should"
            offsets = np.concatenate((offsets[~in_block], blocks))
            taken = np.array([size for size, _ in heads], np.uint64)
            lengths = np.concatenate((lengths[~in_block], taken))
        order = np.lexsort((lengths, offsets))
        starts = offsets[order]
        stops = starts + lengths[order]
        edges = np.uint64(HEADER_BYTES), np.uint64(self._layout.bodies_end)
        if len(starts) and (starts.min() < edges[0] or stops.max() > edges[1]):
            yield f"pack {self._name}: a chunk lies outside of its bodies"
        if (stops < starts).any() or (starts[1:] < stops[:-1]).any():
            yield f"pack {self._name}: two chunks overlap"
        if (np.concatenate((edges[:1], stops)) != np.concatenate((starts, edges[1:]))).any():
            yield f"pack {self._name}: its chunks do not fill its bodies"

    def _address(self, place: int) -> Address:
        start = place * ADDRESS_BYTES
        return Address(bytes(self._columns[1][start : start + ADDRESS_BYTES]))

    def _addresses(self, first: int, last: int) -> list[Address]:
        size = ADDRESS_BYTES
        joined = bytes(self._columns[1][first * size : last * size])
        return [Address(joined[at : at + size]) for at in range(0, len(joined), size)]

    def _check_order(self, keys: Numbers, places: Places) -> None:
        # The search ran over entries not checked yet; that both neighbours are sound and lie
        # on their sides of the key proves that it ended where it should.
        inner = places > 0
        self._check_all(places[inner] - 1)
        ordered = (self._prefixes[places[inner] - 1] < keys[inner]).all()
        inner = places < self._count
        self._check_all(places[inner])
        if not ordered or not (self._prefixes[places[inner]] >= keys[inner]).all():
            raise self._disorder()

    def _check_all(self, places: Places) -> None:
        blocks = places // BLOCK_ENTRIES
        for block in np.unique(blocks[~self._checked[blocks]]):
            self._check(int(block) * BLOCK_ENTRIES)

    def _check(self, place: int) -> None:
        block = place // BLOCK_ENTRIES
        if not self._checked[block]:
            if not self._is_sound(block):
                raise Corruption(f"pack {self._name}: block {block} of its index is damaged")
            self._checked[block] = True

    def _is_sound(self, block: int) -> bool:
        start = block * ADDRESS_BYTES
        expected = self._digests[start : start + ADDRESS_BYTES]
        return block_digest(self._columns, block) == expected

    def _disorder(self) -> Corruption:
        return Corruption(f"pack {self._name}: its index is not in order")


def _words(addresses: Sequence[Address]) -> Numbers:
    joined = b"".join(addresses)
    if len(joined) != len(addresses) * ADDRESS_BYTES:
        raise InvalidData(f"an address has {ADDRESS_BYTES} bytes")
    return np.frombuffer(joined, "<u8").reshape(len(addresses), _WORDS)


def _ascending_mask(words: Numbers) -> npt.NDArray[np.bool_]:
    """Where a row of big-endian words is above the row before it, the first word leading."""
    lower, upper = words[:-1], words[1:]
    above = lower[:, -1] < upper[:, -1]
    for word in reversed(range(_WORDS - 1)):
        above = (lower[:, word] < upper[:, word]) | ((lower[:, word] == upper[:, word]) & above)
    return above
