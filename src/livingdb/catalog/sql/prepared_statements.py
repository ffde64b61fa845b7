"""Prepared statements: compiled once, then run on the driver's own cursor.

For the few statements of every commit, where building them anew costs more than running them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

from livingdb.catalog.sql.postgres import postgres_failure
from livingdb.catalog.sql.sqlite import sqlite_failure

__all__ = ["PreparedStatement"]

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Its text, what gives its driver values, and values it brings along."""

    text: str
    pick: Callable[[Values], Any]
    fixed: dict[str, Any]

    def bind(self, values: Values) -> Any:
        """The values as the driver takes them."""
        return self.pick({**self.fixed, **values} if self.fixed else values)


def _picker(order: list[str] | None) -> Callable[[Values], Any]:
    """What gives a driver values by their names, or in the order in which it takes them."""
    if order is None:
        return dict
    return itemgetter(*order) if len(order) > 1 else lambda values: [values[n] for n in order]


class PreparedStatement:
    """One statement for all databases, compiled when it is first run on one of their kind."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def _compile(self, dialect: Dialect) -> _Compiled:
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled = self._statement.compile(dialect=dialect)
            given = compiled.params if isinstance(compiled, SQLCompiler) else {}
            fixed = {name: value for name, value in given.items() if value is not None}
            known = _Compiled(str(compiled), _picker(getattr(compiled, "positiontup", None)), fixed)
            self._compiled[dialect.name] = known
        return known

    def run(self, connection: Connection, values: Values) -> Any:
        """Run it in the connection's transaction; the driver's cursor."""
        compiled, cursor = self._compile(connection.dialect), _cursor(connection)
        try:
            cursor.execute(compiled.text, compiled.bind(values))
        except Exception as error:
            raise _failure(connection, error, compiled.text) or error from None
        return cursor

    def fetch(self, connection: Connection, values: Values) -> list[Any]:
        """Run it; every row of its answer."""
        cursor = self.run(connection, values)
        try:
            return list(cursor.fetchall())
        except Exception as error:
            words = self._compile(connection.dialect).text
            raise _failure(connection, error, words) or error from None

    def run_many(self, connection: Connection, values: Iterable[Values]) -> int:
        """Run it once for each of the values; how many rows that changed in all."""
        compiled, cursor = self._compile(connection.dialect), _cursor(connection)
        try:
            cursor.executemany(compiled.text, [compiled.bind(each) for each in values])
            return int(cursor.rowcount)
        except Exception as error:
            raise _failure(connection, error, compiled.text) or error from None
        finally:
            cursor.close()


def _cursor(connection: Connection) -> Any:
    """A cursor of the driver, within a transaction as any other statement would be."""
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.cursor()


def _failure(connection: Connection, error: Exception, words: str) -> Exception | None:
    """LivingDB's error for one of the driver, or SQLAlchemy's for a rule of a table."""
    if isinstance(error, connection.dialect.loaded_dbapi.IntegrityError):
        return IntegrityError(words, None, error)
    is_sqlite = connection.dialect.name == "sqlite"
    return sqlite_failure(error, connection) if is_sqlite else postgres_failure(error)
