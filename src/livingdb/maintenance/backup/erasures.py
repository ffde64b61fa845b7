"""Erasures that backups know of: what was backed up before one would bring erased rows back.

A backup place has a small file for each erasure, whose name says which it is.  It is written
before the first point that knows of the erasure, stays when points go, and counts for all points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.dump import Row, rows_of
from livingdb.errors import Forbidden
from livingdb.files.base import Files
from livingdb.maintenance.backup.place import BackupPlace

__all__ = ["Erasure", "check_erasures", "erasures_in", "erasures_of", "save_erasures"]

_FOLDER = "erasures"
_NUMBER, _TIME = (
    [column.name for column in schema.erasure.c].index(name) for name in ("number", "time")
)


class Erasure(NamedTuple):
    """An erasure, by its number and its time: of two copies that went apart, each has its own."""

    number: int
    time: int

    @property
    def path(self) -> str:
        """The file of a backup place that says so."""
        return f"{_FOLDER}/{self.number:08}-{self.time}"


def erasures_of(rows: Iterable[Row]) -> Iterator[Erasure]:
    """Those of some rows of the catalog."""
    return (Erasure(int(row[_NUMBER]), int(row[_TIME])) for row in rows)


def erasures_in(connection: Connection) -> set[Erasure]:
    """Those that a database knows of."""
    return set(erasures_of(rows_of(connection, schema.erasure, lambda mark: False)))


def save_erasures(place: BackupPlace, known: Iterable[Erasure]) -> None:
    """Let a backup place know of erasures."""
    there = set(place.files.list(_FOLDER))
    for erasure in sorted(known):
        if erasure.path not in there:
            place.files.write(erasure.path, b"")


def check_erasures(
    files: Files, known: Iterable[Erasure], restored: Sequence[Erasure], when: str
) -> None:
    """Refuse to restore what would bring rows back that were erased since."""
    missing = {erasure.path for erasure in known} | set(files.list(_FOLDER))
    missing -= {erasure.path for erasure in restored}
    if missing:
        first = min(missing).removeprefix(f"{_FOLDER}/").partition("-")[0]
        raise Forbidden(
            f"rows were erased after the backup of {when} was made (erasure {int(first)}), and "
            "restoring it would bring them back: restore a later one; or, if it has to be this "
            "one, say bring_back=True (--bring-back) and erase them again at once"
        )
