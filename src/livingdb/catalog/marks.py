"""How far a catalog is: numbers by which others see that something happened; most only grow.

They are read with one statement, however large the database is, by whichever process.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from sqlalchemy import func, select

from livingdb.catalog import schema
from livingdb.catalog.branches import EPOCH
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import InvalidData

__all__ = ["Marks", "read_marks", "requests_since", "syncs_since"]


@dataclass(frozen=True)
class Marks:
    """The last snapshot, alert, step of a sync, request and event about one, and head moved.

    Tags stay where they are: how many there are and when the last was made tells of every change.
    """

    snapshot: int = 0
    alert: int = 0
    trail: int = 0
    request: int = 0
    event: int = 0
    moves: int = 0
    branches: int = 0
    step: int = 0
    tags: int = 0
    tagged: int = 0
    epoch: int = 0

    def to_text(self) -> str:
        """The marks as a client keeps them."""
        return "-".join(map(str, astuple(self)))

    @classmethod
    def from_text(cls, text: str) -> Marks:
        """The inverse of `to_text`; `InvalidData` for what is none."""
        parts = text.split("-")
        is_right = len(parts) == len(fields(cls)) and all(
            part.isascii() and part.isdigit() and len(part) < 19 for part in parts
        )
        if not is_right:
            raise InvalidData(f"{text[:80]!r} is no position in the events of a database")
        return cls(*map(int, parts))


_COUNTED = (
    func.max(schema.snapshot.c.sequence),
    func.max(schema.alert.c.id),
    func.max(schema.trail.c.id),
    func.max(schema.merge_request.c.number),
    func.max(schema.merge_event.c.id),
    func.sum(schema.branch.c.position),
    func.count(schema.branch.c.number),
    func.max(schema.step.c.id),
    func.count(schema.tag.c.name),
    func.max(schema.tag.c.time),
)
_MARKS = select(
    *(select(counted).scalar_subquery() for counted in _COUNTED),
    select(schema.meta.c.value).where(schema.meta.c.name == EPOCH).scalar_subquery(),
)


def read_marks(queries: Queries) -> Marks:
    """Where a catalog is now."""
    return Marks(*(int(value or 0) for value in queries.first(_MARKS)))


def syncs_since(queries: Queries, trail: int) -> set[int]:
    """The numbers of the syncs that something became of after a step."""
    found = select(schema.trail.c.sync).where(schema.trail.c.id > trail).distinct()
    return {int(row[0]) for row in queries.all(found)}


def requests_since(queries: Queries, request: int, event: int) -> list[int]:
    """The merge requests that are new, or that somebody said or did something about since."""
    made = select(schema.merge_request.c.number).where(schema.merge_request.c.number > request)
    said = select(schema.merge_event.c.request).where(schema.merge_event.c.id > event)
    return sorted({int(row[0]) for row in (*queries.all(made), *queries.all(said))})
