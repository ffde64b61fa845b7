"""Layouts that tables were given since they were made, as JSON, by the tables' identities."""

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
        """All of them; there are as many as tables that were given another layout."""
        rows = _rows.read_all(self._queries.all(_rows.every))
        return {str(table): str(layout) for table, layout in rows}

    def find(self, connection: Connection, table: str) -> str | None:
        """The one of a table, asked in a transaction; None if it was given none."""
        asked = _rows.every.where(schema.table_layout.c.table == table)
        found = connection.execute(asked).first()
        return None if found is None else str(_rows.read(found)[1])

    def put(self, connection: Connection, table: str, layout: str) -> None:
        """Let a table have a layout, in a transaction."""
        _rows.put(connection, [{"table": table, "layout": layout}])

    def drop(self, connection: Connection, table: str) -> None:
        """Let a table have the layout that it was made with, in a transaction."""
        _rows.delete(connection, schema.table_layout.c.table == table)
