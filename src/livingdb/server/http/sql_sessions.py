"""Sessions of SQL: statements that follow each other, with a transaction that may be open.

A session belongs to who opened it.  One that nobody used for a while ends, and what it did not
commit is gone.
"""

from __future__ import annotations

import secrets
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING

from livingdb.database.sql_session import SqlSession
from livingdb.errors import LimitExceeded, Locked, NotFound
from livingdb.server.settings import Limits

if TYPE_CHECKING:
    from livingdb import Branch, Database

__all__ = ["NoSession", "OpenSession", "SqlSessions"]


class NoSession(NotFound):
    """A session that there is not, or not any more; its code is that of anything not found."""


@dataclass
class OpenSession:
    """A session, the key of who opened it, and when it was last used."""

    id: str
    owner: str
    session: SqlSession
    opened: datetime
    used: float
    busy: Lock = field(default_factory=Lock)


class SqlSessions:
    """The sessions of one server."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._lock = Lock()
        self._open: dict[str, OpenSession] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, db: Database, branch: Branch, owner: str) -> OpenSession:
        """A new session on a branch."""
        self.end_idle()
        with self._lock:
            mine = sum(one.owner == owner for one in self._open.values())
            if mine >= self._limits.sessions:
                raise LimitExceeded(f"you have {mine} sessions already: close one")
            made = OpenSession(
                secrets.token_hex(16),
                owner,
                SqlSession(db, branch),
                datetime.now(UTC),
                clock.monotonic(),
            )
            self._open[made.id] = made
        return made

    def all(self, owner: str) -> list[OpenSession]:
        """Those of one user."""
        self.end_idle()
        with self._lock:
            return [one for one in self._open.values() if one.owner == owner]

    def find(self, number: str, owner: str) -> OpenSession:
        """A session of a user; `NotFound` for those of others, too."""
        self.end_idle()
        with self._lock:
            found = self._open.get(number)
        if found is None or found.owner != owner:
            raise NoSession(
                "there is no such session: it may have ended, since nobody used it for "
                f"{self._limits.idle_seconds:g} seconds"
            )
        return found

    @contextmanager
    def use(self, number: str, owner: str) -> Iterator[SqlSession]:
        """Run statements in a session, one at a time; `Locked` while another one runs."""
        found = self.find(number, owner)
        if not found.busy.acquire(blocking=False):
            raise Locked("another statement runs in this session: wait for it")
        try:
            yield found.session
        finally:
            found.used = clock.monotonic()
            found.busy.release()

    def close(self, number: str, owner: str) -> None:
        """End a session."""
        self._end(self.find(number, owner))

    def end_idle(self) -> None:
        """End those that nobody used for a while."""
        late = clock.monotonic() - self._limits.idle_seconds
        with self._lock:
            idle = [one for one in self._open.values() if one.used < late]
        for one in idle:
            if one.busy.acquire(blocking=False):
                one.busy.release()
                self._end(one)

    def close_all(self) -> None:
        """End all of them."""
        with self._lock:
            left = list(self._open.values())
        for one in left:
            self._end(one)

    def _end(self, one: OpenSession) -> None:
        with self._lock:
            self._open.pop(one.id, None)
        one.session.close()
