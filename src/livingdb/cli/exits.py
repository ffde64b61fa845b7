"""Exit codes: what a script can tell from how a command ended.

0    done
1    differs, or conflicts were found
2    usage
3    not found
4    refused by a rule
5    bad data: a name, a value or a type LivingDB does not take
6    corruption, or a disk that failed
7    conflict with another writer
130  interrupted by Ctrl-C
"""

from __future__ import annotations

from livingdb.errors import (
    Conflict,
    Corruption,
    LivingDBError,
    Locked,
    MergeConflict,
    NotFound,
    Refused,
    StorageFailure,
)

__all__ = [
    "BAD_DATA",
    "CORRUPTION",
    "DIFFERS",
    "INTERRUPTED",
    "USAGE",
    "exit_code",
    "is_interrupt",
]

DIFFERS, USAGE, NOT_FOUND, REFUSED, BAD_DATA, CORRUPTION, CONFLICT = 1, 2, 3, 4, 5, 6, 7
INTERRUPTED = 130

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (MergeConflict, DIFFERS),
    (NotFound, NOT_FOUND),
    (Refused, REFUSED),
    (Corruption, CORRUPTION),
    (StorageFailure, CORRUPTION),
    (Conflict, CONFLICT),
    (Locked, CONFLICT),
    (LivingDBError, BAD_DATA),
    (FileNotFoundError, NOT_FOUND),
    (NotADirectoryError, NOT_FOUND),
    (IsADirectoryError, BAD_DATA),
    (PermissionError, BAD_DATA),
)


def is_interrupt(error: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C; DuckDB has words of its own for it."""
    return isinstance(error, KeyboardInterrupt) or (
        type(error) is RuntimeError and str(error) == "Query interrupted"
    )


def exit_code(error: Exception) -> int:
    """The code a command that fails with this error ends with.

    Errors are LivingDB's, or those of files; what else a file has to say is a disk that failed.
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), CORRUPTION)
