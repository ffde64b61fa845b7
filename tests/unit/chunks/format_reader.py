"""A reader of stored chunks, written from `docs/format.md` alone, in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import zstandard
from blake3 import blake3

__all__ = ["StoredForm", "read_columns"]

WIDTHS = {2: 1, 3: 2, 4: 4, 5: 8, 6: 4, 7: 8, 8: 16, 9: 4, 10: 8, 11: 8}
WORD = 1 << 64

Fetch = Callable[[bytes], bytes]


@dataclass
class Kind:
    """A type, read from its descriptor."""

    code: int
    width: int = 0
    inner: list[Kind] = field(default_factory=list)


@dataclass
class Part:
    """A column, or a column inside of another."""

    rows: int
    validity: bytes | None
    data: bytes = b""
    lengths: list[int] | None = None
    inner: list[Part] = field(default_factory=list)

    def canonical(self) -> bytes:
        offsets = b""
        if self.lengths is not None:
            ends = list(accumulate(self.lengths, initial=0))
            offsets = struct.pack(f"<{len(ends)}i", *ends)
        validity = b"\0" if self.validity is None else self.validity + b"\1"
        return self.data + b"".join(part.canonical() for part in self.inner) + offsets + validity

    def plain(self) -> bytes:
        validity = b"\0" if self.validity is None else b"\1" + self.validity
        lengths = b"" if self.lengths is None else struct.pack(f"<{self.rows}i", *self.lengths)
        return validity + lengths + self.data + b"".join(part.plain() for part in self.inner)


class Cursor:
    """Bytes that are taken from their front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        assert len(part) == size
        self.at += size
        return part

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)


def read_kind(cursor: Cursor) -> Kind:
    code = cursor.number(1)
    if code == 8:
        cursor.take(2)
    if code == 17:
        return Kind(code, cursor.number(2))
    count = {14: 1, 16: 2}.get(code, 0) if code != 15 else cursor.number(2)
    return Kind(code, WIDTHS.get(code, 0), [read_kind(cursor) for _ in range(count)])


# --- bodies ---------------------------------------------------------------------------------


def read_validity(cursor: Cursor, rows: int) -> bytes | None:
    return cursor.take((rows + 7) // 8) if cursor.number(1) else None


def read_body(cursor: Cursor, kind: Kind, rows: int) -> Part:
    part = Part(rows, read_validity(cursor, rows))
    if kind.code == 1:
        part.data = cursor.take((rows + 7) // 8)
    elif kind.code in (12, 13):
        texts = read_texts(cursor, rows)
        part.data, part.lengths = b"".join(texts), [len(text) for text in texts]
    elif kind.code in (14, 16):
        total = cursor.number(4)
        part.lengths = read_integers(cursor, rows)
        assert sum(part.lengths) == total
        part.inner = [read_body(cursor, each, total) for each in kind.inner]
    elif kind.code == 15:
        part.inner = [read_body(cursor, each, rows) for each in kind.inner]
    elif kind.code in (6, 7):
        part.data = read_floats(cursor, kind.width, rows)
    elif kind.code in (8, 17):
        part.data = read_wide(cursor, kind.width, rows)
    else:
        values = read_integers(cursor, rows)
        part.data = b"".join(v.to_bytes(kind.width, "little", signed=True) for v in values)
    return part


def read_integers(cursor: Cursor, rows: int) -> list[int]:
    if rows == 0:
        return []
    mode, sizes = cursor.number(1), cursor.number(1)
    is_delta, folds, planes = mode & 1, mode >> 1 & 7, mode >> 4
    base = cursor.number(sizes & 15, signed=True)
    first = cursor.number(sizes >> 4, signed=True)
    count = rows - is_delta
    residues = [0] * count
    for plane in range(planes):
        is_last = plane == planes - 1
        per_byte = 1 << folds if is_last else 1
        bits = 8 // per_byte
        data = cursor.take(-(-count // per_byte))
        for row in range(count):
            value = data[row // per_byte] >> bits * (row % per_byte) & (1 << bits) - 1
            residues[row] |= value << 8 * plane
    values = [base + residue for residue in residues]
    if is_delta:
        values = list(accumulate(values, initial=first))
    return [(value + WORD // 2) % WORD - WORD // 2 for value in values]


def read_floats(cursor: Cursor, width: int, rows: int) -> bytes:
    mode, exponent = cursor.number(1), cursor.number(1)
    if mode == 1:
        return b"".join(struct.pack("<d", n / 10.0**exponent) for n in read_integers(cursor, rows))
    return read_planes(cursor, width, rows)


def read_planes(cursor: Cursor, width: int, rows: int) -> bytes:
    planes = [cursor.take(rows) for _ in range(width)]
    return bytes(planes[place][row] for row in range(rows) for place in range(width))


def read_wide(cursor: Cursor, width: int, rows: int) -> bytes:
    mode = cursor.number(1)
    if mode == 1:
        values = read_integers(cursor, rows)
        return b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return cursor.take(rows * width) if mode == 2 else read_planes(cursor, width, rows)


def read_texts(cursor: Cursor, rows: int) -> list[bytes]:
    mode = cursor.number(1)
    if mode == 1:
        count, _ = cursor.number(4), cursor.number(4)
        words = [cursor.take(length) for length in read_integers(cursor, count)]
        return [words[code] for code in read_integers(cursor, rows)]
    prefix = cursor.take(cursor.number(1)) if mode == 2 else b""
    cursor.number(4)
    return [prefix + cursor.take(length) for length in read_integers(cursor, rows)]


def read_plain(cursor: Cursor, kind: Kind, rows: int) -> Part:
    part = Part(rows, read_validity(cursor, rows))
    if kind.code == 1:
        part.data = cursor.take((rows + 7) // 8)
    elif kind.code == 15:
        part.inner = [read_plain(cursor, each, rows) for each in kind.inner]
    elif kind.code in (12, 13, 14, 16):
        part.lengths = list(struct.unpack(f"<{rows}i", cursor.take(4 * rows)))
        total = sum(part.lengths)
        part.data = cursor.take(total) if kind.code in (12, 13) else b""
        part.inner = [read_plain(cursor, each, total) for each in kind.inner]
    else:
        part.data = cursor.take(rows * kind.width)
    return part


# --- chunks ---------------------------------------------------------------------------------


@dataclass
class StoredForm:
    """A stored chunk, taken apart."""

    kind: int
    rows: int
    kinds: list[Kind]
    digests: list[bytes]
    reference: bytes | None
    columns: list[tuple[int, bytes, int]]


def take_apart(address: bytes, data: bytes) -> StoredForm:
    cursor = Cursor(data)
    header = Cursor(cursor.take(cursor.number(2) or cursor.number(4)))
    assert blake3(header.data).digest() == address
    magic, kind, _, rows, count = struct.unpack("<4sBBIH", header.take(12))
    assert magic == b"LDC1"
    kinds, digests = [], []
    for _ in range(count):
        kinds.append(read_kind(header) if kind != 2 else Kind(header.number(1)))
        digests.append(header.take(32))
    reference = cursor.take(32) if cursor.number(1) == 1 else None
    entries = [(cursor.number(1), cursor.number(4), cursor.number(4)) for _ in range(count)]
    columns = [(mode, cursor.take(stored), encoded) for mode, stored, encoded in entries]
    return StoredForm(kind, rows, kinds, digests, reference, columns)


def read_columns(address: bytes, data: bytes, fetch: Fetch) -> list[Part]:
    """Every column of a chunk, or the payload of a record, each with the digest it must have."""
    form = take_apart(address, data)
    parts = []
    for position in range(len(form.columns)):
        part = _read_column(form, position, fetch)
        canonical = part.data if form.kind == 2 else part.canonical()
        assert blake3(canonical).digest() == form.digests[position]
        parts.append(part)
    return parts


def _record_words() -> bytes:
    """The words that records have in common, as the page has them."""
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text()
    _, _, rest = page.partition("words that records have in common are")
    return rest.split("```")[1].removeprefix("text\n").replace("\n", "").encode()


def _read_column(form: StoredForm, position: int, fetch: Fetch) -> Part:
    mode, body, size = form.columns[position]
    if mode == 3:
        assert form.reference is not None
        base = read_columns(form.reference, fetch(form.reference), fetch)[position].plain()
        prefix = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        body = zstandard.ZstdDecompressor(dict_data=prefix).decompress(body, max_output_size=size)
        return read_plain(Cursor(body), form.kinds[position], form.rows)
    if mode == 2:
        assert form.reference is not None
        (record,) = read_columns(form.reference, fetch(form.reference), fetch)
        table = Cursor(record.data)
        assert table.take(4) == b"LDD1"
        lengths = [table.number(4) for _ in range(table.number(2))]
        words = zstandard.ZstdCompressionDict([table.take(length) for length in lengths][position])
        body = zstandard.ZstdDecompressor(dict_data=words).decompress(body, max_output_size=size)
    elif mode == 4:
        prefix = zstandard.ZstdCompressionDict(
            _record_words(), dict_type=zstandard.DICT_TYPE_RAWCONTENT
        )
        body = zstandard.ZstdDecompressor(dict_data=prefix).decompress(body, max_output_size=size)
    elif mode == 1:
        body = zstandard.ZstdDecompressor().decompress(body, max_output_size=size)
    if form.kind == 2:
        return Part(1, None, body)
    return read_body(Cursor(body), form.kinds[position], form.rows)
