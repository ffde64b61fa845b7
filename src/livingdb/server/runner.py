"""The runner inside a server: it propagates what is due, and keeps the database fast and sound."""

from __future__ import annotations

import time as clock
from threading import Event, Thread
from typing import TYPE_CHECKING

from livingdb.errors import LivingDBError
from livingdb.interruption import Interruption, interruptible
from livingdb.server.logs import error_facts, tell

if TYPE_CHECKING:
    from livingdb import Database

__all__ = ["Runner"]

_PAUSE_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_REST_SECONDS = 15.0
"""How long upkeep rests where nothing was due."""
_WARNING, _ERROR = 30, 40


class Runner:
    """Works in a thread of its own until it is stopped."""

    def __init__(self, db: Database):
        self._db = db
        self._ended = Event()
        self._told: dict[str, str] = {}
        self._rests_until = 0.0
        self._interruption: Interruption | None = None
        self._thread = Thread(target=self._run, name="livingdb-runner", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End, and wait so long for what is at work."""
        self._ended.set()
        if self._interruption is not None:
            self._interruption.stop("the server stops")
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        with interruptible() as self._interruption:
            while not self._ended.is_set():
                try:
                    self._work()
                except LivingDBError as error:
                    self._note("runner", error.code)
                except Exception as error:
                    tell("runner failed", _ERROR, **error_facts(error))
                    self._ended.wait(_REST_SECONDS)
                self._ended.wait(_PAUSE_SECONDS)

    def _work(self) -> None:
        """Propagate what is due, then some upkeep; after a look in vain nothing for a while."""
        for run in self._db.propagate():
            if run.error is not None:
                self._note(run.name, run.error)
        if self._ended.is_set() or clock.monotonic() < self._rests_until:
            return
        report = self._db.upkeep(_SLICE_SECONDS, propagate=False)
        for done in report.runs:
            if done.error:
                self._note(done.name, done.error)
        if not report.runs:
            self._rests_until = clock.monotonic() + _REST_SECONDS

    def _note(self, name: str, error: str) -> None:
        """Log what fails, once for each way in which it does."""
        if self._told.get(name) != error and not self._ended.is_set():
            tell("upkeep failed", _WARNING, job=name)
        self._told[name] = error
