"""The layout of a stored chunk.

    stored chunk = header length (u16; a longer one: 0, then u32) · header · directory · bodies
    header       = magic · kind · level · rows · columns × (descriptor, digest)
    redaction    = magic of its own · address of what it replaces · digest of header · header
    directory    = standing · reference? · columns × (compression, stored bytes, encoded bytes)

The address is the BLAKE3 of the header alone.  A *redaction* lies under the address of the record
that it took the place of: its header says that address, and a digest of the rest of it.

The directory is free to change: how bytes are encoded is no part of a name.  A chunk stands alone,
or is stored against another one (its columns as patches of that chunk's columns, or compressed with
dictionaries from a record), or it is a base: it stands alone for good, because others may be stored
against it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from livingdb.chunks.address import ADDRESS_BYTES, Address, digest
from livingdb.chunks.compression import MAX_RATIO
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.errors import Corruption, Unsupported

__all__ = [
    "BUILT_IN",
    "DICTIONARY",
    "LEAF",
    "MAX_BODY_BYTES",
    "MAX_CHUNK_ROWS",
    "NODE",
    "PATCH",
    "RAW",
    "RECORD",
    "ZSTD",
    "Directory",
    "PhysicalColumn",
    "assemble",
    "assemble_record",
    "header_address",
    "header_place",
    "parse_directory",
    "parse_header",
    "plain_record",
    "raw_record",
    "read_header",
    "record_header",
    "redaction_digest",
    "redaction_header",
    "start_of_header",
    "stored_against",
    "stored_redaction",
]

MAGIC = b"LDC1"
REDACTION_MAGIC = b"LDR1"
LEAF, NODE, RECORD = 0, 1, 2
RAW, ZSTD, DICTIONARY, PATCH, BUILT_IN = 0, 1, 2, 3, 4
MAX_CHUNK_ROWS = 1 << 24
MAX_BODY_BYTES = 2**31 - 1
MAX_COLUMNS = 0xFFFF

_START = struct.Struct("<4sBBIH")  # magic, kind, level, rows, columns
_LENGTH = struct.Struct("<H")
_LONG_LENGTH = struct.Struct("<HI")  # 0, which is the length of no header, and the length
_ENTRY = struct.Struct("<BII")  # compression, stored bytes, encoded bytes
_RECORD_DESCRIPTOR = b"\0"
_REPLACED_AT = len(REDACTION_MAGIC)
_DIGEST_AT = _REPLACED_AT + ADDRESS_BYTES
_REDACTED_AT = _DIGEST_AT + ADDRESS_BYTES
_ALONE, _AGAINST, _BASE = 0, 1, 2

_RECORD_START = _START.pack(MAGIC, RECORD, 0, 1, 1) + _RECORD_DESCRIPTOR
_RECORD_HEADER_BYTES = len(_RECORD_START) + ADDRESS_BYTES
# A record that stands alone: length and header, its digest last, standing and directory entry.
_RECORD = struct.Struct(f"<H{len(_RECORD_START)}s{ADDRESS_BYTES}sBBII")
_RECORD_HEADER = slice(_LENGTH.size, _LENGTH.size + _RECORD_HEADER_BYTES)


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """How one column lies in a stored chunk."""

    compression: int
    stored: bytes | memoryview
    encoded_bytes: int


# --- writing ------------------------------------------------------------------------------


def start_of_header(kind: int, level: int, rows: int, columns: int) -> bytes:
    """The header up to its columns; `Unsupported` if there are too many."""
    if columns > MAX_COLUMNS:
        raise Unsupported(
            f"too many columns in one group: {columns:,}, and a chunk takes {MAX_COLUMNS:,}"
        )
    return _START.pack(MAGIC, kind, level, rows, columns)


def record_header(payload: bytes) -> bytes:
    """The header of a record."""
    return _RECORD_START + digest(payload)


def raw_record(payload: bytes) -> StoredChunk:
    """The stored form of a record that is not compressed."""
    return assemble_record(payload, PhysicalColumn(RAW, payload, len(payload)))


def assemble_record(payload: bytes, body: PhysicalColumn) -> StoredChunk:
    """The stored form of a record that stands alone: what `assemble` makes of its header."""
    named, stored = digest(payload), body.stored
    size, encoded = len(stored), body.encoded_bytes
    kind = body.compression
    head = _RECORD.pack(_RECORD_HEADER_BYTES, _RECORD_START, named, _ALONE, kind, size, encoded)
    return StoredChunk(digest(head[_RECORD_HEADER]), head + stored)


def redaction_header(replaced: Address, header: bytes) -> bytes:
    """The header of what takes the place of a chunk, under its address."""
    return REDACTION_MAGIC + replaced + digest(header) + header


def redaction_digest(header: bytes) -> Address | None:
    """What tells the redactions of one chunk apart; None if the header is no redaction's."""
    if not header.startswith(REDACTION_MAGIC):
        return None
    return Address(header[_DIGEST_AT:_REDACTED_AT])


def stored_redaction(buffer: Buffer) -> Address | None:
    """The same of a stored chunk, from its first bytes alone: only records are redacted."""
    return redaction_digest(bytes(buffer[_LENGTH.size : _LENGTH.size + _REDACTED_AT]))


def header_address(header: bytes) -> Address:
    """The address under which a chunk with this header lies."""
    if header.startswith(REDACTION_MAGIC):
        return Address(header[_REPLACED_AT:_DIGEST_AT])
    return digest(header)


def assemble(
    header: bytes,
    columns: Sequence[PhysicalColumn],
    reference: Address | None = None,
    is_base: bool = False,
) -> StoredChunk:
    """The stored form: this header over these bodies.

    `reference` is the chunk the columns are stored against; `is_base` says that others may be
    stored against this one, so that it is never to be stored against another itself.
    """
    parts: list[bytes | memoryview] = [_length(len(header)), header]
    if reference is None:
        parts.append(bytes([_BASE if is_base else _ALONE]))
    else:
        parts.append(bytes([_AGAINST]) + reference)
    parts += [_ENTRY.pack(c.compression, len(c.stored), c.encoded_bytes) for c in columns]
    parts += [c.stored for c in columns]
    return StoredChunk(header_address(header), b"".join(parts))


def _length(header_bytes: int) -> bytes:
    """The length of a header, as it stands before it."""
    if header_bytes <= 0xFFFF:
        return _LENGTH.pack(header_bytes)
    return _LONG_LENGTH.pack(0, header_bytes)


# --- reading ------------------------------------------------------------------------------

Header = tuple[int, int, int, tuple[bytes, ...], tuple[bytes, ...]]


def header_place(header: bytes) -> int:
    """Where a header starts in a stored chunk."""
    return _LENGTH.size if len(header) <= 0xFFFF else _LONG_LENGTH.size


def read_header(buffer: Buffer, address: Address) -> tuple[bytes, Header]:
    """The header's bytes, which have this address, and what they say."""
    try:
        at = _LENGTH.size
        (length,) = _LENGTH.unpack(buffer[:at])
        if not length:
            at = _LONG_LENGTH.size
            _, length = _LONG_LENGTH.unpack(buffer[:at])
            if length <= 0xFFFF:
                raise Corruption("its header is shorter than its length says")
        header = bytes(buffer[at : at + length])
        if header_address(header) != address:
            raise Corruption("its header does not have its address")
        return header, parse_header(header)
    except (struct.error, IndexError):
        raise Corruption("it is cut short") from None


def plain_record(
    buffer: Buffer, address: Address
) -> tuple[int, bytes, int, bytes | memoryview] | None:
    """Of a record that stands alone its compression, digest, bytes when plain, and body.

    None for every other chunk, and for one that is damaged: `read_header` knows what it is.
    """
    head = buffer[: _RECORD.size]
    if len(head) != _RECORD.size:
        return None
    length, start, named, standing, compression, stored, encoded = _RECORD.unpack(head)
    if length != _RECORD_HEADER_BYTES or start != _RECORD_START or standing != _ALONE:
        return None
    body = buffer[_RECORD.size : _RECORD.size + stored]
    is_whole = len(body) == stored and encoded <= stored * MAX_RATIO
    if not is_whole or digest(head[_RECORD_HEADER]) != address:
        return None
    return compression, named, encoded, body


def stored_against(buffer: Buffer) -> Address | None:
    """The chunk that a stored one needs to be read, from its first bytes alone."""
    try:
        at = _LENGTH.size
        (length,) = _LENGTH.unpack(buffer[:at])
        if not length:
            at = _LONG_LENGTH.size
            _, length = _LONG_LENGTH.unpack(buffer[:at])
        at += length
        standing = bytes(buffer[at : at + 1 + ADDRESS_BYTES])
        if standing[0] != _AGAINST:
            return None
    except (struct.error, IndexError):
        raise Corruption("it is cut short") from None
    return Address(standing[1:])


@lru_cache(maxsize=1024)
def parse_header(header: bytes) -> Header:
    """Kind, level, rows, descriptors and digests."""
    named = redaction_digest(header)
    if named is not None:
        header = header[_REDACTED_AT:]
        if digest(header) != named or header.startswith(REDACTION_MAGIC):
            raise Corruption("its redaction does not have its digest")
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


class Directory:
    """Where the bodies of a stored chunk lie, and what it is stored against."""

    __slots__ = ("_entries", "_starts", "is_base", "reference")

    def __init__(
        self,
        reference: Address | None,
        is_base: bool,
        entries: Sequence[tuple[int, int, int]],
        bodies_at: int,
    ) -> None:
        self.reference = reference
        self.is_base = is_base
        self._entries = entries
        self._starts = tuple(accumulate((entry[1] for entry in entries), initial=bodies_at))

    def entry(self, position: int) -> tuple[int, int, int, int]:
        """Compression of a column, where its body starts and stops, and its encoded bytes."""
        compression, stored, encoded = self._entries[position]
        most = stored if compression == RAW else min(stored * MAX_RATIO, MAX_BODY_BYTES)
        if compression > BUILT_IN or encoded > most or (compression == RAW and stored != encoded):
            raise Corruption("its directory entry is impossible")
        return compression, self._starts[position], self._starts[position + 1], encoded

    def compressions(self) -> set[int]:
        """How the columns are compressed."""
        return {entry[0] for entry in self._entries}


def parse_directory(buffer: Buffer, at: int, columns: int) -> Directory:
    """The directory that starts here."""
    size = columns * _ENTRY.size
    data = bytes(buffer[at : at + 1 + size])
    standing = data[0] if data else None
    reference = None
    entries_at = at + 1
    if standing == _AGAINST:
        entries_at += ADDRESS_BYTES
        reference = Address(bytes(buffer[at + 1 : entries_at]))
        data = data[:1] + bytes(buffer[entries_at : entries_at + size])
    elif standing not in (_ALONE, _BASE):
        raise Corruption("its directory is damaged")
    if len(data) != 1 + size:
        raise Corruption("its directory is cut short")
    entries = tuple(_ENTRY.iter_unpack(data[1:]))
    return Directory(reference, standing == _BASE, entries, entries_at + size)
