"""Labels of columns: what a column is, whatever branch it is on."""

from __future__ import annotations

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Labels"]

_label = schema.label


class Labels:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(self, connection: Connection, table: str, column: str, label: str) -> None:
        """Give a column a label; nothing changes if it has it."""
        insert = insert_into(connection.dialect.name, _label)
        values = {"table": table, "column": column, "label": label}
        connection.execute(insert.on_conflict_do_nothing(), values)

    def drop(self, connection: Connection, table: str, column: str, label: str | None) -> int:
        """Take a label, or all of them, from a column; how many it had."""
        statement = _label.delete().where(_label.c.table == table, _label.c.column == column)
        if label is not None:
            statement = statement.where(_label.c.label == label)
        return connection.execute(statement).rowcount

    def all(self) -> list[tuple[str, str, str]]:
        """Every table, column and label, in that order."""
        statement = select(_label).order_by(_label.c.table, _label.c.column, _label.c.label)
        return [(row.table, row.column, row.label) for row in self._queries.all(statement)]

    def of(self, label: str) -> dict[str, list[str]]:
        """The columns that have a label, by table."""
        statement = select(_label.c.table, _label.c.column).where(_label.c.label == label)
        found: dict[str, list[str]] = {}
        for row in self._queries.all(statement.order_by(_label.c.table, _label.c.column)):
            found.setdefault(row[0], []).append(row[1])
        return found
