"""Which packs count."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.chunks.queries import Queries

__all__ = ["Packs"]

_pack = schema.pack


class Packs:
    """The packs of a database, oldest first."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._names = select(_pack.c.name).order_by(_pack.c.position)

    def names(self) -> list[str]:
        """The packs that count now."""
        return [name for (name,) in self._queries.all(self._names)]

    def add(self, connection: Connection, names: Iterable[str], time: int) -> None:
        """Make packs count, in a transaction."""
        values = [{"name": name, "time": time} for name in names]
        if values:
            connection.execute(_pack.insert(), values)

    def remove(self, connection: Connection, names: Iterable[str]) -> None:
        """Make packs count no more, in a transaction."""
        connection.execute(_pack.delete().where(_pack.c.name.in_(list(names))))
