"""Transactions that write, each on a connection that stays open and nobody else uses.

Taking a connection from a pool, and letting SQLAlchemy begin, commit and give it back, costs a
small commit more than its statements.  What stays open also keeps the pages that it has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import locked_for_writing, writing_engine

__all__ = ["WriteTransactions"]


class WriteTransactions:
    """Transactions of one database, which hold the write lock from the start."""

    def __init__(self, engine: Engine) -> None:
        self._engine = writing_engine(engine)
        self._lines = Queries(engine)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed at its end, undone by whatever is raised in it."""
        if self._engine.dialect.name != "sqlite":
            with self._engine.begin() as connection:
                yield connection
            return
        with self._lines.connection() as connection, locked_for_writing(connection):
            yield connection

    def connect(self) -> Connection:
        """A connection of its own, whose transactions hold the write lock."""
        return self._engine.connect()

    def close(self) -> None:
        """Let go of every connection, each when its transaction has ended."""
        self._lines.close()
