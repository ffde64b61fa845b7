"""Chunks that are never to be restored, since rows of them were erased after they were copied.

A backup place has a list of them beside its points: which chunk each is, under which address the
rest of its rows lies, and that chunk.  It is written before the point that knows of an erasure,
stays when points go, and counts for every point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from livingdb.catalog import schema
from livingdb.catalog.dump import Row, mark_of, rows_of
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.chunks.repack import repack
from livingdb.chunks.store import StoredChunk
from livingdb.graph.storage.database_store import DatabaseStore
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.rows_file import TableRows, decode_rows, encode_rows

__all__ = ["Redactions", "read_redactions", "redactions_of", "save_redactions", "sealed_row"]

_TABLES = (schema.erasure, schema.redaction, schema.chunk)


@dataclass
class Redactions:
    """Rows of erasures and redactions by their marks, and the chunks that took others' place.

    With those come chunks that they lean on, if there are any.
    """

    erasures: dict[bytes, Row] = field(default_factory=dict)
    redactions: dict[bytes, Row] = field(default_factory=dict)
    chunks: dict[Address, bytes] = field(default_factory=dict)

    @property
    def redacted(self) -> Mapping[Address, Address]:
        """Chunks that must not come back, and what lies in their place after the last erasure."""
        found: dict[Address, Address] = {}
        for old, new, *_ in sorted(self.redactions.values(), key=lambda row: int(row[2])):
            former = found.get(old)
            if former is not None and former != new:
                found[former] = new
            found[old] = new
        return found

    def add(self, others: Redactions) -> None:
        """Take in what others know."""
        self.erasures.update(others.erasures)
        self.redactions.update(others.redactions)
        self.chunks.update(others.chunks)

    def leave_out(
        self, redactions: Iterable[bytes], erasures: Mapping[int, bytes], numbers: dict[str, int]
    ) -> None:
        """Leave out what a database has, by marks; other erasures get numbers that it has not.

        `numbers` are the last ones that were given there, by table.
        """
        for mark in redactions:
            self.redactions.pop(mark, None)
        for mark in erasures.values():
            self.erasures.pop(mark, None)
        name, moved = schema.erasure.name, {}
        for number in sorted(int(row[0]) for row in self.erasures.values()):
            last = numbers.get(name, 0)
            moved[number] = last + 1 if number in erasures else number
            numbers[name] = max(last, moved[number])
        self.erasures = _changed(schema.erasure, self.erasures, "number", moved)
        self.redactions = _changed(schema.redaction, self.redactions, "erasure", moved)


def _changed(
    table: Table, rows: Mapping[bytes, Row], column: str, new: Mapping[int, int]
) -> dict[bytes, Row]:
    """Rows with other numbers in a column, by their marks."""
    named = [SealedRows(table).named(row) for row in rows.values()]
    changed = [{**row, column: new.get(row[column], row[column])} for row in named]
    return {bytes(row[-1]): row for row in (sealed_row(table, values) for values in changed)}


def sealed_row(table: Table, values: Mapping[str, Any]) -> Row:
    """A row of a table with its digest."""
    sealed = SealedRows(table).seal(values)
    return tuple(sealed[column.name] for column in table.c)


def redactions_of(store: DatabaseStore, connection: Connection, known: Redactions) -> Redactions:
    """What a database knows of redactions that is not known already."""
    found = Redactions()
    for row in rows_of(connection, schema.redaction, known.redactions.__contains__):
        found.redactions[mark_of(schema.redaction, row)] = row
    for row in rows_of(connection, schema.erasure, known.erasures.__contains__):
        found.erasures[mark_of(schema.erasure, row)] = row
    new = set(found.redacted.values()) - known.chunks.keys() - found.redacted.keys()
    found.chunks = _standing_alone(store, new)
    return found


def _standing_alone(store: DatabaseStore, addresses: Iterable[Address]) -> dict[Address, bytes]:
    """Chunks as they are stored where there are no others for them to lean on."""
    found: dict[Address, bytes] = {}

    def keep(chunk: StoredChunk) -> None:
        found[chunk.address] = bytes(chunk.data)

    alone = [(address, None) for address in sorted(addresses)]
    repack(alone, store.get, keep, lasts=lambda address: False)
    return found


def save_redactions(place: BackupPlace, new: Redactions) -> None:
    """Add redactions to the list of a backup place, if there are any."""
    if not new.redactions and not new.erasures:
        return
    chunks: list[tuple[Any, ...]] = sorted(new.chunks.items())
    parts = [
        TableRows(schema.erasure.name, list(new.erasures.values())),
        TableRows(schema.redaction.name, list(new.redactions.values())),
        TableRows(schema.chunk.name, chunks),
    ]
    place.add_redactions(encode_rows(_TABLES, parts))


def read_redactions(place: BackupPlace) -> Redactions:
    """The list of a backup place."""
    found = Redactions()
    for path, data in place.redactions():
        for part in decode_rows(_TABLES, data, f"{path} at {place.files.url}"):
            if part.table == schema.chunk.name:
                found.chunks.update((Address(address), body) for address, body in part.rows)
                continue
            is_erasure = part.table == schema.erasure.name
            table = schema.erasure if is_erasure else schema.redaction
            rows = found.erasures if is_erasure else found.redactions
            rows.update((mark_of(table, row), row) for row in part.rows)
    return found
