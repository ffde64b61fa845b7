"""Queries that somebody else can stop: because their time is over, or nobody waits for them.

Whoever runs statements for others does so in `interruptible`.  What runs inside, in this thread and
in those that get a copy of its context, ends soon after `stop` was called, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from livingdb.errors import LimitExceeded

if TYPE_CHECKING:
    import duckdb

__all__ = ["Interruption", "current_interruption", "interruptible"]

_AGAIN_SECONDS, _TIMES = 0.05, 200

_current: ContextVar[Interruption | None] = ContextVar("livingdb_interruption", default=None)


class Interruption:
    """What stops the queries that run under it, and says why."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why everything under it stops; None while it goes on."""
        return self._reason

    def stop(self, reason: str) -> None:
        """Stop what runs, and whatever begins from now on."""
        with self._lock:
            self._reason = self._reason or reason
        self._interrupt(_TIMES)

    def _interrupt(self, times: int) -> None:
        """Interrupt what runs, more than once: what has not quite begun does not notice."""
        with self._lock:
            for connection in self._running:
                connection.interrupt()
            if not self._running or times <= 1:
                return
        again = threading.Timer(_AGAIN_SECONDS, self._interrupt, [times - 1])
        again.daemon = True
        again.start()

    def check(self) -> None:
        """`LimitExceeded` if it was stopped."""
        if self._reason is not None:
            raise LimitExceeded(self._reason)

    @contextmanager
    def watch(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Let the queries of a connection be stopped, while this lasts."""
        with self._lock:
            self.check()
            self._running.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(connection)


def current_interruption() -> Interruption | None:
    """What can stop queries here; None if nothing can."""
    return _current.get()


@contextmanager
def interruptible(by: Interruption | None = None) -> Iterator[Interruption]:
    """What runs inside can be stopped; `by` what stops other parts of the same work, too."""
    made = by or Interruption()
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
