"""Columns of many chunks, decompressed and decoded before they are asked for."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import zstandard

from livingdb.chunks.chunk import RAW, ZSTD, Chunk, PhysicalColumn
from livingdb.chunks.compression import decompressor
from livingdb.chunks.decode_together import decode_together
from livingdb.chunks.types import parse_descriptor

__all__ = ["decode_ahead"]

_MOST_BYTES, _MOST_COLUMN_BYTES = 16 << 20, 1 << 20
_VALUE_BYTES = 8


def decode_ahead(chunks: Sequence[Chunk], positions: Sequence[int]) -> None:
    """Decompress and decode columns of many chunks, in a few calls that hold no lock.

    Each chunk holds its own until `column` or `canonical` asks for them, and verifies them then.
    What cannot be done in bulk, fails, or would take much memory is left to these.
    """
    alike: dict[tuple[int, bytes], list[tuple[Chunk, memoryview]]] = {}
    for chunk, position, body in _bodies(chunks, positions):
        place = (position, chunk.descriptors[position])
        alike.setdefault(place, []).append((chunk, body))
    for (position, descriptor), members in alike.items():
        if len(members) == 1:
            members[0][0].hold(position, members[0][1])
            continue
        bodies, rows = [body for _, body in members], [chunk.rows for chunk, _ in members]
        decoded = decode_together(bodies, rows, parse_descriptor(descriptor))
        for (chunk, body), column in zip(members, decoded, strict=True):
            chunk.hold(position, body if column is None else column)


def _bodies(
    chunks: Sequence[Chunk], positions: Sequence[int]
) -> list[tuple[Chunk, int, memoryview]]:
    """The bodies of columns that stand alone, decompressed."""
    bodies: list[tuple[Chunk, int, memoryview]] = []
    packed: list[tuple[Chunk, int, PhysicalColumn]] = []
    left_bytes = _MOST_BYTES
    for chunk in chunks:
        for position in positions:
            column = chunk.physical(position)
            size_bytes = max(column.encoded_bytes, _VALUE_BYTES * chunk.rows)
            if column.encoded_bytes > _MOST_COLUMN_BYTES or size_bytes > left_bytes:
                continue
            if column.compression == ZSTD:
                packed.append((chunk, position, column))
            elif column.compression == RAW:
                bodies.append((chunk, position, memoryview(column.stored)))
            else:
                continue
            left_bytes -= size_bytes
    plain = _decompress([column for *_, column in packed])
    bodies += [(*place[:2], body) for place, body in zip(packed, plain, strict=False)]
    return bodies


def _decompress(columns: Sequence[PhysicalColumn]) -> list[memoryview]:
    """The bodies of columns, in one call; none if that is not to be had, or fails."""
    many = getattr(decompressor(), "multi_decompress_to_buffer", None)
    if many is None or len(columns) < 2:
        return []
    sizes = struct.pack(f"<{len(columns)}Q", *[column.encoded_bytes for column in columns])
    try:
        found = many([c.stored for c in columns], decompressed_sizes=sizes, threads=1)
    except (zstandard.ZstdError, MemoryError):
        return []
    return [memoryview(body) for body in found]
