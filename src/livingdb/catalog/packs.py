"""Which packs count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

    def levels(self, connection: Connection | None = None) -> list[tuple[str, int]]:
        """The packs that count now, and how large they are, roughly."""
        statement = select(_pack.c.name, _pack.c.level).order_by(_pack.c.position)
        if connection is not None:
            return [(name, level) for name, level in connection.execute(statement)]
        return [(name, level) for name, level in self._queries.all(statement)]

    def add(self, connection: Connection, levels: Mapping[str, int]) -> None:
        """Make packs of these levels count, in a transaction."""
        values = [{"name": name, "level": level} for name, level in levels.items()]
        if values:
            connection.execute(_pack.insert(), values)

    def remove(self, connection: Connection, names: Iterable[str]) -> None:
        """Make packs count no more, in a transaction."""
        connection.execute(_pack.delete().where(_pack.c.name.in_(list(names))))
