"""LivingDB: a database whose branches, schema changes and views are recipes over shared tables."""

from __future__ import annotations

import contextlib
import gc
import typing

from livingdb.errors import (
    AlreadyExists,
    BrokenConstraint,
    Conflict,
    Corruption,
    DuplicateKey,
    DuplicateValue,
    Forbidden,
    Forgotten,
    IllegalSync,
    InvalidData,
    InvalidName,
    LimitExceeded,
    LivingDBError,
    Locked,
    MaskKeyMissing,
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
from livingdb.version import __version__

if typing.TYPE_CHECKING:
    from livingdb import alert as alert
    from livingdb import condition as condition
    from livingdb import spark as spark
    from livingdb.database.public import (
        Branch,
        Database,
        Diff,
        Snapshot,
        SnapshotDiff,
        Table,
        Transaction,
        create,
        open,
        restore,
    )
    from livingdb.graph.retention import Retention
    from livingdb.maintenance.tuning.advice import Advice
    from livingdb.tables.layout import Layout

__all__ = [
    "Advice",
    "AlreadyExists",
    "Branch",
    "BrokenConstraint",
    "Conflict",
    "Corruption",
    "Database",
    "Diff",
    "DuplicateKey",
    "DuplicateValue",
    "Forbidden",
    "Forgotten",
    "IllegalSync",
    "InvalidData",
    "InvalidName",
    "Layout",
    "LimitExceeded",
    "LivingDBError",
    "Locked",
    "MaskKeyMissing",
    "MergeConflict",
    "MissingKey",
    "NotFound",
    "ReadOnlyBranch",
    "Refused",
    "Retention",
    "RuleViolation",
    "Snapshot",
    "SnapshotDiff",
    "StorageFailure",
    "Table",
    "Transaction",
    "TransactionConflict",
    "Unsupported",
    "Untrusted",
    "__version__",
    "create",
    "open",
    "restore",
]


@contextlib.contextmanager
def _without_garbage_collection() -> typing.Iterator[None]:
    """Do not look for garbage meanwhile: modules leave none, and each look takes longer."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> typing.Any:
        """What is imported when it is first asked for, and no more."""
        with _without_garbage_collection():
            return _import(name)

    def _import(name: str) -> typing.Any:
        if name == "alert":
            import livingdb.alert

            return livingdb.alert
        if name == "condition":
            import livingdb.condition

            return livingdb.condition
        if name == "spark":
            import livingdb.spark

            return livingdb.spark
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "Layout":
            from livingdb.tables import layout as module
        elif name == "Advice":
            from livingdb.maintenance.tuning import advice as module
        elif name == "Retention":
            from livingdb.graph import retention as module
        elif name == "open":
            from livingdb.database.open_database import open_database

            return open_database
        else:
            from livingdb.database import public as module
        found = globals()[name] = getattr(module, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
