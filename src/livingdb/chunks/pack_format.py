"""The layout of a pack file.

    header     magic, format version                                   16 bytes
    bodies     the stored chunks, one right after the other
    padding    zeros, up to a multiple of 8
    digests    BLAKE3 of every block of 256 index entries              32 bytes a block
               BLAKE3 of all up to the end of the bodies               32 bytes
    prefixes   the first 8 bytes of every address, as a number         uint64 each
    addresses  in ascending order, no two alike                        32 bytes each
    offsets    where the body begins                                   uint64 each
    lengths    how long it is                                          uint32 each
    trailer    count, section offsets, file size, BLAKE3 of the digests,
               BLAKE3 of the trailer before it                         144 bytes

Numbers are little endian, but a prefix reads its bytes as big endian, so that the order of the
numbers is the order of the addresses.  Where the sections lie follows from the count and the
end of the bodies; the trailer spells it out and must agree.  Packs of version 1 have no digest
of their bodies.  Packs of version 3 have blocks of records among the bodies (`record_block`): of a
record in one, the offset is that of the block, and the length its place there, with the highest
bit set.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from struct import Struct
from typing import Self

from livingdb.chunks.address import ADDRESS_BYTES, digest
from livingdb.errors import Corruption, Unsupported

__all__ = [
    "BLOCKS_VERSION",
    "BLOCK_ENTRIES",
    "COUNT_LIMIT",
    "ENTRY_WIDTHS",
    "FORMAT_VERSION",
    "HEADER",
    "HEADER_BYTES",
    "IN_BLOCK",
    "LENGTH_LIMIT",
    "TRAILER_BYTES",
    "Layout",
    "Trailer",
    "block_digest",
    "header",
]

FORMAT_VERSION = 2
"""What is written, but for packs that are repacked: those may have blocks."""
BLOCKS_VERSION = 3
BODIES_DIGEST_SINCE = 2
BLOCK_ENTRIES = 256
COUNT_LIMIT = 1 << 26
LENGTH_LIMIT = (1 << 32) - 1
IN_BLOCK = 1 << 31
"""What the length of a record in a block has; without it, it is a length."""

PREFIX_BYTES, OFFSET_BYTES, LENGTH_BYTES = 8, 8, 4
ENTRY_WIDTHS = (PREFIX_BYTES, ADDRESS_BYTES, OFFSET_BYTES, LENGTH_BYTES)
ALIGNMENT_BYTES = 8

MAGIC = b"LDB pack"
_HEADER = Struct("<8sQ")
_TRAILER = Struct("<8sQ8Q32s")
HEADER_BYTES = _HEADER.size
TRAILER_BYTES = _TRAILER.size + ADDRESS_BYTES


def header(version: int) -> bytes:
    """What a pack of a format version begins with."""
    return _HEADER.pack(MAGIC, version)


HEADER = header(FORMAT_VERSION)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the sections of a pack begin, and how long the file is."""

    count: int
    bodies_end: int
    digests_at: int
    prefixes_at: int
    addresses_at: int
    offsets_at: int
    lengths_at: int
    file_bytes: int

    @classmethod
    def of(cls, count: int, bodies_end: int, version: int = FORMAT_VERSION) -> Self:
        """The one layout of a pack with `count` chunks whose bodies end at `bodies_end`."""
        digests = -(-count // BLOCK_ENTRIES) + (version >= BODIES_DIGEST_SINCE)
        digests_at = -(-bodies_end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        prefixes_at = digests_at + digests * ADDRESS_BYTES
        addresses_at = prefixes_at + count * PREFIX_BYTES
        offsets_at = addresses_at + count * ADDRESS_BYTES
        lengths_at = offsets_at + count * OFFSET_BYTES
        file_bytes = lengths_at + count * LENGTH_BYTES + TRAILER_BYTES
        return cls(
            count,
            bodies_end,
            digests_at,
            prefixes_at,
            addresses_at,
            offsets_at,
            lengths_at,
            file_bytes,
        )

    @property
    def trailer_at(self) -> int:
        """Where the trailer begins, which is where the index ends."""
        return self.file_bytes - TRAILER_BYTES


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the end of a pack says: its layout and the digest of its digests."""

    layout: Layout
    index_digest: bytes
    version: int = FORMAT_VERSION

    @property
    def has_blocks(self) -> bool:
        """Whether records may lie together in blocks."""
        return self.version >= BLOCKS_VERSION

    @property
    def has_bodies_digest(self) -> bool:
        """Whether the last of the pack's digests is that of its bodies."""
        return self.version >= BODIES_DIGEST_SINCE

    def to_bytes(self) -> bytes:
        """The trailer as it is stored, with its own digest at the end."""
        body = _TRAILER.pack(MAGIC, self.version, *astuple(self.layout), self.index_digest)
        return body + digest(body)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, file_bytes: int, name: str) -> Self:
        """The trailer that ends a file of `file_bytes`; `Corruption` if it is not a sound one.

        `Unsupported` if it is sound and of a format version this code does not know.
        """
        if len(data) != TRAILER_BYTES or file_bytes < Layout.of(0, HEADER_BYTES, 1).file_bytes:
            raise Corruption(f"pack {name}: {file_bytes} bytes are too few for a pack")
        body, sealed = data[: _TRAILER.size], data[_TRAILER.size :]
        magic, version, *sections, index_digest = _TRAILER.unpack(body)
        if magic != MAGIC:
            raise Corruption(f"pack {name}: no trailer at its end; cut short, or not a pack")
        if digest(body) != sealed:
            raise Corruption(f"pack {name}: its trailer is damaged")
        if not 1 <= version <= BLOCKS_VERSION:
            raise Unsupported(
                f"pack {name}: format version {version}; this LivingDB reads up to {BLOCKS_VERSION}"
            )
        layout = Layout(*sections)
        if layout.count > COUNT_LIMIT:
            raise Corruption(f"pack {name}: claims {layout.count} chunks")
        fitting = Layout.of(layout.count, layout.bodies_end, version)
        if layout.bodies_end < HEADER_BYTES or layout != fitting:
            raise Corruption(f"pack {name}: its sections do not fit together")
        if layout.file_bytes != file_bytes:
            raise Corruption(f"pack {name}: {file_bytes} bytes long, should be {layout.file_bytes}")
        return cls(layout, index_digest, version)


def block_digest(columns: tuple[memoryview, ...], block: int) -> bytes:
    """The digest of one block of index entries; `columns` are the bytes of the four arrays."""
    first, last = block * BLOCK_ENTRIES, (block + 1) * BLOCK_ENTRIES
    return digest(
        *(
            column[first * width : last * width]
            for column, width in zip(columns, ENTRY_WIDTHS, strict=True)
        )
    )
