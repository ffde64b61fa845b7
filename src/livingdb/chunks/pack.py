"""Packs: one immutable file of many chunks, with a sorted index in its footer.

`pack_format` draws the file.  Opening a pack reads its header, its trailer and one digest for
every 256 chunks, whatever else is in it; lookups touch only what they need.  A damaged
pack gives `Corruption`, never a wrong answer; bodies are opaque, and verified by whoever decodes
them.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from livingdb.chunks.address import ADDRESS_BYTES, Address, digest
from livingdb.chunks.chunk_format import stored_against
from livingdb.chunks.pack_format import (
    BLOCK_ENTRIES,
    BLOCKS_VERSION,
    COUNT_LIMIT,
    FORMAT_VERSION,
    HEADER_BYTES,
    IN_BLOCK,
    LENGTH_LIMIT,
    TRAILER_BYTES,
    Layout,
    Trailer,
    block_digest,
    header,
)
from livingdb.chunks.pack_index import PackIndex
from livingdb.chunks.record_block import (
    BLOCK_HEAD_BYTES,
    block_head,
    decode_block,
    encode_block,
)
from livingdb.chunks.store import Buffer, StoredChunk, missing_chunk
from livingdb.errors import Corruption, NotFound, Unsupported

__all__ = ["ByteSink", "Pack", "PackWriter", "RangedBody"]

_PREFETCH_BYTES = 4 << 10
_TAIL_BYTES = 64 << 10
_WRITE_BYTES = 1 << 20
_VERIFIED_BYTES = 8 << 20
_BLOCKS_KEPT = 8


class Pack:
    """One pack, read through a buffer: a memory map, or a ranged reader of an object store.

    Threads may share it.  From a memory map nothing is copied.  From a ranged reader, opening
    costs one read, the first lookup one more if the index is large, and each chunk one of its
    first bytes; the rest of a chunk is read as it is sliced.
    """

    def __init__(self, buffer: Buffer, name: str = "(unnamed)") -> None:
        self._name = name
        self._mapped = isinstance(buffer, bytes | bytearray | memoryview)
        self._buffer = memoryview(buffer).toreadonly() if self._mapped else buffer  # type: ignore[arg-type]
        self._size = len(buffer)
        self._fetching = Lock()
        self._known_index: PackIndex | None = None
        self._blocks: OrderedDict[int, list[StoredChunk]] = OrderedDict()
        if self._size < TRAILER_BYTES:
            raise Corruption(f"pack {name}: {self._size} bytes are too few for a pack")
        tail_at = max(0, self._size - (TRAILER_BYTES if self._mapped else _TAIL_BYTES))
        tail = memoryview(self._read(tail_at, self._size))
        self._trailer = Trailer.from_bytes(tail[-TRAILER_BYTES:], self._size, name)
        self._layout = self._trailer.layout
        if self._mapped:
            self._check_header()
            self._index()
        elif tail_at <= self._layout.digests_at:
            section = tail[self._layout.digests_at - tail_at : -TRAILER_BYTES]
            self._known_index = PackIndex(section, self._trailer, name)

    @property
    def name(self) -> str:
        """The name that errors mention."""
        return self._name

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return self._size

    def __len__(self) -> int:
        return self._layout.count

    def __contains__(self, address: Address) -> bool:
        return self._index().place(address) >= 0

    def find(self, addresses: Sequence[Address]) -> npt.NDArray[np.int64]:
        """The place of each address in the order of the pack; -1 where it is not here."""
        return self._index().find(addresses)

    def lookup(self, address: Address) -> Buffer | None:
        """The stored bytes, or None if the chunk is not here."""
        index = self._index()
        place = index.place(address)
        if place < 0:
            return None
        in_block = index.block_place(place)
        if in_block is not None:
            return self._block_record(*in_block).data
        start, stop = index.span(place)
        return self._body(start, stop - start)

    def read_in_order(self, addresses: Sequence[Address]) -> Iterator[tuple[Address, Buffer]]:
        """Those of the addresses that are here with their bytes, in the order in which they lie."""
        for address, start, length in self._in_order(addresses):
            if self._is_in_block(length):
                yield address, self._block_record(start, length & ~IN_BLOCK).data
            else:
                yield address, self._body(start, length)

    def read_back_blocks(self) -> set[Address]:
        """The records in blocks, every one of which holds what its address names.

        `Corruption` if that is not so.
        """
        found: set[Address] = set()
        for address, start, length in self._in_order(list(self.addresses())):
            if self._is_in_block(length):
                if self._block_record(start, length & ~IN_BLOCK).address != address:
                    raise Corruption(f"pack {self._name}: a record is not the one it should be")
                found.add(address)
        return found

    def references(self, addresses: Sequence[Address]) -> dict[Address, Address | None]:
        """Those of the addresses that are here, each with the chunk it is stored against."""
        found: dict[Address, Address | None] = {}
        for address, start, length in self._in_order(addresses):
            is_record = self._is_in_block(length)
            found[address] = None if is_record else stored_against(self._body(start, length))
        return found

    def _in_order(self, addresses: Sequence[Address]) -> Iterator[tuple[Address, int, int]]:
        """Those of the addresses that are here, with what the index has of their places."""
        index = self._index()
        places = index.find(addresses)
        here = np.flatnonzero(places >= 0)
        order, starts, lengths = index.bodies(places[here])
        for at, start, length in zip(here[order].tolist(), starts, lengths, strict=True):
            yield addresses[at], start, length

    def _body(self, start: int, length: int) -> Buffer:
        if self._mapped:
            return self._read(start, start + length)
        return RangedBody(self, start, start + length)

    def _is_in_block(self, length: int) -> bool:
        return bool(length & IN_BLOCK) and self._trailer.has_blocks

    def sizes(self) -> dict[Address, int]:
        """How many bytes of the pack each chunk takes; of a block, its share."""
        index = self._index()
        addresses = list(self.addresses())
        shares: dict[int, int] = {}
        found: dict[Address, int] = {}
        order, starts, lengths = index.bodies(np.arange(len(self)))
        for at, start, length in zip(order.tolist(), starts, lengths, strict=True):
            if self._is_in_block(length):
                if start not in shares:
                    size_bytes, count = self._block_head(start)
                    shares[start] = size_bytes // max(count, 1)
                length = shares[start]
            found[addresses[at]] = length
        return found

    def stored_bytes(self, address: Address) -> int:
        """How many bytes of the pack a chunk takes; of a block, its share."""
        index = self._index()
        place = index.place(address)
        if place < 0:
            raise missing_chunk(address)
        in_block = index.block_place(place)
        if in_block is None:
            start, stop = index.span(place)
            return stop - start
        size_bytes, count = self._block_head(in_block[0])
        return size_bytes // max(count, 1)

    def _block_record(self, offset: int, place: int) -> StoredChunk:
        """A record in a block, as a chunk by itself."""
        records = self._blocks.get(offset)
        if records is None:
            size_bytes, _ = self._block_head(offset)
            try:
                records = decode_block(self._read(offset, offset + size_bytes))
            except Corruption as error:
                raise Corruption(f"pack {self._name}, block at {offset}: {error}") from None
            with self._fetching:
                self._blocks[offset] = records
                if len(self._blocks) > _BLOCKS_KEPT:
                    self._blocks.popitem(last=False)
        if place >= len(records):
            raise Corruption(f"pack {self._name}, block at {offset}: no record {place} in it")
        return records[place]

    def _block_head(self, offset: int) -> tuple[int, int]:
        """How many bytes the block there takes, and how many records it holds."""
        end = self._layout.bodies_end
        if not HEADER_BYTES <= offset <= end - BLOCK_HEAD_BYTES:
            raise Corruption(f"pack {self._name}: a block at {offset} is not in its bodies")
        size_bytes, count = block_head(self._read(offset, offset + BLOCK_HEAD_BYTES))
        if offset + size_bytes > end:
            raise Corruption(f"pack {self._name}: the block at {offset} is not in its bodies")
        return size_bytes, count

    def get(self, address: Address) -> Buffer:
        """The stored bytes; `Corruption` if there is no such chunk."""
        body = self.lookup(address)
        if body is None:
            raise missing_chunk(address)
        return body

    def batches(self, size: int) -> Iterator[list[Address]]:
        """All addresses in ascending order, up to `size` at a time."""
        return self._index().batches(size)

    def addresses(self) -> Iterator[Address]:
        """All addresses in ascending order."""
        for batch in self.batches(BLOCK_ENTRIES):
            yield from batch

    def in_body_order(self) -> list[Address]:
        """All addresses in the order in which the chunks were written."""
        return self._index().in_body_order()

    def verify(self) -> list[str]:
        """All that is wrong, in words; an empty list if nothing is.

        What the bodies of a pack of version 1 hold is verified by whoever decodes them alone.
        """
        problems: list[str] = []
        try:
            self._check_header()
            if any(self._read(self._layout.bodies_end, self._layout.digests_at)):
                problems.append(f"pack {self._name}: its padding is not zero")
            problems.extend(self._index().problems(self._block_head))
            expected = self._index().bodies_digest
            if expected is not None and self._digest_bodies() != expected:
                problems.append(f"pack {self._name}: its bodies do not have their digest")
        except Corruption as error:
            problems.append(str(error))
        return problems

    def _index(self) -> PackIndex:
        if self._known_index is None:
            with self._fetching:
                if self._known_index is None:
                    section = self._read(self._layout.digests_at, self._layout.trailer_at)
                    self._known_index = PackIndex(section, self._trailer, self._name)
        return self._known_index

    def _check_header(self) -> None:
        if self._read(0, HEADER_BYTES) != header(self._trailer.version):
            raise Corruption(f"pack {self._name}: its header is damaged")

    def _digest_bodies(self) -> bytes:
        hasher = blake3()
        for start in range(0, self._layout.bodies_end, _VERIFIED_BYTES):
            stop = min(start + _VERIFIED_BYTES, self._layout.bodies_end)
            hasher.update(self._read(start, stop))
        return hasher.digest()

    def _read(self, start: int, stop: int) -> bytes | memoryview:
        try:
            data = self._buffer[start:stop]
        except NotFound:
            raise Corruption(f"pack {self._name} is missing; run `check`") from None
        if len(data) != stop - start:
            raise Corruption(
                f"pack {self._name}: {len(data)} bytes at {start}, should be {stop - start}"
            )
        return data


class RangedBody:
    """A chunk in an object store: its first 4 KiB are here, the rest is read when sliced."""

    __slots__ = ("_head", "_pack", "_start", "_stop")

    def __init__(self, pack: Pack, start: int, stop: int) -> None:
        self._pack = pack
        self._start = start
        self._stop = stop
        self._head = pack._read(start, min(stop, start + _PREFETCH_BYTES))

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, span: slice, /) -> bytes | memoryview:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError("a chunk is sliced in steps of 1")
        if stop <= len(self._head):
            return self._head[start:stop]
        return self._pack._read(self._start + start, self._start + max(start, stop))


class ByteSink(Protocol):
    """Where a pack is written: a file of the seam, or anything that takes bytes in order."""

    def write(self, data: bytes | memoryview, /) -> object: ...


class PackWriter:
    """Writes one pack from start to end.

    Bodies go to the sink, small ones together; kept in memory are 44 bytes of index a chunk
    and what it takes to know an address again.  Nothing is a pack before `finish`.  `with_blocks`:
    records may be written together, and no chunk takes 2 GiB.
    """

    def __init__(self, sink: ByteSink, with_blocks: bool = False) -> None:
        self._sink = sink
        self._version = BLOCKS_VERSION if with_blocks else FORMAT_VERSION
        self._hasher = blake3()
        self._pending = bytearray()
        self._seen: set[bytes] = set()
        self._addresses = bytearray()
        self._offsets = array("Q")
        self._lengths = array("I")
        self._end = HEADER_BYTES
        self._write_body(header(self._version))

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def size_bytes(self) -> int:
        """How many bytes of the file there are so far."""
        return self._end

    def __contains__(self, address: Address) -> bool:
        return address in self._seen

    def add(self, chunk: StoredChunk) -> bool:
        """Write the chunk; False, and nothing written, if its address is in the pack already."""
        return self.add_all((chunk,)) == 1

    def add_all(self, chunks: Iterable[StoredChunk]) -> int:
        """Write chunks of different addresses, but those that are in the pack; how many."""
        new = [chunk for chunk in chunks if chunk.address not in self._seen]
        if not new:
            return 0
        addresses, lengths = [c.address for c in new], [len(c.data) for c in new]
        odd = next((len(one) for one in addresses if len(one) != ADDRESS_BYTES), None)
        if odd is not None:
            raise ValueError(f"an address has {ADDRESS_BYTES} bytes, not {odd}")
        most = LENGTH_LIMIT if self._version < BLOCKS_VERSION else IN_BLOCK - 1
        if max(lengths) > most or len(self) + len(new) > COUNT_LIMIT:
            raise Unsupported(f"a pack holds {COUNT_LIMIT} chunks of up to {most} bytes")
        self._write_body(new[0].data if len(new) == 1 else b"".join([c.data for c in new]))
        self._seen.update(addresses)
        self._addresses += b"".join(addresses)
        ends = list(accumulate(lengths, initial=self._end))
        self._offsets.extend(ends[:-1])
        self._lengths.extend(lengths)
        self._end = ends[-1]
        return len(new)

    def add_block(self, records: Mapping[Address, bytes], level: int) -> int:
        """Write records together, none of which is in the pack yet; in how many bytes."""
        assert self._version >= BLOCKS_VERSION
        assert self._seen.isdisjoint(records)
        if len(self) + len(records) > COUNT_LIMIT:
            raise Unsupported(f"a pack holds {COUNT_LIMIT} chunks")
        block = encode_block(records, level)
        self._write_body(block)
        for place, address in enumerate(records):
            self._seen.add(address)
            self._addresses += address
            self._offsets.append(self._end)
            self._lengths.append(IN_BLOCK | place)
        self._end += len(block)
        return len(block)

    def finish(self) -> Trailer:
        """Write the index and the trailer; the pack is then complete."""
        layout = Layout.of(len(self), self._end, self._version)
        words = np.frombuffer(self._addresses, ">u8").reshape(len(self), ADDRESS_BYTES // 8)
        prefixes = words[:, 0].astype("<u8")
        order = _address_order(words, prefixes)
        columns = tuple(
            column.view(np.uint8).data
            for column in (
                prefixes[order],
                np.frombuffer(self._addresses, f"V{ADDRESS_BYTES}")[order],
                np.frombuffer(self._offsets, np.uint64)[order].astype("<u8", copy=False),
                np.frombuffer(self._lengths, np.uint32)[order].astype("<u4", copy=False),
            )
        )
        blocks = range(-(-len(self) // BLOCK_ENTRIES))
        digests = b"".join(block_digest(columns, block) for block in blocks)
        digests += self._hasher.digest()
        trailer = Trailer(layout, digest(digests), self._version)
        self._write(bytes(layout.digests_at - layout.bodies_end))
        self._write(digests)
        for column in columns:
            self._write(column)
        self._write(trailer.to_bytes())
        self._flush()
        return trailer

    def _write_body(self, data: bytes | memoryview) -> None:
        self._hasher.update(data)
        self._write(data)

    def _write(self, data: bytes | memoryview) -> None:
        """Pass on the data: large ones as they are, small ones together."""
        if len(data) >= _WRITE_BYTES:
            self._flush()
            self._sink.write(data)
        else:
            self._pending += data
            if len(self._pending) >= _WRITE_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._sink.write(bytes(self._pending))
            self._pending.clear()


def _address_order(
    words: npt.NDArray[np.uint64], prefixes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """The order that sorts addresses; all four words are compared only where it matters."""
    order = np.argsort(prefixes, kind="stable")
    ranked = prefixes[order]
    if (ranked[1:] == ranked[:-1]).any():
        return np.lexsort(words.T[::-1])
    return order
