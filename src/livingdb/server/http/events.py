"""Events: what changes in the database, and in jobs, told to whoever listens and may know it.

One thread goes along with the database as long as somebody listens.  A listener who does not keep
up is let go, and comes back with the id of the last event it saw.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from livingdb.catalog.marks import Marks, read_marks
from livingdb.database.changes import Change, ChangeFollower
from livingdb.errors import LivingDBError
from livingdb.server.logs import error_facts, tell

if TYPE_CHECKING:
    from livingdb import Database
    from livingdb.server.http.jobs import Job

__all__ = ["Batch", "Events", "Listener", "visible_changes"]

_PAUSE_SECONDS = 0.2
_FAILED_SECONDS = 2.0
_WAITING = 256
"""Batches that a listener may be behind."""


@dataclass(frozen=True)
class Batch:
    """Changes that were seen at once, and the position after them; None where they have none."""

    changes: Sequence[Change]
    position: str | None


@dataclass(eq=False)
class Listener:
    """Somebody who listens, by their key, in an event loop of their own."""

    key: str
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Batch | None] = field(default_factory=lambda: asyncio.Queue(_WAITING))

    def put(self, batch: Batch | None) -> None:
        """Leave something for them, from any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._put, batch)

    def _put(self, batch: Batch | None) -> None:
        if self.queue.full():
            while not self.queue.empty():
                self.queue.get_nowait()
            batch = None
        self.queue.put_nowait(batch)


class Events:
    """The events of one server."""

    def __init__(self, db: Database):
        self._db = db
        self._queries = db._graph.catalog.queries
        self._lock = Lock()
        self._listeners: set[Listener] = set()
        self._follower: ChangeFollower | None = None
        self._wanted, self._ended = Event(), Event()
        self._thread: Thread | None = None

    def count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def position(self) -> str:
        """Where the database is now: who listens from there on misses nothing."""
        return contextvars.Context().run(lambda: read_marks(self._queries).to_text())

    def listen(self, listener: Listener, after: str | None) -> Batch:
        """Let somebody hear what happens from now on; what they missed after a position.

        It is read as the owner of the files sees it: what who listens may know is told then.
        """
        return contextvars.Context().run(self._listen, listener, after)

    def _listen(self, listener: Listener, after: str | None) -> Batch:
        marks = None if after is None else Marks.from_text(after)
        with self._lock:
            if self._follower is None:
                self._follower = ChangeFollower(self._db)
            follower = self._follower
            missed = [] if marks is None else follower.since(marks)
            self._listeners.add(listener)
            if self._thread is None and not self._ended.is_set():
                self._thread = Thread(target=self._follow, name="livingdb-events", daemon=True)
                self._thread.start()
        self._wanted.set()
        if self._ended.is_set():
            listener.put(None)
        return Batch(missed, follower.marks.to_text())

    def leave(self, listener: Listener) -> None:
        """Somebody does not listen any more."""
        with self._lock:
            self._listeners.discard(listener)
            if not self._listeners:
                self._wanted.clear()
                self._follower = None

    def tell_job(self, job: Job) -> None:
        """Tell who began a job what became of it."""
        told: dict[str, Any] = {"kind": job.kind, "state": job.state}
        batch = Batch([Change("job", job.id, told)], None)
        for listener in list(self._listeners):
            if listener.key == job.owner:
                listener.put(batch)

    def close(self) -> None:
        """Let everybody go."""
        self._ended.set()
        self._wanted.set()
        for listener in list(self._listeners):
            listener.put(None)
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._wanted.wait()
            pause = _PAUSE_SECONDS
            try:
                self._look()
            except LivingDBError as error:
                pause = _FAILED_SECONDS
                tell("events cannot be read", 30, code=error.code)
            except Exception as error:
                pause = _FAILED_SECONDS
                tell("events cannot be read", 40, **error_facts(error))
            self._ended.wait(pause)

    def _look(self) -> None:
        with self._lock:
            follower = self._follower
            if follower is None:
                return
            changes = follower.poll()
            listeners = list(self._listeners)
        if changes:
            batch = Batch(changes, follower.marks.to_text())
            for listener in listeners:
                listener.put(batch)


def visible_changes(db: Database, changes: Sequence[Change]) -> list[Change]:
    """Those that the user in whose name this runs may know of, as that user sees them."""
    found = []
    for change in changes:
        with suppress(LivingDBError):  # what cannot be asked for is not told of either
            details = _seen_details(db, change)
            if details is not None:
                found.append(Change(change.kind, change.subject, details))
    return found


def _seen_details(db: Database, change: Change) -> dict[str, Any] | None:
    """What is told of a change, asked of the database anew; None if it is not seen."""
    match change.kind:
        case "commit" | "branch":
            return _seen_move(db, change)
        case "sync":
            sync = db.sync(change.subject)
            return {"state": sync.state, "reason": sync.reason, "when": sync.when}
        case "alert":
            about = db.alerts(sync=str(change.details["sync"]))
            alert = next((one for one in about if str(one.id) == change.subject), None)
            if alert is None:
                return None
            told = {"sync": alert.sync, "event": alert.event, "severity": alert.severity}
            return {**told, "message": alert.message}
        case "merge_request":
            request = db.merge_request(int(change.subject))
            ends = {"source": request.source, "target": request.target}
            return {"state": request.state, **ends}
    return change.details


def _seen_move(db: Database, change: Change) -> dict[str, Any]:
    branch = db.branch(change.subject)
    told = {"branch": branch.name, "operation": change.details["operation"]}
    if "snapshot" not in change.details:
        return told
    at = db.at(f"id:{change.details['snapshot']}")
    return {**told, "snapshot": at.id, "kind": at.edge.kind, "author": at.author, "time": at.time}
