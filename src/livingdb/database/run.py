"""What a refresh did, as users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.database.snapshot import Snapshot

if TYPE_CHECKING:
    from livingdb.commit.deriving.refresh import Outcome
    from livingdb.database.database import Database

__all__ = ["Run"]


class Run:
    """One refresh of a derived object.

    `snapshot` is what it made, None if there was nothing to do or it failed; `strategy` and
    `reason` say how and why; `rows` how many rows changed (or were made, in full); `error` what
    went wrong, and `stopped` whether that is that its conditions do not hold.
    """

    def __init__(self, database: Database, outcome: Outcome):
        self.name = outcome.name
        self.snapshot = None if outcome.snapshot is None else Snapshot(database, outcome.snapshot)
        self.strategy = outcome.strategy
        self.reason = outcome.reason
        self.rows = outcome.rows
        self.engine = outcome.engine
        self.seconds = outcome.seconds
        self.error = outcome.error
        self.stopped = outcome.stopped

    def __bool__(self) -> bool:
        return self.snapshot is not None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<Run {self.name}: {'stopped' if self.stopped else 'failed'}: {self.error}>"
        if self.snapshot is None:
            return f"<Run {self.name}: nothing to do>"
        why = f" ({self.reason})" if self.reason else ""
        return f"<Run {self.name}: {self.strategy}{why}, {self.rows:,} rows, {self.seconds:.2f} s>"
