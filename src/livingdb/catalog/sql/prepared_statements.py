"""Prepared statements: compiled once, then run on the driver's own cursor.

For the few statements of every commit, where building them anew costs more than running them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

from livingdb.catalog.sql.postgres import postgres_failure
from livingdb.catalog.sql.sqlite import sqlite_failure

__all__ = ["PreparedStatement"]

Values = Mapping[str, Any]


class PreparedStatement:
    """One statement of one database, compiled when it is first run."""

    def __init__(self, engine: Engine, statement: ClauseElement) -> None:
        self._statement = statement
        self._dialect = engine.dialect
        self._failure = sqlite_failure if engine.dialect.name == "sqlite" else postgres_failure

    @cached_property
    def _compiled_statement(self) -> tuple[str, list[str] | None, dict[str, Any]]:
        """Its text, the order of its values if they go by order, and values it brings along."""
        compiled = self._statement.compile(dialect=self._dialect)
        given = compiled.params if isinstance(compiled, SQLCompiler) else {}
        fixed = {name: value for name, value in given.items() if value is not None}
        return str(compiled), getattr(compiled, "positiontup", None), fixed

    def run(self, connection: Connection, values: Values) -> Any:
        """Run it in the connection's transaction; the driver's cursor."""
        cursor = _cursor(connection)
        try:
            cursor.execute(self._compiled_statement[0], self._bind(values))
        except Exception as error:
            raise self._failure(error) or error from None
        return cursor

    def run_many(self, connection: Connection, values: Iterable[Values]) -> None:
        """Run it once for each of the values."""
        bound = [self._bind(each) for each in values]
        cursor = _cursor(connection)
        try:
            cursor.executemany(self._compiled_statement[0], bound)
        except Exception as error:
            raise self._failure(error) or error from None
        finally:
            cursor.close()

    def _bind(self, values: Values) -> Any:
        _, order, fixed = self._compiled_statement
        if fixed:
            values = {**fixed, **values}
        return values if order is None else [values[name] for name in order]


def _cursor(connection: Connection) -> Any:
    """A cursor of the driver, within a transaction as any other statement would be."""
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.cursor()
