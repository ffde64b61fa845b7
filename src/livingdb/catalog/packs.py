"""The packs in use, their levels, and retired ones that wait for deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Packs"]

_pack, _retired = schema.pack, schema.retired
_packs, _leaving = SealedRows(_pack), SealedRows(_retired)


class Packs:
    """The packs of a database, oldest first."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._in_order = _packs.every.order_by(_pack.c.position)

    def names(self) -> list[str]:
        """The packs that count now."""
        return [name for name, _ in self.levels()]

    def levels(self, connection: Connection | None = None) -> list[tuple[str, int]]:
        """The packs that count now, and how large they are, roughly."""
        if connection is not None:
            rows = list(connection.execute(self._in_order))
        else:
            rows = self._queries.all(self._in_order)
        return [(name, level) for _, name, level in _packs.read_all(rows)]

    def add(self, connection: Connection, levels: Mapping[str, int]) -> None:
        """Make packs of these levels count, in a transaction."""
        values = [{"name": name, "level": level} for name, level in levels.items()]
        if values:
            _packs.insert_numbered(connection, values)

    def remove(self, connection: Connection, names: Iterable[str]) -> None:
        """Make packs count no more, in a transaction."""
        _packs.delete(connection, _pack.c.name.in_(list(names)))

    def retire(self, connection: Connection, names: Iterable[str], time: int) -> None:
        """As `remove`, but somebody may still read them: their files are to go later."""
        leaving = list(names)
        self.remove(connection, leaving)
        _leaving.insert(connection, [{"name": name, "time": time} for name in leaving])

    def retired_packs(self) -> list[tuple[str, int]]:
        """Packs whose files are to go, and since when."""
        rows = _leaving.read_all(self._queries.all(_leaving.every))
        return [(name, time) for name, time in rows]

    def forget(self, connection: Connection, names: Iterable[str]) -> None:
        """The files of retired packs have gone."""
        _leaving.delete(connection, _retired.c.name.in_(list(names)))
