"""What `livingdb` offers of the database."""

from __future__ import annotations

from livingdb.database.branch import Branch
from livingdb.database.database import Database
from livingdb.database.diff import Diff, SnapshotDiff
from livingdb.database.open_database import create
from livingdb.database.open_database import open_database as open
from livingdb.database.restore import restore
from livingdb.database.snapshot import Snapshot
from livingdb.database.table import Table
from livingdb.database.transaction import Transaction

__all__ = [
    "Branch",
    "Database",
    "Diff",
    "Snapshot",
    "SnapshotDiff",
    "Table",
    "Transaction",
    "create",
    "open",
    "restore",
]
