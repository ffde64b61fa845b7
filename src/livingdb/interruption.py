"""Work that somebody else can stop: because its time is over, or nobody waits for it.

Whoever works for others does so in `interruptible`.  What runs inside, in this thread and in those
that get a copy of its context, ends soon after `stop` was called, from any thread: queries of the
embedded engine and jobs of Spark are told to, scans of trees look once for each part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from livingdb.errors import LimitExceeded

__all__ = ["Interruption", "check_interruption", "current_interruption", "interruptible"]

_AGAIN_SECONDS, _TIMES = 0.05, 200

_current: ContextVar[Interruption | None] = ContextVar("livingdb_interruption", default=None)


class Interruption:
    """What stops the work that is done under it, and says why."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[object, Callable[[], object]] = {}
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why everything under it stops; None while it goes on."""
        return self._reason

    def stop(self, reason: str) -> None:
        """Stop what runs, and whatever begins from now on; nobody waits here until it has ended."""
        with self._lock:
            self._reason = self._reason or reason
            is_any = bool(self._running)
        if is_any:
            # To reach an engine may take time.
            threading.Thread(target=self._interrupt, name="livingdb-stop", daemon=True).start()

    def _interrupt(self) -> None:
        """Interrupt what runs, more than once: what has not quite begun does not notice."""
        for _ in range(_TIMES):
            with self._lock:
                if not self._running:
                    return
                for interrupt in self._running.values():
                    interrupt()
            time.sleep(_AGAIN_SECONDS)

    def check(self) -> None:
        """`LimitExceeded` if it was stopped."""
        if self._reason is not None:
            raise LimitExceeded(self._reason)

    @contextmanager
    def watch(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """While this lasts, stopping calls `interrupt`, from another thread and maybe often."""
        place = object()
        with self._lock:
            self.check()
            self._running[place] = interrupt
        try:
            yield
        finally:
            with self._lock:
                del self._running[place]


def current_interruption() -> Interruption | None:
    """What can stop work here; None if nothing can."""
    return _current.get()


def check_interruption() -> None:
    """`LimitExceeded` if what is done here was stopped."""
    found = _current.get()
    if found is not None:
        found.check()


@contextmanager
def interruptible(by: Interruption | None = None) -> Iterator[Interruption]:
    """What runs inside can be stopped; `by` what stops other parts of the same work, too."""
    made = by or Interruption()
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
