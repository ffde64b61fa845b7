"""Calls at work: none goes on when its time is over, or when nobody waits for it any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from livingdb.interruption import Interruption, interruptible
from livingdb.server.flight.failures import Stopped

__all__ = ["Call", "Watch"]

_LOOK_SECONDS = 0.05


class Call:
    """One call while it is answered, in one step or in several with pauses between them.

    `stop` may come from any thread: what is computed ends, and the client is told why.
    """

    def __init__(self, seconds: float, is_cancelled: Callable[[], bool]):
        self._seconds = seconds
        self._is_cancelled: Callable[[], bool] | None = is_cancelled
        self._interruption = Interruption()
        self._reason: Stopped | None = None
        self._spent_seconds = 0.0
        self._since: float | None = None
        self._lock = Lock()

    @contextmanager
    def step(self) -> Iterator[None]:
        """What is done inside can be stopped, and its time counts."""
        if self._reason is not None:
            raise self._reason
        self._since = time.monotonic()
        try:
            with interruptible(self._interruption):
                yield
        except Exception:
            if self._reason is not None:
                raise self._reason from None
            raise
        finally:
            self._spent_seconds += time.monotonic() - self._since
            self._since = None

    def look(self) -> None:
        """Stop it if it took too long, or nobody is there any more."""
        with self._lock:
            has_gone = self._is_cancelled is not None and self._is_cancelled()
        since = self._since
        working = 0.0 if since is None else time.monotonic() - since
        if has_gone:
            self.stop("cancelled", "the client has gone")
        elif self._spent_seconds + working > self._seconds:
            self.stop("timeout", f"it took longer than {self._seconds:g} seconds")

    def stop(self, code: str, message: str) -> None:
        """End it; what is being computed is interrupted."""
        if self._reason is None:
            self._reason = Stopped(code, message)
        self._interruption.stop(message)

    def end(self) -> None:
        """It has ended: its client cannot be asked for any more."""
        with self._lock:
            self._is_cancelled = None


class Watch:
    """Looks after all calls that are at work, in a thread of its own."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._lock = Lock()
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="livingdb-flight-watch", daemon=True)
        self._thread.start()

    def add(self, call: Call) -> None:
        """Look after a call from now on."""
        with self._lock:
            self._calls.add(call)
        if self._is_over.is_set():
            call.stop("stopping", "the server stops")

    def remove(self, call: Call) -> None:
        """Look after it no longer."""
        with self._lock:
            self._calls.discard(call)
        call.end()

    def stop(self) -> None:
        """End all of them, and those that begin from now on."""
        self._is_over.set()
        for call in self._at_work():
            call.stop("stopping", "the server stops")

    def _at_work(self) -> list[Call]:
        with self._lock:
            return list(self._calls)

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            for call in self._at_work():
                call.look()
