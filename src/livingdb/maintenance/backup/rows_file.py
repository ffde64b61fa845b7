"""Rows of catalogs in files: rows that came, and the marks of rows that went.

A file is a magic number, the length of a text, that text and the bytes of all values that are
bytes, one after the other; text and bytes are compressed apart.  The text is JSON: for each table
its columns, its rows, in which a value of bytes is its length, and the lengths of the marks of
rows that went.  See "Backups" in docs/format.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard
from sqlalchemy import LargeBinary, Table

from livingdb.catalog.dump import Row
from livingdb.errors import Corruption, Unsupported

__all__ = ["TableRows", "decode_rows", "encode_rows"]

_MAGIC = b"LDBROWS1"
_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 30
"""No frame says more; what claims to is not expanded."""


@dataclass(frozen=True)
class TableRows:
    """Rows of one table that came, and marks of those that went."""

    table: str
    rows: Sequence[Row]
    removed: Sequence[bytes] = field(default=())


def encode_rows(tables: Iterable[Table], parts: Sequence[TableRows]) -> bytes:
    """The content of a file; equal rows in equal order give equal bytes."""
    known = {table.name: table for table in tables}
    values: list[bytes] = []
    told = [_told(known[part.table], part, values) for part in parts]
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    compressor = zstandard.ZstdCompressor(level=3)
    packed = compressor.compress(text)
    length = len(packed).to_bytes(_LENGTH_BYTES, "little")
    return _MAGIC + length + packed + compressor.compress(b"".join(values))


def decode_rows(tables: Iterable[Table], data: bytes, name: str) -> Iterator[TableRows]:
    """The parts of a file; `Corruption` names it if it is none, `Unsupported` what is not known."""
    known = {table.name: table for table in tables}
    start = len(_MAGIC) + _LENGTH_BYTES
    if data[: len(_MAGIC)] != _MAGIC:
        raise Corruption(f"{name} is damaged: it holds no rows of a catalog")
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        told = json.loads(_expanded(data[start:end]))
        if not isinstance(told, list):
            raise ValueError("it is no list of tables")
        values = _Values(_expanded(data[end:]))
        for part in told:
            table = known.get(part["table"])
            if table is None or part["columns"] != [column.name for column in table.c]:
                raise Unsupported(
                    f"{name} has a table {part['table']!r} that this LivingDB does not know: use "
                    "the version that wrote it"
                )
            yield _part(table, part, values)
    except (ValueError, KeyError, TypeError, IndexError, zstandard.ZstdError) as error:
        raise Corruption(f"{name} is damaged: {error!r}") from None


def _expanded(frame: bytes) -> bytes:
    size_bytes = zstandard.get_frame_parameters(frame).content_size
    if size_bytes > _MOST_BYTES:
        raise ValueError("a frame that is larger than any")
    return zstandard.ZstdDecompressor().decompress(frame)


def _told(table: Table, part: TableRows, values: list[bytes]) -> dict[str, Any]:
    """A part as JSON, its bytes put with the others."""
    places = _bytes_places(table)
    rows = []
    for row in part.rows:
        told = list(row)
        for place in places:
            if told[place] is not None:
                values.append(told[place])
                told[place] = len(told[place])
        rows.append(told)
    values.extend(part.removed)
    return {
        "table": table.name,
        "columns": [column.name for column in table.c],
        "rows": rows,
        "removed": [len(mark) for mark in part.removed],
    }


def _part(table: Table, told: dict[str, Any], values: _Values) -> TableRows:
    places = _bytes_places(table)
    for row in told["rows"]:
        for place in places:
            if row[place] is not None:
                row[place] = values.take(row[place])
    return TableRows(
        table.name,
        [tuple(row) for row in told["rows"]],
        [values.take(length) for length in told["removed"]],
    )


def _bytes_places(table: Table) -> list[int]:
    return [n for n, column in enumerate(table.c) if isinstance(column.type, LargeBinary)]


class _Values:
    """Bytes that are taken from one end to the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, length: int) -> bytes:
        """The next so many; `ValueError` if there are not as many."""
        start, end = self._place, self._place + length
        if not start <= end <= len(self._data):
            raise ValueError("there are fewer bytes than values")
        self._place = end
        return self._data[start:end]
