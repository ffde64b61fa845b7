"""Prepared statements: compiled once, then run on the driver's own cursor.

For the few statements of every commit, where building them anew costs more than running them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

from livingdb.chunks.postgres import postgres_failure
from livingdb.chunks.sqlite import sqlite_failure

__all__ = ["Prepared"]

Values = Mapping[str, Any]


class Prepared:
    """One statement of one database."""

    def __init__(self, engine: Engine, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=engine.dialect)
        self._text = str(compiled)
        self._order: list[str] | None = getattr(compiled, "positiontup", None)
        given = compiled.params if isinstance(compiled, SQLCompiler) else {}
        self._fixed = {name: value for name, value in given.items() if value is not None}
        self._failure = sqlite_failure if engine.dialect.name == "sqlite" else postgres_failure

    def run(self, connection: Connection, values: Values) -> Any:
        """Run it in the connection's transaction; the driver's cursor."""
        cursor = _cursor(connection)
        try:
            cursor.execute(self._text, self._bound(values))
        except Exception as error:
            raise self._failure(error) or error from None
        return cursor

    def run_many(self, connection: Connection, values: Iterable[Values]) -> None:
        """Run it once for each of the values."""
        bound = [self._bound(each) for each in values]
        cursor = _cursor(connection)
        try:
            cursor.executemany(self._text, bound)
        except Exception as error:
            raise self._failure(error) or error from None
        finally:
            cursor.close()

    def _bound(self, values: Values) -> Any:
        if self._fixed:
            values = {**self._fixed, **values}
        return values if self._order is None else [values[name] for name in self._order]


def _cursor(connection: Connection) -> Any:
    """A cursor of the driver, within a transaction as any other statement would be."""
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.cursor()
