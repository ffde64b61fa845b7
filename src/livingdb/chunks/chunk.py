"""Chunks: a header that names the content, then the bodies that hold it.

`chunk_format` draws the bytes.  The address is the BLAKE3 of the header alone.  A column is
read, decompressed and verified without touching the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from livingdb.chunks.address import Address, digest, short
from livingdb.chunks.body import decode_body, encode_body, study_column
from livingdb.chunks.canonical import Column, digest_column, from_arrow, to_arrow
from livingdb.chunks.chunk_format import (
    BUILT_IN,
    DICTIONARY,
    LEAF,
    MAX_BODY_BYTES,
    MAX_CHUNK_ROWS,
    NODE,
    PATCH,
    RAW,
    RECORD,
    ZSTD,
    Directory,
    PhysicalColumn,
    assemble,
    assemble_record,
    header_place,
    parse_directory,
    plain_record,
    read_header,
    record_header,
    redaction_digest,
    redaction_header,
    start_of_header,
)
from livingdb.chunks.compression import (
    compressor,
    decompress,
    decompressor,
    dictionary_decompressor,
    patch_decompressor,
    record_compressor,
    record_decompressor,
)
from livingdb.chunks.plain import decode_plain, encode_plain
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.chunks.types import describe, parse_descriptor
from livingdb.errors import Corruption, InvalidData

__all__ = [
    "BUILT_IN",
    "DICTIONARY",
    "LEAF",
    "MAX_CHUNK_ROWS",
    "NODE",
    "PATCH",
    "RAW",
    "RECORD",
    "ZSTD",
    "Chunk",
    "Draft",
    "EncodedColumn",
    "Fetch",
    "PhysicalColumn",
    "assemble",
    "compress_draft",
    "compress_drafts",
    "compress_record",
    "draft_chunk",
    "encode_chunk",
    "encode_column",
    "encode_record",
    "join_columns",
    "plain_payload",
    "read_payload",
    "redacted_record",
    "references",
]

DEFAULT_LEVEL = 1
MAX_REFERENCE_DEPTH = 32
MIN_COMPRESSED_BYTES = 32

_MAX_TOGETHER_BYTES = 16 << 20

Fetch = Callable[[Address], Buffer]


# --- writing ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """A chunk whose columns are encoded but not yet compressed.

    `bounds` are the least and the greatest value of a column of text, where that was looked at.
    """

    header: bytes
    bodies: list[bytes]
    bounds: list[tuple[bytes, bytes] | None]

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
    quick: bool = False,
) -> StoredChunk:
    """The chunk of these columns, all of one length and of chunk types.

    `quick` prefers less work to fewer bytes.
    """
    draft = draft_chunk(arrays, kind=kind, level=level, names=names, quick=quick)
    return compress_draft(draft, compression_level)


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column as a chunk has it: what its header says of it, and how it is stored."""

    rows: int
    described: bytes
    stored: PhysicalColumn


def encode_column(array: pa.Array) -> EncodedColumn:
    """A column by itself, with little work; for chunks of some columns that others have, too."""
    column = from_arrow(array, "column")
    body = encode_body(column, array.type, True)
    described = describe(array.type) + digest_column(column)
    return EncodedColumn(len(array), described, _compress(body, DEFAULT_LEVEL))


def join_columns(columns: Sequence[EncodedColumn]) -> StoredChunk:
    """The leaf of columns that are encoded, all of one length."""
    rows = columns[0].rows
    assert {column.rows for column in columns} == {rows}
    header = [start_of_header(LEAF, 0, rows, len(columns)), *[c.described for c in columns]]
    return assemble(b"".join(header), [column.stored for column in columns])


def draft_chunk(
    arrays: Sequence[pa.Array],
    *,
    kind: int = LEAF,
    level: int = 0,
    names: Sequence[str] | None = None,
    quick: bool = False,
) -> Draft:
    """The chunk of these columns up to compression."""
    rows = len(arrays[0]) if arrays else 0
    if rows > MAX_CHUNK_ROWS:
        raise InvalidData(f"a chunk holds at most {MAX_CHUNK_ROWS} rows, not {rows}")
    header = [start_of_header(kind, level, rows, len(arrays))]
    bodies = []
    bounds: list[tuple[bytes, bytes] | None] = []
    for position, array in enumerate(arrays):
        if len(array) != rows:
            raise InvalidData("the columns of a chunk must have one length")
        column = from_arrow(array, names[position] if names else str(position))
        header.append(describe(array.type))
        header.append(digest_column(column))
        form = None if quick else study_column(column)
        bodies.append(encode_body(column, array.type, quick, form))
        is_bounded = form is not None and column.validity is None  # else it has slots of no value
        bounds.append((form.least, form.greatest) if form is not None and is_bounded else None)
    return Draft(b"".join(header), bodies, bounds)


def compress_draft(draft: Draft, level: int = DEFAULT_LEVEL) -> StoredChunk:
    """The stored form of a draft."""
    return assemble(draft.header, [_compress(body, level) for body in draft.bodies])


def compress_drafts(drafts: Sequence[Draft], level: int = DEFAULT_LEVEL) -> list[StoredChunk]:
    """The stored forms of many drafts, compressed in one call that holds no lock."""
    bodies = [body for draft in drafts for body in draft.bodies]
    large = [body for body in bodies if len(body) > MIN_COMPRESSED_BYTES]
    packed = _compress_many(large, level)
    columns = iter(
        [
            _smaller(body, next(packed))
            if len(body) > MIN_COMPRESSED_BYTES
            else PhysicalColumn(RAW, body, len(body))
            for body in bodies
        ]
    )
    return [assemble(draft.header, [next(columns) for _ in draft.bodies]) for draft in drafts]


def _compress_many(bodies: list[bytes], level: int) -> Iterator[bytes]:
    """The bodies compressed; large ones one after the other, as each takes its size again."""
    many = getattr(compressor(level), "multi_compress_to_buffer", None)
    if many is None or len(bodies) < 2 or max(map(len, bodies)) > _MAX_TOGETHER_BYTES:
        return (compressor(level).compress(body) for body in bodies)
    return (segment.tobytes() for segment in many(bodies, threads=1))


def _smaller(body: bytes, packed: bytes, compression: int = ZSTD) -> PhysicalColumn:
    if len(body) > MAX_BODY_BYTES:
        raise InvalidData("the values of one column of one chunk take more than 2 GiB")
    if len(packed) < len(body):
        return PhysicalColumn(compression, packed, len(body))
    return PhysicalColumn(RAW, body, len(body))


def encode_record(payload: bytes) -> StoredChunk:
    """A chunk that holds one opaque record."""
    return assemble_record(payload, compress_record(payload, DEFAULT_LEVEL))


def redacted_record(replaced: Address, payload: bytes) -> StoredChunk:
    """What takes the place of a record, under its address."""
    header = redaction_header(replaced, record_header(payload))
    return assemble(header, [compress_record(payload, DEFAULT_LEVEL)])


def compress_record(payload: bytes, level: int) -> PhysicalColumn:
    """The body of a record, compressed with what records have in common."""
    if len(payload) <= MIN_COMPRESSED_BYTES:
        return PhysicalColumn(RAW, payload, len(payload))
    return _smaller(payload, record_compressor(level).compress(payload), BUILT_IN)


def _compress(encoded: bytes, level: int) -> PhysicalColumn:
    if len(encoded) <= MIN_COMPRESSED_BYTES:
        return PhysicalColumn(RAW, encoded, len(encoded))
    return _smaller(encoded, compressor(level).compress(encoded))


# --- reading ------------------------------------------------------------------------------


class Chunk:
    """A stored chunk, verified down to its header; columns are verified as they are read."""

    __slots__ = (
        "_ahead",
        "_buffer",
        "_fetch",
        "_known_directory",
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
        self._ahead: dict[int, memoryview | Column] = {}
        self._known_directory: Directory | None = None
        try:
            self.header, parsed = read_header(buffer, address)
        except Corruption as error:
            raise Corruption(f"chunk {short(address)}: {error}") from None
        self.kind, self.level, self.rows, self.descriptors, self.digests = parsed

    def column(self, position: int, data_type: pa.DataType | None = None) -> pa.Array:
        """One column, verified; `data_type` supplies field names and zones."""
        if data_type is None:
            data_type = parse_descriptor(self.descriptors[position])
        elif describe(data_type) != self.descriptors[position]:
            raise Corruption(
                f"chunk {short(self.address)}, column {position} holds "
                f"{parse_descriptor(self.descriptors[position])}, not {data_type}"
            )
        return to_arrow(self.canonical(position, data_type), data_type)

    def hold(self, position: int, found: memoryview | Column) -> None:
        """Take a column that was decompressed, or decoded too, for when it is asked for."""
        self._ahead[position] = found

    def canonical(self, position: int, data_type: pa.DataType, depth: int = 0) -> Column:
        """One column in canonical form, verified; `data_type` must have its descriptor."""
        ahead = self._ahead.pop(position, None)
        try:
            if isinstance(ahead, Column):
                column = ahead
            else:
                body, compression = self._body(position, depth) if ahead is None else (ahead, ZSTD)
                decode = decode_plain if compression == PATCH else decode_body
                column = decode(memoryview(body), data_type, self.rows)
        except (Corruption, zstandard.ZstdError, MemoryError) as error:
            raise self._corruption(position, error) from None
        if digest_column(column) != self.digests[position]:
            raise self._corruption(position, "its bytes do not have its digest")
        return column

    def payload(self) -> bytes:
        """What a record holds, verified."""
        if self.kind != RECORD or len(self.digests) != 1:
            raise Corruption(f"chunk {short(self.address)} is not a record")
        try:
            payload, compression = self._body(0, 0)
        except (Corruption, zstandard.ZstdError, MemoryError) as error:
            raise self._corruption(0, error) from None
        if compression == PATCH or digest(payload) != self.digests[0]:
            raise Corruption(f"record {short(self.address)}: its bytes do not have its digest")
        return bytes(payload)

    def _body(self, position: int, depth: int) -> tuple[bytes | memoryview, int]:
        """The body of a column, decompressed and not yet verified, and how it was compressed."""
        physical = self.physical(position)
        mode = physical.compression
        if mode == RAW:
            return physical.stored, mode
        if mode == ZSTD:
            codec = decompressor()
        elif mode == BUILT_IN:
            codec = record_decompressor()
        elif mode == DICTIONARY:
            codec = dictionary_decompressor(
                self._require_reference(), position, lambda: self._referenced_chunk().payload()
            )
        else:
            codec = patch_decompressor(self._patch_base_body(position, depth))
        return decompress(codec, physical.stored, physical.encoded_bytes), mode

    def physical(self, position: int) -> PhysicalColumn:
        """How the column is stored; `Corruption` if the directory cannot be right."""
        try:
            compression, start, stop, encoded_bytes = self.directory.entry(position)
        except Corruption as error:
            raise self._corruption(position, error) from None
        stored = self._buffer[start:stop]
        if len(stored) != stop - start:
            raise self._corruption(position, "its body is cut short")
        return PhysicalColumn(compression, stored, encoded_bytes)

    @property
    def directory(self) -> Directory:
        """Where the bodies lie, and what they are stored against."""
        if self._known_directory is None:
            at = header_place(self.header) + len(self.header)
            try:
                directory = parse_directory(self._buffer, at, len(self.descriptors))
            except Corruption as error:
                raise Corruption(f"chunk {short(self.address)}: {error}") from None
            self._known_directory = directory
        return self._known_directory

    @property
    def redaction(self) -> Address | None:
        """What tells it from other redactions of its address; None if it is no redaction."""
        return redaction_digest(self.header)

    @property
    def size_bytes(self) -> int:
        """How many bytes it is stored in."""
        return len(self._buffer)

    @property
    def reference(self) -> Address | None:
        """The chunk this one is stored against, if any."""
        return self.directory.reference

    def _require_reference(self) -> Address:
        reference = self.reference
        if reference is None:
            raise Corruption("the chunk it is stored against is not named")
        return reference

    def _referenced_chunk(self) -> Chunk:
        reference = self._require_reference()
        if self._fetch is None:
            raise Corruption("the chunk it is stored against cannot be read")
        return Chunk(reference, self._fetch(reference), self._fetch)

    def _patch_base_body(self, position: int, depth: int) -> bytes:
        """The plain body that a column is a patch of."""
        if depth >= MAX_REFERENCE_DEPTH:
            raise Corruption("too many chunks are stored against each other")
        base = self._referenced_chunk()
        if position >= len(base.descriptors):
            raise Corruption("the chunk it is stored against has fewer columns")
        data_type = parse_descriptor(base.descriptors[position])
        return encode_plain(base.canonical(position, data_type, depth + 1))

    def _corruption(self, position: int, why: object) -> Corruption:
        return Corruption(f"chunk {short(self.address)}, column {position}: {why}")


def read_payload(address: Address, buffer: Buffer, fetch: Fetch | None = None) -> bytes:
    """What a record holds, verified; `Corruption` if the chunk is none."""
    payload = plain_payload(address, buffer)
    return Chunk(address, buffer, fetch).payload() if payload is None else payload


def plain_payload(address: Address, buffer: Buffer) -> bytes | None:
    """What a record holds that stands alone, as most do, verified; None for every other chunk."""
    plain = plain_record(buffer, address)
    if plain is None:
        return None
    compression, named, encoded_bytes, body = plain
    payload: bytes | None = None
    if compression == RAW:
        payload = bytes(body)
    elif compression == BUILT_IN:
        with suppress(zstandard.ZstdError, MemoryError):
            payload = decompress(record_decompressor(), body, encoded_bytes)
    return payload if payload is not None and digest(payload) == named else None


def references(chunk: Chunk) -> tuple[Address, ...]:
    """The chunks that must be kept for this one to be readable as it is stored.

    What they are stored against in turn is theirs to say.
    """
    reference = chunk.reference
    return () if reference is None else (reference,)
