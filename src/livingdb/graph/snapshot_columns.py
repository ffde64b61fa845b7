"""Snapshots as columns: what is shown of them everywhere, and their times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow

__all__ = ["CHANGE_TYPES", "TIME", "snapshot_columns", "to_datetime"]

TIME = pa.timestamp("us", "UTC")
CHANGE_TYPES = ("insert", "update", "delete")
"""What happened to a row, by the numbers that diffs have for it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(microseconds: int) -> datetime:
    """A time as Python has it."""
    return _EPOCH + timedelta(microseconds=microseconds)


def snapshot_columns(rows: Sequence[SnapshotRow]) -> dict[str, pa.Array]:
    """What is shown of snapshots everywhere."""
    return {
        "snapshot": pa.array([row.address.hex() for row in rows], pa.string()),
        "author": pa.array([row.author for row in rows], pa.string()),
        "time": pa.array([row.time for row in rows], pa.int64()).cast(TIME),
        "message": pa.array([row.message for row in rows], pa.string()),
    }
