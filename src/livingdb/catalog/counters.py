"""The counters of identity columns: numbers that are given once, whatever becomes of them.

A counter belongs to a column, by its id, which it has on every branch and on both sides of a
schema change.  Numbers are taken in transactions of their own, so that one that was taken for
something that came to nothing is lost.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine

__all__ = ["Counters"]

_counter = schema.counter
_rows = SealedRows(_counter)


class Counters:
    """Reads and moves them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        self._writing = writing_engine(engine)

    def next(self, column: str) -> int | None:
        """The next number; None if none was taken yet."""
        row = _rows.find(self._queries, column=column)
        return None if row is None else int(row[1])

    def take(self, column: str, count: int, first: int = 1, step: int = 1) -> int:
        """The first of so many numbers that nobody else gets; `first` of all, if none was taken.

        Each is a `step` from the one before.
        """
        with self._writing.begin() as connection:
            _add_missing(connection, column, first)
            (moved,) = _rows.update(
                connection,
                [_counter.c.column == column],
                lambda row: {"next": row["next"] + count * step},
            )
            return int(moved["next"]) - count * step

    def move_to(self, column: str, number: int, step: int = 1) -> None:
        """Never give a number before this one from now on, in the direction of the steps."""
        following = _counter.c.next
        is_before = following < number if step > 0 else following > number
        with self._writing.begin() as connection:
            _add_missing(connection, column, number)
            _rows.update(connection, [_counter.c.column == column, is_before], {"next": number})


def _add_missing(connection: Connection, column: str, first: int) -> None:
    """A counter for a column that has none, also none whose row is damaged."""
    if _rows.insert_missing(connection, [{"column": column, "next": first}]):
        _rows.read_all(connection.execute(_rows.every))
