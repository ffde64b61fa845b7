"""What tables were given since they were made, as JSON, by their identities: layouts, indexes."""

from __future__ import annotations

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["TableLayouts"]

_rows = SealedRows(schema.table_layout)


class TableLayouts:
    """Reads and writes them."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> dict[str, str]:
        """All of them; there are as many as tables that were given something."""
        rows = _rows.read_all(self._queries.all(_rows.every))
        return {str(table): str(layout) for table, layout in rows}

    def find(self, connection: Connection, table: str) -> str | None:
        """What a table was given, asked in a transaction; None if that is nothing."""
        asked = _rows.every.where(_rows.table.c.table == table)
        found = connection.execute(asked.with_for_update()).first()
        return None if found is None else str(_rows.read(found)[1])

    def put(self, connection: Connection, table: str, given: str | None) -> None:
        """Let a table have something, in a transaction; None: nothing any more."""
        if given is None:
            _rows.delete(connection, _rows.table.c.table == table)
        else:
            _rows.put(connection, [{"table": table, "layout": given}])
