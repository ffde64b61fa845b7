"""Blocks of records: many small records compressed together, which name each other by place.

Records of snapshots and recipes mostly hold addresses, and mostly those of each other.  Alone
none of them can be compressed; in a block an address of a record before is three bytes.  The
header of a record follows from what it holds, so that it is not stored at all.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

import zstandard

from livingdb.chunks.address import Address
from livingdb.chunks.chunk_format import raw_record
from livingdb.chunks.compression import compressor, decompress, decompressor
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_HEAD_BYTES",
    "MOST_RECORDS",
    "block_head",
    "decode_block",
    "encode_block",
    "fits_block",
    "in_reference_order",
]

BLOCK_BYTES = 256 << 10
"""Where a block of records ends: whoever reads one of them decompresses all."""
MOST_RECORDS = 1 << 14
_MOST_PLAIN_BYTES = 1 << 24
_RECORD_BYTES_LIMIT = 32 << 10

_HEAD = struct.Struct("<III")  # bytes of the frame, bytes that it holds, records
BLOCK_HEAD_BYTES = _HEAD.size
_LENGTH = struct.Struct("<I")
_PLACE = struct.Struct("<H")
_NAMED = b"\x01"
_ADDRESS_TEXT = re.compile(rb"[0-9a-f]{64}")
_NAME = re.compile(_NAMED + rb"(..)", re.DOTALL)
_CONTROL = bytes(range(0x20))


def fits_block(payload: bytes) -> bool:
    """Whether a record can be in a block: it is small, and text without control characters."""
    if len(payload) > _RECORD_BYTES_LIMIT:
        return False
    return len(payload.translate(None, _CONTROL)) == len(payload)


def in_reference_order(payloads: Mapping[Address, bytes]) -> list[Address]:
    """Records so that each comes after those of them that it names, as far as that can be."""
    by_text = {address.hex().encode(): address for address in payloads}

    def named_in(address: Address) -> Iterator[Address]:
        texts = _ADDRESS_TEXT.findall(payloads[address])
        return iter([by_text[text] for text in texts if text in by_text])

    order: list[Address] = []
    seen: set[Address] = set()
    for first in payloads:
        if first in seen:
            continue
        seen.add(first)
        stack = [(first, named_in(first))]
        while stack:
            address, named = stack[-1]
            other = next((each for each in named if each not in seen), None)
            if other is None:
                order.append(address)
                stack.pop()
            else:
                seen.add(other)
                stack.append((other, named_in(other)))
    return order


def encode_block(records: Mapping[Address, bytes], level: int) -> bytes:
    """The block of these records, in this order."""
    assert 0 < len(records) <= MOST_RECORDS
    places: dict[bytes, bytes] = {}

    def shorten(match: re.Match[bytes]) -> bytes:
        return places.get(match[0], match[0])

    coded = []
    for place, (address, payload) in enumerate(records.items()):
        coded.append(_ADDRESS_TEXT.sub(shorten, payload))
        places[address.hex().encode()] = _NAMED + _PLACE.pack(place)
    plain = b"".join([*(_LENGTH.pack(len(part)) for part in coded), *coded])
    frame = compressor(level).compress(plain)
    return _HEAD.pack(len(frame), len(plain), len(records)) + frame


def block_head(head: bytes | memoryview) -> tuple[int, int]:
    """How many bytes a block takes in all, and how many records it holds, from its first bytes."""
    try:
        frame_bytes, _, count = _HEAD.unpack(head)
    except struct.error:
        raise Corruption("a block of records is cut short") from None
    return BLOCK_HEAD_BYTES + frame_bytes, count


def decode_block(data: bytes | memoryview) -> list[StoredChunk]:
    """The records of a block, each as a chunk; whoever asks for one compares its address."""
    try:
        _, plain_bytes, count = _HEAD.unpack(data[:BLOCK_HEAD_BYTES])
        if plain_bytes > _MOST_PLAIN_BYTES or not 0 < count <= MOST_RECORDS:
            raise Corruption("a block of records claims too much")
        plain = decompress(decompressor(), data[BLOCK_HEAD_BYTES:], plain_bytes)
        return list(_records(plain, count))
    except (struct.error, zstandard.ZstdError, IndexError, MemoryError) as error:
        raise Corruption(f"a block of records is damaged: {error}") from None


def _records(plain: bytes, count: int) -> Iterator[StoredChunk]:
    lengths = [length for (length,) in _LENGTH.iter_unpack(plain[: _LENGTH.size * count])]
    at = _LENGTH.size * count
    if len(lengths) != count or at + sum(lengths) != len(plain):
        raise Corruption("the records of a block do not fill it")
    texts: list[bytes] = []

    def expand(match: re.Match[bytes]) -> bytes:
        place: int = _PLACE.unpack(match[1])[0]
        return texts[place]

    for length in lengths:
        part = plain[at : at + length]
        at += length
        payload = _NAME.sub(expand, part) if _NAMED in part else part
        stored = raw_record(payload)
        texts.append(stored.address.hex().encode())
        yield stored
