"""Leases on snapshots: who is in the middle of reading one, and until when that counts."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["LeaseRow", "LeaseRows"]

_lease = schema.lease
_rows = SealedRows(_lease)


class LeaseRow(NamedTuple):
    """A lease on the snapshot of a number; times are in microseconds since 1970, UTC."""

    id: str
    snapshot: int
    holder: str
    began: int
    until: int


class LeaseRows:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> list[LeaseRow]:
        """Every lease, also those that have run out."""
        return [LeaseRow(*row) for row in _rows.read_all(self._queries.all(_rows.every))]

    def add(self, connection: Connection, lease: LeaseRow) -> None:
        """A new lease."""
        _rows.insert(connection, [lease._asdict()])

    def renew(self, connection: Connection, lease: str, until: int) -> bool:
        """Let a lease last longer; whether it was still there."""
        return bool(_rows.update(connection, [_lease.c.id == lease], {"until": until}))

    def drop(self, connection: Connection, lease: str) -> None:
        """A lease ends."""
        _rows.delete(connection, _lease.c.id == lease)

    def sweep(self, connection: Connection, moment: int) -> int:
        """Remove leases that have run out; how many there were."""
        return _rows.delete(connection, _lease.c.until < moment)
