"""What an operation that is under way will have done: noted in the audit trail with what it stores.

An operation may store things in several transactions, and repeat one that others got in the way of.
The first that is kept has the note; an operation that cannot be noted stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog.audit import AuditTrail, Place
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["PendingNote", "keep_note", "note_under_way", "pending_note"]


class PendingNote:
    """A note of one catalog, until it is kept; `make` gives the entry, as of when it is written."""

    def __init__(self, audit: AuditTrail, queries: Queries, make: Callable[[], Mapping[str, Any]]):
        self.queries = queries
        self._audit = audit
        self._make = make
        self._place: Place | None = None

    def write(self, connection: Connection) -> None:
        """Write it down in a transaction, unless one before it did and was kept."""
        if self._place is None or not self._audit.has(self._place, connection):
            self._place = self._audit.add(connection, [self._make()])

    def is_kept(self) -> bool:
        """Whether it is in the trail."""
        return self._place is not None and self._audit.has(self._place)


_current: ContextVar[PendingNote | None] = ContextVar("livingdb_pending_note", default=None)


@contextmanager
def pending_note(note: PendingNote) -> Iterator[None]:
    """Let what is stored inside take a note with it; what is part of it is not noted apart."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(note)
    try:
        yield
    finally:
        _current.reset(token)


def note_under_way(queries: Queries) -> PendingNote | None:
    """What is under way here in a catalog; None if nothing is."""
    note = _current.get()
    return note if note is not None and note.queries is queries else None


def keep_note(queries: Queries, connection: Connection) -> None:
    """Write what is under way in a catalog, if anything is, in a transaction that does it."""
    note = note_under_way(queries)
    if note is not None:
        note.write(connection)
