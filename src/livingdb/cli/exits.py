"""Exit codes: what a script can tell from how a command ended.

0  done
1  differs, or conflicts were found
2  usage
3  not found
4  refused by a rule
5  bad data: a name, a value or a type LivingDB does not take
6  corruption, or a disk that failed
7  conflict with another writer
"""

from __future__ import annotations

from livingdb.errors import (
    Conflict,
    Corruption,
    LivingDBError,
    Locked,
    NotFound,
    Refused,
    StorageFailure,
)

__all__ = ["BAD_DATA", "exit_code"]

NOT_FOUND, REFUSED, BAD_DATA, CORRUPTION, CONFLICT = 3, 4, 5, 6, 7

_CODES: tuple[tuple[type[LivingDBError], int], ...] = (
    (NotFound, NOT_FOUND),
    (Refused, REFUSED),
    (Corruption, CORRUPTION),
    (StorageFailure, CORRUPTION),
    (Conflict, CONFLICT),
    (Locked, CONFLICT),
)


def exit_code(error: LivingDBError) -> int:
    """The code a command that fails with this error ends with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), BAD_DATA)
