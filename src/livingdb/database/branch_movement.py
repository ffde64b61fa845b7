"""A movement of a branch as users see it: one line of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from livingdb.catalog.branch_log import Movement
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.snapshot import Snapshot
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["BranchMovement"]

_WITHOUT_SNAPSHOT = ("clone", "keep", "reset")


@dataclass(frozen=True)
class BranchMovement:
    """Where a branch came to, when, by which operation, and who did it and why.

    A clone's author and message are those it was made with; of an operation that made a snapshot,
    those of the snapshot.
    """

    position: int
    snapshot: Snapshot
    time: datetime
    operation: str
    author: str
    message: str

    @classmethod
    def of(cls, database: Database, move: Movement, row: SnapshotRow) -> Self:
        """The movement to a snapshot."""
        is_own = move.operation in _WITHOUT_SNAPSHOT
        return cls(
            move.position,
            Snapshot(database, row),
            to_datetime(move.time),
            move.operation,
            move.author if is_own else row.author,
            move.message if is_own else row.message,
        )
