"""Queries: single statements that read, each on a connection that stays open and nobody else uses.

Taking a connection from SQLAlchemy's pool and giving it back costs more than most reads, and so
does opening one.  Connections do not belong to threads: those in which gRPC calls us are new ones
to Python each time.  A statement is its own transaction, so each one sees what is committed at
that moment.
"""

from __future__ import annotations

import threading
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
        self._lines: list[_Line] = []
        self._free: list[_Line] = []
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
                yield _QueriesOn(self._engine, _Line(connection))

    def connection(self) -> AbstractContextManager[Connection]:
        """A connection that nobody else asks on meanwhile."""
        return self._open_line()

    def check_open(self) -> None:
        """Refuse what comes after `close`."""
        if self._is_closed:
            raise closed_error()

    def close(self) -> None:
        """Let go of every connection, each when it is not in use."""
        with self._opening:
            self._is_closed = True
            lines = list(self._lines)
        for line in lines:
            line.close()

    def _open_line(self) -> _Line:
        try:
            return self._free.pop()  # the last one that was used; in one step, whoever else asks
        except IndexError:
            return self._new_line()

    def _new_line(self) -> _Line:
        with self._opening:
            self.check_open()
            line = _Line(self._engine.connect(), self)
            self._lines.append(line)
        return line

    def _give_back(self, line: _Line) -> None:
        if not line.connection.closed:
            self._free.append(line)
            return
        with self._opening:
            self._lines.remove(line)


class _Line:
    """A connection: entered for a statement, and closed by a failure unless it belongs to nobody.

    Whoever it belongs to gets it back after each statement.
    """

    def __init__(self, connection: Connection, owner: Queries | None = None) -> None:
        self.connection = connection
        self._owner = owner
        self._use = threading.RLock()

    def __enter__(self) -> Connection:
        self._use.acquire()
        if self.connection.closed:
            self._use.release()
            raise closed_error()
        return self.connection

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        owner = self._owner
        try:
            if error is not None and owner is not None:
                self.connection.close()
        finally:
            self._use.release()
            if owner is not None:
                owner._give_back(self)

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
