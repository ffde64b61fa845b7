"""LivingDB: a database whose branches, schema changes and views are recipes over shared tables."""

from __future__ import annotations

import typing

from livingdb.errors import (
    AlreadyExists,
    Conflict,
    Corruption,
    DuplicateKey,
    IllegalSync,
    InvalidData,
    InvalidName,
    LivingDBError,
    Locked,
    MergeConflict,
    MissingKey,
    NotFound,
    ReadOnlyBranch,
    Refused,
    RuleViolation,
    StorageFailure,
    TransactionConflict,
    Unsupported,
    Untrusted,
)
from livingdb.lazy import lazily as _lazily

if typing.TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database, create
    from livingdb.database.database import open_database as open
    from livingdb.database.diff import Diff
    from livingdb.database.snapshot import Snapshot
    from livingdb.database.table import Table
    from livingdb.database.transaction import Transaction
    from livingdb.tables.layout import Layout

__all__ = [
    "AlreadyExists",
    "Branch",
    "Conflict",
    "Corruption",
    "Database",
    "Diff",
    "DuplicateKey",
    "IllegalSync",
    "InvalidData",
    "InvalidName",
    "Layout",
    "LivingDBError",
    "Locked",
    "MergeConflict",
    "MissingKey",
    "NotFound",
    "ReadOnlyBranch",
    "Refused",
    "RuleViolation",
    "Snapshot",
    "StorageFailure",
    "Table",
    "Transaction",
    "TransactionConflict",
    "Unsupported",
    "Untrusted",
    "__version__",
    "create",
    "open",
]

__version__ = "0.1.0"

__getattr__ = _lazily(
    __name__,
    {
        "Branch": "livingdb.database.branch",
        "Database": "livingdb.database.database",
        "Diff": "livingdb.database.diff",
        "Layout": "livingdb.tables.layout",
        "Snapshot": "livingdb.database.snapshot",
        "Table": "livingdb.database.table",
        "Transaction": "livingdb.database.transaction",
        "alert": "livingdb.alert:",
        "condition": "livingdb.condition:",
        "create": "livingdb.database.database",
        "open": "livingdb.database.database:open_database",
        "spark": "livingdb.spark:",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
