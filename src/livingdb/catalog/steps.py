"""Steps: commits that other branches have yet to follow, and the courses they follow on.

A course says which branches follow, in which order and along which syncs; in words of its own,
which this catalog only keeps.  Both go when the branches have followed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["StepRow", "Steps"]

_step, _course = schema.step, schema.course


@dataclass(frozen=True, slots=True)
class StepRow:
    """A commit, by the number of its snapshot and its time, and the course to follow it on."""

    id: int
    course: str
    snapshot: int
    time: int


_steps, _courses = SealedRows(_step), SealedRows(_course)
_LEGS = PreparedStatement(_courses.every.where(_course.c.id == bindparam("course")))
_since = _steps.every.where(_step.c.id > bindparam("after")).order_by(_step.c.id)
_SINCE = PreparedStatement(_since)
_OLDEST = _since.limit(bindparam("most")).with_for_update()


class Steps:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def since(self, after: int, connection: Connection | None = None) -> list[StepRow]:
        """The steps after one, in their order; also what a transaction has written."""
        values = {"after": after}
        if connection is None:
            rows = self._queries.run_prepared(_SINCE, values)
        else:
            rows = _SINCE.run(connection, values).fetchall()
        return [StepRow(*row) for row in _steps.read_all(rows)]

    def oldest(self, connection: Connection, most: int) -> list[StepRow]:
        """The oldest steps, which nobody else takes until the transaction ends."""
        rows = connection.execute(_OLDEST, {"after": 0, "most": most})
        return [StepRow(*row) for row in _steps.read_all(rows)]

    def legs(self, course: str) -> str | None:
        """What a course says."""
        rows = self._queries.run_prepared(_LEGS, {"course": course})
        return str(_courses.read(rows[0])[1]) if rows else None

    def courses(self) -> dict[str, str]:
        """The courses of all steps, and what they say."""
        found = {name: self.legs(name) for name in {step.course for step in self.since(0)}}
        return {name: legs for name, legs in found.items() if legs is not None}

    def add(self, connection: Connection, course: str, legs: str, snapshot: int, time: int) -> None:
        """A step that others are to follow; `legs` is what the course says."""
        if not _LEGS.run(connection, {"course": course}).fetchall():
            _courses.insert(connection, [{"id": course, "legs": legs}])
        step = {"course": course, "snapshot": snapshot, "time": time}
        _steps.insert_numbered(connection, [step])

    def remove(self, connection: Connection, last: int) -> None:
        """Forget steps up to one, and courses that no other is on."""
        _steps.delete(connection, _step.c.id <= last)
        _courses.delete(connection, _course.c.id.not_in(select(_step.c.course)))
