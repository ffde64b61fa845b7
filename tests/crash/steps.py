"""Every step that changes a disk or a catalog, numbered, so that a test can stop at any of them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event
from tests.crash import sqlite_calls

import livingdb.files.local
from livingdb.catalog.sql import write_transactions
from livingdb.catalog.sql.sqlite import locked_for_writing
from livingdb.testing import Step
from livingdb.testing.faulty_files import FaultySyscalls

__all__ = ["Steps"]

_QUIET = ("read", "map")  # change nothing, so that there is nothing between them to lose


class Steps:
    """Counts moments before, in the middle of and after file operations, statements, commits.

    With `kill_at`, the process is gone at that moment, as by `kill -9`.  With `fail_at`, the
    call SQLite makes with that number, of those it makes, fails with `error`; if `lasting`, so
    do those after it.  With `commit_sync_error`, no sync works from commit
    number `failing_commit` on.
    """

    def __init__(
        self,
        kill_at: int | None = None,
        fail_at: int | None = None,
        error: int = errno.EIO,
        lasting: bool = False,
        commit_sync_error: int = 0,
        failing_commit: int = 1,
    ) -> None:
        self.kill_at = kill_at
        self.fail_at, self.error, self.lasting = fail_at, error, lasting
        self.commit_sync_error, self.failing_commit = commit_sync_error, failing_commit
        self.names: list[str] = []
        self.calls = 0

    def watch(self) -> None:
        """Follow this process from now on."""
        livingdb.files.local.Syscalls = self._syscalls  # type: ignore[misc,assignment]
        sqlite_calls.watch(self._sqlite)
        for name in ("before_cursor_execute", "after_cursor_execute"):
            event.listen(Engine, name, self._statement(name.partition("_")[0]))
        event.listen(Engine, "commit", self._commit)
        event.listen(Engine, "rollback", lambda connection: self.reach("before rollback"))
        write_transactions.locked_for_writing = self._locked

    def reach(self, name: str) -> None:
        """The process is at a moment."""
        self.names.append(name)
        if len(self.names) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _syscalls(self) -> FaultySyscalls:
        return FaultySyscalls(on_step=self._file)

    def _file(self, step: Step) -> None:
        if step.kind not in _QUIET:
            self.reach(f"{step.moment} {step.kind} of {_kind(step.path)}")

    def _sqlite(self, call: str, moment: sqlite_calls.Moment) -> int:
        self.reach(f"{moment} {call} by SQLite")
        if moment == "before":
            self.calls += 1
        is_due = (
            self.calls >= self.fail_at
            if self.fail_at and self.lasting
            else (self.calls == self.fail_at)
        )
        halfway = "middle" if call == "write" else "before"
        return self.error if is_due and moment == halfway else 0

    def _commit(self, _connection: Any) -> None:
        self.reach("before commit")
        is_due = self.names.count("before commit") == self.failing_commit
        if self.commit_sync_error and is_due:
            sqlite_calls.fail_syncs(self.commit_sync_error)

    @contextmanager
    def _locked(self, connection: Connection) -> Iterator[None]:
        """Transactions that the driver ends, of which SQLAlchemy tells nobody."""
        with locked_for_writing(connection):
            try:
                yield
            except BaseException:
                self.reach("before rollback")
                raise
            self._commit(connection)

    def _statement(self, moment: str) -> Callable[..., None]:
        def reached(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if not statement.startswith(("SELECT", "PRAGMA")):
                self.reach(f"{moment} {' '.join(statement.split()[:3])}")

        return reached


def _kind(path: str) -> str:
    name = os.path.basename(path)
    if name.startswith(".tmp-"):
        return "a temporary file"
    return "a pack" if name.endswith(".pack") else "a folder"
