"""Labels of columns: what a column is, whatever branch it is on."""

from __future__ import annotations

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Labels"]

_label = schema.label
_rows = SealedRows(_label)


class Labels:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(self, connection: Connection, table: str, column: str, label: str) -> None:
        """Give a column a label; nothing changes if it has it."""
        _rows.insert_missing(connection, [{"table": table, "column": column, "label": label}])

    def drop(self, connection: Connection, table: str, column: str, label: str | None) -> int:
        """Take a label, or all of them, from a column; how many it had."""
        where = [_label.c.table == table, _label.c.column == column]
        if label is not None:
            where.append(_label.c.label == label)
        return _rows.delete(connection, *where)

    def all(self) -> list[tuple[str, str, str]]:
        """Every table, column and label, in that order."""
        statement = _rows.every.order_by(_label.c.table, _label.c.column, _label.c.label)
        rows = _rows.read_all(self._queries.all(statement))
        return [(table, column, label) for table, column, label in rows]

    def of(self, label: str) -> dict[str, list[str]]:
        """The columns that have a label, by table."""
        found: dict[str, list[str]] = {}
        for table, column, given in self.all():
            if given == label:
                found.setdefault(table, []).append(column)
        return found
