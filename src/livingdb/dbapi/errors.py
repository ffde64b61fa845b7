"""The errors of PEP 249, and which of them each of LivingDB's own is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from livingdb import errors

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "translated_errors",
]


class Warning(Exception):  # the name that PEP 249 gives it
    """Something to be noticed."""


class Error(Exception):
    """Base of all errors; `code` is that of LivingDB's own error, which is its cause."""

    code = "error"


class InterfaceError(Error):
    """The interface was used wrongly: a connection or a cursor that is closed."""


class DatabaseError(Error):
    """The database says no."""


class DataError(DatabaseError):
    """A value that does not fit."""


class OperationalError(DatabaseError):
    """Somebody else, the disk or a rule is in the way."""


class IntegrityError(DatabaseError):
    """Keys, NOT NULL, checks, foreign keys and unique constraints."""


class InternalError(DatabaseError):
    """What is stored is damaged."""


class ProgrammingError(DatabaseError):
    """A wrong name, a wrong statement, a wrong number of parameters."""


class NotSupportedError(DatabaseError):
    """What LivingDB does not do."""


_KINDS: list[tuple[type[errors.LivingDBError], type[DatabaseError]]] = [
    (errors.DuplicateKey, IntegrityError),
    (errors.MissingKey, IntegrityError),
    (errors.BrokenConstraint, IntegrityError),
    (errors.InvalidData, DataError),
    (errors.NotFound, ProgrammingError),
    (errors.AlreadyExists, ProgrammingError),
    (errors.InvalidName, ProgrammingError),
    (errors.Unsupported, NotSupportedError),
    (errors.Corruption, InternalError),
]
"""The first that an error is one of; all others are `OperationalError`."""


@contextmanager
def translated_errors(statement: str | None = None) -> Iterator[None]:
    """Raise LivingDB's errors as those of PEP 249, with the same words and code.

    A statement that cannot be read is a mistake of the program, not of its data.
    """
    try:
        yield
    except errors.LivingDBError as error:
        kind = next((other for own, other in _KINDS if isinstance(error, own)), OperationalError)
        if kind is DataError and statement is not None and not _is_readable(statement):
            kind = ProgrammingError
        raised = kind(str(error))
        raised.code = error.code
        raise raised from error


def _is_readable(statement: str) -> bool:
    from livingdb.sql.parse import is_definition, parse_statement

    try:
        return is_definition(statement) or parse_statement(statement) is not None
    except errors.LivingDBError:
        return False
