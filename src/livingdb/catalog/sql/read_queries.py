"""Queries: single statements that read, each thread on a connection of its own that stays open.

Taking a connection from a pool and giving it back costs more than most reads.  A statement is
its own transaction, so each one sees what is committed at that moment.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Executable

from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.sqlite import BEGIN_OPTION, reading_engine

__all__ = ["Queries"]


class Queries:
    """Reads from one database; threads may share it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = reading_engine(engine)
        self._local = threading.local()
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = threading.Lock()

    def all(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Every row of the answer."""
        return list(self._run(statement, parameters).all())

    def first(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first row of the answer; None if there is none."""
        return self._run(statement, parameters).first()

    def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first value of the first row; None if there is none."""
        return self._run(statement, parameters).scalar()

    def run_prepared(self, statement: PreparedStatement, values: Mapping[str, Any]) -> list[Any]:
        """Every row of a prepared statement's answer: nothing of it stays open."""
        connection = self._connection()
        try:
            found: list[Any] = statement.run(connection, values).fetchall()
        except BaseException:
            connection.close()
            raise
        return found

    @contextmanager
    def at_one_moment(self) -> Iterator[Queries]:
        """Queries that all see what was committed at one moment; for one thread."""
        with self._engine.connect() as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            options: dict[str, Any] = {BEGIN_OPTION: "BEGIN"}
            if not is_sqlite:
                options["isolation_level"] = "REPEATABLE READ"
            connection = connection.execution_options(**options)
            with connection.begin():
                yield _QueriesOn(self._engine, connection)

    def close(self) -> None:
        """Let go of every thread's connection."""
        with self._opening:
            for connection in list(self._open):
                connection.close()
            self._local = threading.local()

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = self._engine.connect()
            with self._opening:
                self._open.add(connection)
            self._local.connection = connection
        return connection

    def _run(self, statement: Executable, parameters: Mapping[str, Any] | None) -> Any:
        connection = self._connection()
        try:
            return connection.execute(statement, parameters)
        except BaseException:
            connection.close()
            raise


class _QueriesOn(Queries):
    """Queries on one connection, within its transaction."""

    def __init__(self, engine: Engine, connection: Connection) -> None:
        super().__init__(engine)
        self._one = connection

    def _connection(self) -> Connection:
        return self._one
