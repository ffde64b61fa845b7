"""What tables were given since they were made, as JSON, by their identities: layouts, indexes."""

from __future__ import annotations

from collections.abc import Callable

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

    def change(
        self, connection: Connection, table: str, make: Callable[[str | None], str | None]
    ) -> None:
        """Give a table something else, by what it has, in a transaction; None takes it away."""
        is_table = _rows.table.c.table == table
        found = connection.execute(_rows.every.where(is_table).with_for_update()).first()
        made = make(None if found is None else str(_rows.read(found)[1]))
        if made is None:
            _rows.delete(connection, is_table)
        else:
            _rows.put(connection, [{"table": table, "layout": made}])
