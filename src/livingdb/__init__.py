"""LivingDB: a database whose branches, schema changes and views are recipes over shared tables."""

from __future__ import annotations

import importlib
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

_MODULES = ("spark",)
_LAZY = {
    "Branch": ("livingdb.database.branch", "Branch"),
    "Database": ("livingdb.database.database", "Database"),
    "Diff": ("livingdb.database.diff", "Diff"),
    "Layout": ("livingdb.tables.layout", "Layout"),
    "Snapshot": ("livingdb.database.snapshot", "Snapshot"),
    "Table": ("livingdb.database.table", "Table"),
    "Transaction": ("livingdb.database.transaction", "Transaction"),
    "create": ("livingdb.database.database", "create"),
    "open": ("livingdb.database.database", "open_database"),
}


def __getattr__(name: str) -> typing.Any:
    """Public names that need Arrow come when they are first asked for."""
    if name in _MODULES:
        return importlib.import_module(f"livingdb.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, inner = _LAZY[name]
    value = getattr(importlib.import_module(module), inner)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
