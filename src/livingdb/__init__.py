"""LivingDB: a database whose branches, schema changes and views are recipes over shared tables."""

from __future__ import annotations

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

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Corruption",
    "DuplicateKey",
    "IllegalSync",
    "InvalidData",
    "InvalidName",
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
