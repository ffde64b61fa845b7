"""Chunks: a header that names the content, then the bodies that hold it.

    stored chunk = header length (u16) · header · directory · column bodies
    header       = magic · kind · level · rows · columns × (descriptor, digest)
    directory    = reference? · columns × (compression, stored bytes, encoded bytes)

The address is the BLAKE3 of the header alone.  A column is read, decompressed and verified
without touching the others.  The directory is free to change: how bytes are encoded is no
part of a name.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import zstandard

from livingdb.chunks.address import ADDRESS_BYTES, Address, digest, short
from livingdb.chunks.body import decode_body, encode_body
from livingdb.chunks.canonical import digest_column, from_arrow, to_arrow
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.chunks.types import describe, parse_descriptor
from livingdb.errors import Corruption, InvalidData, Unsupported

__all__ = [
    "LEAF",
    "MAX_CHUNK_ROWS",
    "NODE",
    "RECORD",
    "Chunk",
    "Draft",
    "Fetch",
    "PhysicalColumn",
    "assemble",
    "compress_draft",
    "compress_drafts",
    "decompress_ahead",
    "draft_chunk",
    "encode_chunk",
    "encode_record",
    "read_record",
]

MAGIC = b"LDC1"
LEAF, NODE, RECORD = 0, 1, 2
MAX_CHUNK_ROWS = 1 << 24
MAX_BODY_BYTES = 2**31 - 1
DEFAULT_LEVEL = 1
MAX_REFERENCE_DEPTH = 8
MIN_COMPRESSED_BYTES = 32

_START = struct.Struct("<4sBBIH")  # magic, kind, level, rows, columns
_LENGTH = struct.Struct("<H")
_ENTRY = struct.Struct("<BII")  # compression, stored bytes, encoded bytes
_RECORD_DESCRIPTOR = b"\0"
_RAW, _ZSTD, _DICTIONARY, _PATCH = 0, 1, 2, 3
_MAX_AHEAD_BYTES = 1 << 20

Fetch = Callable[[Address], Buffer]
_local = threading.local()


def compressor(level: int) -> zstandard.ZstdCompressor:
    """This thread's compressor of that level."""
    cache: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("compressors", {})
    if level not in cache:
        cache[level] = zstandard.ZstdCompressor(
            level=level, write_checksum=False, write_content_size=False
        )
    return cache[level]


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """How one column lies in a stored chunk."""

    compression: int
    stored: bytes | memoryview
    encoded_bytes: int


# --- writing ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """A chunk whose columns are encoded but not yet compressed."""

    header: bytes
    bodies: list[bytes]

    @property
    def address(self) -> Address:
        """The address the chunk will have."""
        return digest(self.header)


def encode_chunk(
    arrays: Sequence[pa.Array],
    *,
    kind: int = LEAF,
    level: int = 0,
    names: Sequence[str] | None = None,
    compression_level: int = DEFAULT_LEVEL,
) -> StoredChunk:
    """The chunk of these columns, all of one length and of chunk types."""
    draft = draft_chunk(arrays, kind=kind, level=level, names=names)
    return compress_draft(draft, compression_level)


def draft_chunk(
    arrays: Sequence[pa.Array],
    *,
    kind: int = LEAF,
    level: int = 0,
    names: Sequence[str] | None = None,
) -> Draft:
    """The chunk of these columns up to compression."""
    rows = len(arrays[0]) if arrays else 0
    if rows > MAX_CHUNK_ROWS:
        raise InvalidData(f"a chunk holds at most {MAX_CHUNK_ROWS} rows, not {rows}")
    header = [_START.pack(MAGIC, kind, level, rows, len(arrays))]
    bodies = []
    for position, array in enumerate(arrays):
        if len(array) != rows:
            raise InvalidData("the columns of a chunk must have one length")
        column = from_arrow(array, names[position] if names else str(position))
        header.append(describe(array.type))
        header.append(digest_column(column))
        bodies.append(encode_body(column, array.type))
    return Draft(b"".join(header), bodies)


def compress_draft(draft: Draft, level: int = DEFAULT_LEVEL) -> StoredChunk:
    """The stored form of a draft."""
    return assemble(draft.header, [_compress(body, level) for body in draft.bodies])


def compress_drafts(drafts: Sequence[Draft], level: int = DEFAULT_LEVEL) -> list[StoredChunk]:
    """The stored forms of many drafts, compressed in one call that holds no lock."""
    bodies = [body for draft in drafts for body in draft.bodies]
    large = [body for body in bodies if len(body) > MIN_COMPRESSED_BYTES]
    packed = iter(_compress_many(large, level))
    columns = iter(
        [
            _smaller(body, next(packed)) if len(body) > MIN_COMPRESSED_BYTES
            else PhysicalColumn(_RAW, body, len(body))
            for body in bodies
        ]
    )
    return [assemble(draft.header, [next(columns) for _ in draft.bodies]) for draft in drafts]


def _compress_many(bodies: list[bytes], level: int) -> list[bytes]:
    many = getattr(compressor(level), "multi_compress_to_buffer", None)
    if many is None or len(bodies) < 2:
        return [compressor(level).compress(body) for body in bodies]
    return [segment.tobytes() for segment in many(bodies, threads=1)]


def _smaller(body: bytes, packed: bytes) -> PhysicalColumn:
    if len(body) > MAX_BODY_BYTES:
        raise InvalidData("the values of one column of one chunk take more than 2 GiB")
    if len(packed) < len(body):
        return PhysicalColumn(_ZSTD, packed, len(body))
    return PhysicalColumn(_RAW, body, len(body))


def encode_record(payload: bytes) -> StoredChunk:
    """A chunk that holds one opaque record."""
    start = _START.pack(MAGIC, RECORD, 0, 1, 1)
    header = start + _RECORD_DESCRIPTOR + digest(payload)
    return assemble(header, [_compress(payload, DEFAULT_LEVEL)])


def _compress(encoded: bytes, level: int) -> PhysicalColumn:
    if len(encoded) <= MIN_COMPRESSED_BYTES:
        return PhysicalColumn(_RAW, encoded, len(encoded))
    return _smaller(encoded, compressor(level).compress(encoded))


def assemble(
    header: bytes, columns: Sequence[PhysicalColumn], reference: Address | None = None
) -> StoredChunk:
    """The stored form: this header over these bodies."""
    if len(header) > 0xFFFF:
        raise Unsupported("a chunk header takes at most 64 KiB: too many columns in one group")
    parts: list[bytes | memoryview] = [_LENGTH.pack(len(header)), header]
    parts.append(b"\0" if reference is None else b"\1" + reference)
    parts += [_ENTRY.pack(c.compression, len(c.stored), c.encoded_bytes) for c in columns]
    parts += [c.stored for c in columns]
    return StoredChunk(digest(header), b"".join(parts))


# --- reading ------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _parse_header(header: bytes) -> tuple[int, int, int, tuple[bytes, ...], tuple[bytes, ...]]:
    """Kind, level, rows, descriptors and digests."""
    magic, kind, level, rows, count = _START.unpack_from(header)
    if magic != MAGIC or kind > RECORD or rows > MAX_CHUNK_ROWS:
        raise Corruption("not a chunk header")
    at = _START.size
    descriptors, digests = [], []
    for _ in range(count):
        size = 1 if kind == RECORD else _descriptor_size(header, at)
        descriptors.append(header[at : at + size])
        digests.append(header[at + size : at + size + ADDRESS_BYTES])
        at += size + ADDRESS_BYTES
    if at != len(header):
        raise Corruption("chunk header has the wrong length")
    return kind, level, rows, tuple(descriptors), tuple(digests)


def _descriptor_size(header: bytes, at: int) -> int:
    """Bytes of the descriptor that starts here."""
    start = at
    open_types = 1
    while open_types:
        code = header[at]
        if code in (8, 17):
            at += 3
        elif code == 15:
            open_types += struct.unpack_from("<H", header, at + 1)[0]
            at += 3
        else:
            open_types += {14: 1, 16: 2}.get(code, 0)
            at += 1
        open_types -= 1
    return at - start


class Chunk:
    """A stored chunk, verified down to its header; columns are verified as they are read."""

    __slots__ = (
        "_buffer",
        "_directory_at",
        "_fetch",
        "_plain",
        "address",
        "descriptors",
        "digests",
        "header",
        "kind",
        "level",
        "rows",
    )

    def __init__(self, address: Address, buffer: Buffer, fetch: Fetch | None = None):
        self.address = address
        self._buffer = buffer
        self._fetch = fetch
        self._plain: dict[int, bytes | memoryview] = {}
        try:
            (length,) = _LENGTH.unpack(buffer[:2])
            header = bytes(buffer[2 : 2 + length])
            if digest(header) != address:
                raise Corruption("its header does not have its address")
            parsed = _parse_header(header)
        except (struct.error, IndexError):
            raise Corruption(f"chunk {short(address)} is cut short") from None
        except Corruption as error:
            raise Corruption(f"chunk {short(address)}: {error}") from None
        self.header = header
        self.kind, self.level, self.rows, self.descriptors, self.digests = parsed
        self._directory_at = 2 + length

    def column(self, position: int, data_type: pa.DataType | None = None) -> pa.Array:
        """One column, verified; `data_type` supplies field names and zones."""
        descriptor = self.descriptors[position]
        if data_type is None:
            data_type = parse_descriptor(descriptor)
        elif describe(data_type) != descriptor:
            raise Corruption(
                f"chunk {short(self.address)}, column {position} holds "
                f"{parse_descriptor(descriptor)}, not {data_type}"
            )
        try:
            column = decode_body(memoryview(self.encoded(position)), data_type, self.rows)
        except Corruption as error:
            raise self._corrupt(position, error) from None
        if digest_column(column) != self.digests[position]:
            raise self._corrupt(position, "its bytes do not have its digest")
        return to_arrow(column, data_type)

    def encoded(self, position: int, depth: int = 0) -> bytes | memoryview:
        """The encoded body of a column, decompressed and not yet verified."""
        ahead = self._plain.pop(position, None)
        if ahead is not None:
            return ahead
        physical = self.physical(position)
        if physical.compression == _RAW:
            return physical.stored
        try:
            if physical.compression == _ZSTD:
                codec = _decompressor()
            else:
                prefix = self._prefix(physical.compression, position, depth)
                codec = zstandard.ZstdDecompressor(dict_data=prefix)
            plain = codec.decompress(physical.stored, max_output_size=physical.encoded_bytes)
        except (zstandard.ZstdError, MemoryError) as error:
            raise self._corrupt(position, error) from None
        if len(plain) != physical.encoded_bytes:
            raise self._corrupt(position, "it decompresses to the wrong length")
        return plain

    def physical(self, position: int) -> PhysicalColumn:
        """How the column is stored; `Corruption` if the directory cannot be right."""
        buffer, count = self._buffer, len(self.descriptors)
        at = self._directory_at
        at += 1 if bytes(buffer[at : at + 1]) == b"\0" else 1 + ADDRESS_BYTES
        directory = bytes(buffer[at : at + count * _ENTRY.size])
        start = at + count * _ENTRY.size
        try:
            for before in range(position):
                start += _ENTRY.unpack_from(directory, before * _ENTRY.size)[1]
            compression, stored, encoded = _ENTRY.unpack_from(directory, position * _ENTRY.size)
        except struct.error:
            raise self._corrupt(position, "its directory is cut short") from None
        body = buffer[start : start + stored]
        if len(body) != stored or encoded > MAX_BODY_BYTES or compression > _PATCH:
            raise self._corrupt(position, "its directory entry is impossible")
        if compression == _RAW and stored != encoded:
            raise self._corrupt(position, "its directory entry is impossible")
        return PhysicalColumn(compression, body, encoded)

    @property
    def reference(self) -> Address | None:
        """The chunk this one is stored against, if any."""
        at = self._directory_at
        if bytes(self._buffer[at : at + 1]) == b"\0":
            return None
        return Address(bytes(self._buffer[at + 1 : at + 1 + ADDRESS_BYTES]))

    def _prefix(self, compression: int, position: int, depth: int) -> zstandard.ZstdCompressionDict:
        reference = self.reference
        if reference is None or self._fetch is None or depth >= MAX_REFERENCE_DEPTH:
            raise self._corrupt(position, "the chunk it is stored against cannot be read")
        base = Chunk(reference, self._fetch(reference), self._fetch)
        if compression == _DICTIONARY:
            return zstandard.ZstdCompressionDict(read_record(base))
        if position >= len(base.descriptors):
            raise self._corrupt(position, "the chunk it is stored against has fewer columns")
        prefix = bytes(base.encoded(position, depth + 1))
        return zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)

    def _corrupt(self, position: int, why: object) -> Corruption:
        return Corruption(f"chunk {short(self.address)}, column {position}: {why}")


def decompress_ahead(chunks: Sequence[Chunk], positions: Sequence[int]) -> None:
    """Decompress columns of many chunks in one call that holds no lock.

    Each is held until `encoded` or `column` asks for it.  What cannot be done in bulk, or
    fails, is left to them.
    """
    many = getattr(_decompressor(), "multi_decompress_to_buffer", None)
    if many is None:
        return
    places: list[tuple[Chunk, int]] = []
    frames: list[bytes | memoryview] = []
    sizes: list[int] = []
    for chunk in chunks:
        for position in positions:
            physical = chunk.physical(position)
            if physical.compression == _ZSTD and physical.encoded_bytes <= _MAX_AHEAD_BYTES:
                places.append((chunk, position))
                frames.append(physical.stored)
                sizes.append(physical.encoded_bytes)
    if len(frames) < 2:
        return
    try:
        plain = many(frames, decompressed_sizes=struct.pack(f"<{len(sizes)}Q", *sizes), threads=1)
    except (zstandard.ZstdError, MemoryError):
        return
    for (chunk, position), segment in zip(places, plain, strict=True):
        chunk._plain[position] = memoryview(segment)


def read_record(chunk: Chunk) -> bytes:
    """The payload of a record chunk, verified."""
    if chunk.kind != RECORD:
        raise Corruption(f"chunk {short(chunk.address)} is not a record")
    payload = bytes(chunk.encoded(0))
    if digest(payload) != chunk.digests[0]:
        raise Corruption(f"record {short(chunk.address)}: its bytes do not have its digest")
    return payload
