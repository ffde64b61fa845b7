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
    from livingdb.tables.layout import Layout

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Corruption",
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
    "StorageFailure",
    "TransactionConflict",
    "Unsupported",
    "Untrusted",
    "__version__",
]

__version__ = "0.1.0"

_LAZY = {"Layout": "livingdb.tables.layout"}


def __getattr__(name: str) -> typing.Any:
    """Public names that need Arrow come when they are first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
