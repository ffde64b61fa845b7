"""Which snapshot changed which table, and to which version."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Engine, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address

__all__ = ["ChangedTables"]

_touch = schema.touch


class ChangedTables:
    """Reads and writes them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        self._insert = PreparedStatement(engine, _touch.insert())
        self._between = (
            select(_touch.c.sequence, _touch.c.version)
            .where(
                _touch.c.name == bindparam("name"),
                _touch.c.sequence.between(bindparam("low"), bindparam("high")),
            )
            .order_by(_touch.c.sequence.desc())
        )

    def add(
        self, connection: Connection, sequence: int, tables: Mapping[str, Address | None]
    ) -> None:
        """Write down what a snapshot changed (None: dropped), in a transaction."""
        for name, version in tables.items():
            values = {"name": name, "sequence": sequence, "version": version}
            self._insert.run(connection, values)

    def between(self, name: str, low: int, high: int) -> list[tuple[int, Address | None]]:
        """The snapshots with numbers from `low` to `high` that changed a table, newest first."""
        parameters = {"name": name, "low": low, "high": high}
        rows = self._queries.all(self._between, parameters)
        return [(sequence, None if v is None else Address(v)) for sequence, v in rows]
