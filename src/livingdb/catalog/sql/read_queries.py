"""Queries: single statements that read, each thread on a connection of its own that stays open.

Taking a connection from a pool and giving it back costs more than most reads.  A statement is
its own transaction, so each one sees what is committed at that moment.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Executable

from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.sqlite import BEGIN_OPTION, reading_engine
from livingdb.errors import LivingDBError

__all__ = ["Queries", "closed_error"]


def closed_error() -> LivingDBError:
    """The error for what is asked of a database that was closed, maybe by another thread."""
    return LivingDBError("the database is closed; open it again")


class Queries:
    """Reads from one database; threads may share it.

    Closing waits for the statements that run, and lets nobody begin another.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = reading_engine(engine)
        self._local = threading.local()
        self._lines: weakref.WeakSet[_Line] = weakref.WeakSet()
        self._opening = threading.Lock()
        self._is_closed = False

    def all(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Every row of the answer."""
        with self._open_line() as connection:
            return list(connection.execute(statement, parameters).all())

    def first(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first row of the answer; None if there is none."""
        with self._open_line() as connection:
            return connection.execute(statement, parameters).first()

    def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first value of the first row; None if there is none."""
        with self._open_line() as connection:
            return connection.execute(statement, parameters).scalar()

    def run_prepared(self, statement: PreparedStatement, values: Mapping[str, Any]) -> list[Any]:
        """Every row of a prepared statement's answer: nothing of it stays open."""
        with self._open_line() as connection:
            return statement.fetch(connection, values)

    @contextmanager
    def at_one_moment(self) -> Iterator[Queries]:
        """Queries that all see what was committed at one moment; for one thread."""
        self.check_open()
        with self._engine.connect() as connection:
            options: dict[str, Any] = {BEGIN_OPTION: "BEGIN"}
            if connection.dialect.name != "sqlite":
                options["isolation_level"] = "REPEATABLE READ"
            connection = connection.execution_options(**options)
            with connection.begin():
                yield _QueriesOn(self._engine, _Line(connection, stays=True))

    def connection(self) -> AbstractContextManager[Connection]:
        """The connection that this thread asks on."""
        return self._open_line()

    def check_open(self) -> None:
        """Refuse what comes after `close`."""
        if self._is_closed:
            raise closed_error()

    def close(self) -> None:
        """Let go of every thread's connection, each when it is not in use."""
        with self._opening:
            self._is_closed = True
            lines = list(self._lines)
        for line in lines:
            line.close()

    def _open_line(self) -> _Line:
        line: _Line | None = getattr(self._local, "line", None)
        if line is None or line.connection.closed:
            with self._opening:
                self.check_open()
                line = _Line(self._engine.connect())
                self._lines.add(line)
            self._local.line = line
        return line


class _Line:
    """One thread's connection: entered for a statement, closed by a failure unless it `stays`."""

    def __init__(self, connection: Connection, stays: bool = False) -> None:
        self.connection = connection
        self._stays = stays
        self._use = threading.RLock()

    def __enter__(self) -> Connection:
        self._use.acquire()
        if self.connection.closed:
            self._use.release()
            raise closed_error()
        return self.connection

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        try:
            if error is not None and not self._stays:
                self.connection.close()
        finally:
            self._use.release()

    def close(self) -> None:
        """Let go of the connection, once the statement on it is done."""
        with self._use:
            self.connection.close()


class _QueriesOn(Queries):
    """Queries on one connection, within its transaction."""

    def __init__(self, engine: Engine, line: _Line) -> None:
        super().__init__(engine)
        self._one = line

    def _open_line(self) -> _Line:
        return self._one
