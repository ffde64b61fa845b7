"""Restoring: a backup becomes a database again, the same as it was at that moment.

Packs come first, each compared with its digest.  All rows of the catalog come last, in the one
transaction that makes it: until then there is nothing that opens as a database.  A file says that
a restore is going on, so that one that was killed goes on with what is there.

Alerts that waited to be sent are not sent by the copy, unless it is asked to: the database that
was backed up may have sent them since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from livingdb.catalog import schema
from livingdb.catalog.connect import Place
from livingdb.catalog.dump import Row, fill_catalog
from livingdb.catalog.migrations import stored_version
from livingdb.catalog.outbox import FAILED, WAITING
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.errors import AlreadyExists, NotFound
from livingdb.maintenance.backup.catalog_rows import COPIED_PACK, LAST_NUMBER, packs_of, read_files
from livingdb.maintenance.backup.copy_file import CopiedFile
from livingdb.maintenance.backup.erasures import Erasure, check_erasures, erasures_of
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import Point
from livingdb.maintenance.backup.point_packs import PointPacks

__all__ = ["RESTORING", "restore_point"]

RESTORING = "restoring"
"""The file that is there while a database is being restored."""

_NOT_SENT = "not sent: the database was restored, and what it is a copy of may have sent it"

Progress = Callable[[int, int], object]


def restore_point(
    source: BackupPlace,
    point: Point,
    target: Place,
    erasures: Collection[Erasure] = (),
    bring_back: bool = False,
    send: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make a database of a backup at a place that has none; `AlreadyExists` if it has.

    `Forbidden` if rows were erased since, by what the backups know or by further `erasures`,
    unless it shall `bring_back` what was erased.
    """
    _check_free(target)
    restored = _Point.read(source, point)
    if not bring_back:
        check_erasures(source.files, erasures, restored.erasures, f"{point.moment:%Y-%m-%d %H:%M}")
    target.files.write(RESTORING, point.name.encode())
    PointPacks(source.files, target.files, progress).copy(restored.packs)
    for path in target.files.list("packs"):
        if path.removeprefix("packs/") not in restored.packs:
            target.files.delete(path)  # of a restore that was killed, of another point
    fill_catalog(target.engine, _rows(source, point, send), restored.numbers)
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


@dataclass
class _Point:
    """What has to be known of a point before its rows are written."""

    packs: dict[str, CopiedFile]
    numbers: dict[str, int]
    erasures: list[Erasure]

    @classmethod
    def read(cls, source: BackupPlace, point: Point) -> _Point:
        names = (COPIED_PACK, LAST_NUMBER, schema.erasure.name)
        found = cls({}, {}, [])
        for table, rows in read_files(source, point.rows, names.__contains__):
            if table.name == COPIED_PACK:
                found.packs.update(packs_of(rows))
            elif table.name == LAST_NUMBER:
                found.numbers.update({row[0]: row[1] for row in rows})
            else:
                found.erasures += erasures_of(rows)
        return found


def _rows(source: BackupPlace, point: Point, send: bool) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows of a point as the restored database has them, by table."""
    own = (COPIED_PACK, LAST_NUMBER)
    for table, rows in read_files(source, point.rows, lambda name: name not in own):
        if table is schema.outbox and not send:
            rows = [_not_sent(row) for row in rows]
        yield table.name, rows


def _not_sent(row: Row) -> Row:
    """A row of the outbox that is not waiting any more."""
    sealed = SealedRows(schema.outbox)
    values = sealed.named(row)
    if values["state"] != WAITING:
        return row
    return tuple(sealed.seal({**values, "state": FAILED, "error": _NOT_SENT}).values())
