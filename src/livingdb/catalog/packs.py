"""The packs in use, their levels, and retired ones that wait for deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Packs"]

_pack, _retired = schema.pack, schema.retired


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

    def retire(self, connection: Connection, names: Iterable[str], time: int) -> None:
        """As `remove`, but somebody may still read them: their files are to go later."""
        leaving = list(names)
        self.remove(connection, leaving)
        connection.execute(_retired.insert(), [{"name": n, "time": time} for n in leaving])

    def retired_packs(self) -> list[tuple[str, int]]:
        """Packs whose files are to go, and since when."""
        rows = self._queries.all(select(_retired.c.name, _retired.c.time))
        return [(name, time) for name, time in rows]

    def forget(self, connection: Connection, names: Iterable[str]) -> None:
        """The files of retired packs have gone."""
        connection.execute(_retired.delete().where(_retired.c.name.in_(list(names))))
