"""Restoring: a backup becomes a database again, the same as it was at that moment.

Packs come first, each compared with its digest.  All rows of the catalog come last, in the one
transaction that makes it: until then there is nothing that opens as a database.  A file says that
a restore is going on, so that one that was killed goes on with what is there.

Alerts that waited to be sent are not sent by the copy, unless it is asked to: the database that
was backed up may have sent them since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, Table

from livingdb.catalog import schema
from livingdb.catalog.connect import Place
from livingdb.catalog.dump import Row, fill_catalog
from livingdb.catalog.migrations import stored_version
from livingdb.catalog.outbox import FAILED, WAITING
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.errors import AlreadyExists, NotFound
from livingdb.files.base import Files
from livingdb.graph.storage.database_store import pack_levels
from livingdb.maintenance.backup.catalog_rows import COPIED_PACK, LAST_NUMBER, read_files
from livingdb.maintenance.backup.copy_file import CopiedFile
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import Point
from livingdb.maintenance.backup.point_packs import PointPacks
from livingdb.maintenance.backup.redactions import Redactions, read_redactions, sealed_row

__all__ = ["RESTORING", "restore_point"]

RESTORING = "restoring"
"""The file that is there while a database is being restored."""

_NOT_SENT = "not sent: the database was restored, and what it is a copy of may have sent it"

Progress = Callable[[int, int], object]


def restore_point(
    source: BackupPlace,
    point: Point,
    target: Place,
    redactions: Redactions | None = None,
    send: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make a database of a backup at a place that has none; `AlreadyExists` if it has.

    Chunks of which rows were erased since are left out: by what the backups know of that, and by
    further `redactions`.
    """
    _check_free(target)
    restored = _Point.read(source, point)
    missing = read_redactions(source)
    if redactions is not None:
        missing.add(redactions)
    redacted = missing.redacted
    missing.leave_out(restored.redactions, restored.erasures, restored.numbers)
    target.files.write(RESTORING, point.name.encode())
    packs = PointPacks(source.files, target.files, progress)
    made: Sequence[str] | None = None
    if packs.have(restored.packs, redacted):
        made = packs.write_without(restored.packs, redacted)
    else:
        packs.copy(restored.packs)
    _drop_other_packs(target.files, list(restored.packs) if made is None else made)
    rows = _Rows(source, point, restored.numbers, missing, redacted, made, send)
    fill_catalog(target.engine, rows.all(target.files), restored.numbers)
    target.files.delete(RESTORING)


def _check_free(target: Place) -> None:
    """Refuse a place that has a database, or files of something else."""
    if _has_catalog(target.engine):
        raise AlreadyExists(f"there is a database at {target.name} already; restore elsewhere")
    if target.files.list("packs") and not target.files.exists(RESTORING):
        raise AlreadyExists(f"{target.files.url} holds packs already; restore to another place")


def _has_catalog(engine: Engine) -> bool:
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file is not None and not os.path.exists(file):
        return False  # and there is none until all rows are in it
    try:
        with engine.connect() as connection:
            stored_version(connection)
    except NotFound:
        return False
    return True


def _drop_other_packs(files: Files, names: Sequence[str]) -> None:
    """Take away what a restore that was killed left behind and this one does not need."""
    for path in files.list("packs"):
        if path.removeprefix("packs/") not in names:
            files.delete(path)


@dataclass
class _Point:
    """What has to be known of a point before its rows are written."""

    packs: dict[str, CopiedFile]
    numbers: dict[str, int]
    redactions: set[bytes]
    erasures: dict[int, bytes]

    @classmethod
    def read(cls, source: BackupPlace, point: Point) -> _Point:
        names = (COPIED_PACK, LAST_NUMBER, schema.redaction.name, schema.erasure.name)
        found = cls({}, {}, set(), {})
        for table, rows in read_files(source, point.rows, names.__contains__):
            for row in rows:
                if table.name == COPIED_PACK:
                    found.packs[row[0]] = CopiedFile(row[1], row[2])
                elif table.name == LAST_NUMBER:
                    found.numbers[row[0]] = row[1]
                elif table is schema.redaction:
                    found.redactions.add(row[-1])
                else:
                    found.erasures[row[0]] = row[-1]
        return found


class _Rows:
    """The rows of a point as the restored database has them."""

    def __init__(
        self,
        source: BackupPlace,
        point: Point,
        numbers: dict[str, int],
        missing: Redactions,
        redacted: Mapping[Address, Address],
        packs: Sequence[str] | None,
        send: bool,
    ) -> None:
        self._source, self._point = source, point
        self._numbers = numbers
        self._missing = missing
        self._redacted = redacted
        self._replaced = {row[0] for row in missing.redactions.values()}
        self._packs = packs
        self._send = send

    def all(self, files: Files) -> Iterator[tuple[str, Sequence[Row]]]:
        """All of them, by table; `files` hold the packs."""
        own = (COPIED_PACK, LAST_NUMBER)
        for table, rows in read_files(self._source, self._point.rows, lambda name: name not in own):
            yield table.name, self._changed(table, rows)
        yield from self._added(files)

    def _changed(self, table: Table, rows: Sequence[Row]) -> Sequence[Row]:
        if table is schema.outbox and not self._send:
            return [_not_sent(row) for row in rows]
        if table is schema.pack and self._packs is not None:
            return []
        if table is schema.chunk and self._redacted:
            return [row for row in rows if row[0] not in self._redacted]
        if table is schema.redaction:
            return [row for row in rows if row[0] not in self._replaced]
        return rows

    def _added(self, files: Files) -> Iterator[tuple[str, Sequence[Row]]]:
        """What the point does not know of: erasures that came later, and other packs."""
        yield schema.erasure.name, list(self._missing.erasures.values())
        newest = sorted(self._missing.redactions.values(), key=lambda row: int(row[2]))
        by_chunk = {row[0]: row for row in newest}
        yield schema.redaction.name, list(by_chunk.values())
        if by_chunk:
            chunks = sorted(self._missing.chunks.items())
            yield schema.chunk.name, [row for row in chunks if row[0] not in self._redacted]
        if self._packs is not None:
            yield schema.pack.name, self._pack_rows(files, self._packs)

    def _pack_rows(self, files: Files, names: Sequence[str]) -> list[Row]:
        first = self._numbers.get(schema.pack.name, 0) + 1
        self._numbers[schema.pack.name] = first + len(names) - 1
        levels = pack_levels(files, names)
        return [
            sealed_row(schema.pack, {"position": n, "name": name, "level": levels[name]})
            for n, name in enumerate(names, first)
        ]


def _not_sent(row: Row) -> Row:
    """A row of the outbox that is not waiting any more."""
    values = SealedRows(schema.outbox).named(row)
    if values["state"] != WAITING:
        return row
    return sealed_row(schema.outbox, {**values, "state": FAILED, "error": _NOT_SENT})
