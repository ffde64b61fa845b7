"""Branches that were dropped: what they were called, where they stood, and when they went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.ids import BranchId
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["DroppedBranchRow", "DroppedBranches", "note_dropped"]

_dropped = schema.dropped_branch
_rows = SealedRows(_dropped)


class DroppedBranchRow(NamedTuple):
    """A branch that is no more; `head` is the number of the snapshot that it stood on."""

    number: int
    id: BranchId
    name: str
    head: int
    time: int


class DroppedBranches:
    """Reads them, and lets go of those that nobody has to know of any more."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> list[DroppedBranchRow]:
        """Every dropped branch that is remembered, the oldest first."""
        rows = self._queries.all(_rows.every.order_by(_dropped.c.number))
        return [DroppedBranchRow(*row) for row in _rows.read_all(rows)]

    def remove(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Remember some no more."""
        _rows.delete_keys(connection, zip(numbers))


def note_dropped(connection: Connection, row: DroppedBranchRow) -> None:
    """Remember a branch that goes with this transaction."""
    _rows.put(connection, [row._asdict()])
