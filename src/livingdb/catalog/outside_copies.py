"""What of the database lies elsewhere: its backups and exports, and how new each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["BACKUP", "EXPORT", "OutsideCopies", "OutsideCopy"]

BACKUP, EXPORT = "backup", "export"
_copy = schema.outside_copy
_rows = SealedRows(_copy)


@dataclass(frozen=True)
class OutsideCopy:
    """A copy at a place, which has no secrets in it; of snapshots up to a number, at a time."""

    kind: str
    place: str
    snapshot: int
    time: int
    details: Mapping[str, Any]


class OutsideCopies:
    """One row for each kind and place: what is copied there again takes the place of what was."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> list[OutsideCopy]:
        """Every copy, the oldest place first."""
        rows = _rows.read_all(self._queries.all(_rows.every.order_by(_copy.c.number)))
        return [_outside_copy(*row) for row in rows]

    def note(self, connection: Connection, made: OutsideCopy) -> None:
        """Write down a copy that was made, in a transaction."""
        values = {
            "snapshot": made.snapshot,
            "time": made.time,
            "details": dumps(dict(made.details), sort_keys=True),
        }
        is_place = (_copy.c.kind == made.kind, _copy.c.place == made.place)
        if not _rows.update(connection, is_place, values):
            _rows.insert_numbered(connection, [{"kind": made.kind, "place": made.place, **values}])


def _outside_copy(
    _number: int, kind: str, place: str, snapshot: int, time: int, details: str
) -> OutsideCopy:
    return OutsideCopy(kind, place, snapshot, time, loads(details))
