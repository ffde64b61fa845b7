"""The counters of identity columns: numbers that are given once, whatever becomes of them.

A counter belongs to a column, by its id, which it has on every branch and on both sides of a
schema change.  Numbers are taken in transactions of their own, so that one that was taken for
something that came to nothing is lost.
"""

from __future__ import annotations

from sqlalchemy import Engine, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine

__all__ = ["Counters"]

_counter = schema.counter
_NEXT = select(_counter.c.next).where(_counter.c.column == bindparam("id"))


class Counters:
    """Reads and moves them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        self._writing = writing_engine(engine)
        self._add = insert_into(engine.dialect.name, _counter).on_conflict_do_nothing()
        self._where = _counter.c.column == bindparam("id")

    def next(self, column: str) -> int | None:
        """The next number; None if none was taken yet."""
        found: int | None = self._queries.scalar(_NEXT, {"id": column})
        return found

    def take(self, column: str, count: int, first: int = 1, step: int = 1) -> int:
        """The first of so many numbers that nobody else gets; `first` of all, if none was taken.

        Each is a `step` from the one before.
        """
        moved = _counter.update().where(self._where).values(next=_counter.c.next + count * step)
        with self._writing.begin() as connection:
            connection.execute(self._add, {"column": column, "next": first})
            connection.execute(moved, {"id": column})
            return int(connection.execute(_NEXT, {"id": column}).scalar_one()) - count * step

    def move_to(self, column: str, number: int, step: int = 1) -> None:
        """Never give a number before this one from now on, in the direction of the steps."""
        following = _counter.c.next
        is_before = following < number if step > 0 else following > number
        moved = _counter.update().where(self._where, is_before).values(next=number)
        with self._writing.begin() as connection:
            connection.execute(self._add, {"column": column, "next": number})
            connection.execute(moved, {"id": column})
