"""Where statements run: on a branch, in a transaction or each for itself, or on a past snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Protocol

from livingdb.dbapi.database_connection import DatabaseConnection
from livingdb.errors import NotFound, RuleViolation

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.snapshot import Snapshot
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result

__all__ = ["OpenTransaction", "Place", "Workspace", "open_workspace", "writable"]


@dataclass(frozen=True)
class Place:
    """What a call is about: a branch or any other ref; None is the default branch."""

    ref: str | None = None
    isolation: str = "snapshot"


class Workspace(Protocol):
    """Runs statements."""

    def plan(self, statement: str, parameters: Parameters = None) -> QueryPlan | None:
        """A query, to be computed later; None if the statement is none, and nothing was done."""
        ...

    def run(self, statement: str, parameters: Parameters) -> Result:
        """Run a statement."""
        ...

    def one_transaction(self) -> AbstractContextManager[None]:
        """Statements that are one transaction."""
        ...

    def close(self) -> None:
        """Leave nothing of what was not committed."""
        ...


class _PastSnapshot:
    """Reads a snapshot, which nothing changes."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot

    def plan(self, statement: str, parameters: Parameters = None) -> QueryPlan | None:
        return self._snapshot.plan(statement, parameters)

    def run(self, statement: str, parameters: Parameters) -> Result:
        return self._snapshot.sql(statement, parameters)

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        return None


def open_workspace(database: Database, place: Place, autocommit: bool) -> Workspace:
    """Where the statements of a call run: a branch by its name, else what the ref names."""
    if place.ref is not None:
        try:
            database.branch(place.ref)
        except NotFound:
            return _PastSnapshot(database.at(place.ref))
    return DatabaseConnection(database, place.ref, autocommit, place.isolation, is_owner=False)


def writable(workspace: Workspace) -> DatabaseConnection:
    """The workspace as one that takes rows; `RuleViolation` if it is a past snapshot."""
    if isinstance(workspace, DatabaseConnection):
        return workspace
    raise RuleViolation(
        "rule 1: only the head of a branch can be written; choose a branch as the catalog"
    )


class OpenTransaction:
    """A transaction that a client has begun; it finds its place with its first statement.

    `peer` is the connection over which it was begun.  Threads may share it: one statement follows
    the other.
    """

    def __init__(self, database: Database, peer: str):
        self.peer = peer
        self.turn = RLock()
        self.has_ended = False
        self._database = database
        self._place: Place | None = None
        self._workspace: Workspace | None = None

    @property
    def has_changes(self) -> bool:
        """Whether something was written that waits to be committed."""
        found = self._workspace
        return not self.has_ended and isinstance(found, DatabaseConnection) and found.has_changes

    def workspace(self, place: Place) -> Workspace:
        """Where its statements run; another place than before only if nothing was written yet."""
        if self.has_ended:
            raise NotFound("the transaction has ended: begin another one")
        if self._workspace is not None and place != self._place:
            if self.has_changes:
                said = (self._place and self._place.ref) or "the default branch"
                raise RuleViolation(
                    f"the transaction works on {said!r}: commit it or roll it back before another "
                    "branch or isolation is chosen"
                )
            self._workspace.close()
            self._workspace = None
        if self._workspace is None:
            self._workspace = open_workspace(self._database, place, autocommit=False)
            self._place = place
        return self._workspace

    def commit(self) -> None:
        """Make a snapshot of what was written; nothing, if nothing was."""
        with self.turn:
            if isinstance(self._workspace, DatabaseConnection):
                self._workspace.commit()

    def close(self) -> None:
        """Leave nothing of what was not committed; it has ended.

        A statement that is at work is not waited for: it is the last one, and nobody commits it.
        """
        self.has_ended = True
        if self.turn.acquire(blocking=False):
            try:
                if self._workspace is not None:
                    self._workspace.close()
            finally:
                self.turn.release()
