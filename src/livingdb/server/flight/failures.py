"""What went wrong, in the words of Flight: a status, and a text that begins with the code.

    not_found: there is no table 'orders'

Nothing else is told: of an error that nobody expected the log has the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pyarrow as pa
from pyarrow import flight

from livingdb import errors
from livingdb.dbapi.errors import Error as DbapiError

__all__ = ["Stopped", "flight_error", "told_as_flight_errors", "unauthenticated"]

_log = logging.getLogger("livingdb")


class _WithoutTrace(Exception):
    """An error of which the text is told and the traceback is not.

    Flight has no class for these statuses, so that they are told by classes of Arrow; to the text
    of those it adds the traceback, with what files there are.  Asked for its cause, which is where
    formatting a traceback begins, such an error refuses, and its name is told instead.
    """

    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("only the text is told")

    def __str__(self) -> str:
        return str(self.args[0])


class NotFound(_WithoutTrace, pa.ArrowKeyError):  # type: ignore[misc]
    """NOT_FOUND."""


class InvalidArgument(_WithoutTrace, pa.ArrowInvalid):  # type: ignore[misc]
    """INVALID_ARGUMENT."""


class Unimplemented(_WithoutTrace, pa.ArrowNotImplementedError):  # type: ignore[misc]
    """UNIMPLEMENTED."""


class Stopped(errors.LivingDBError):
    """A call that ends early: it took too long, nobody wants it any more, or the server stops."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


_STOPPED = {
    "timeout": flight.FlightTimedOutError,
    "cancelled": flight.FlightCancelledError,
    "busy": flight.FlightUnavailableError,
    "stopping": flight.FlightUnavailableError,
}
_KINDS: list[tuple[type[errors.LivingDBError], type[Exception]]] = [
    (errors.NotFound, NotFound),
    (errors.Forgotten, NotFound),
    (errors.Forbidden, flight.FlightUnauthorizedError),
    (errors.Untrusted, flight.FlightUnauthorizedError),
    (errors.MaskKeyMissing, flight.FlightUnauthorizedError),
    (errors.InvalidData, InvalidArgument),
    (errors.InvalidName, InvalidArgument),
    (errors.AlreadyExists, InvalidArgument),
    (errors.Unsupported, Unimplemented),
    (errors.Locked, flight.FlightUnavailableError),
    (errors.StorageFailure, flight.FlightUnavailableError),
    (errors.Corruption, flight.FlightInternalError),
]
"""The first that an error is one of; all others, conflicts and rules, are a failed call."""


def unauthenticated(text: str) -> Exception:
    """The error for somebody whom nobody knows."""
    return flight.FlightUnauthenticatedError(f"unauthenticated: {text}")  # type: ignore[no-any-return]


def flight_error(error: BaseException) -> Exception:
    """The error that the client is told."""
    if isinstance(error, (flight.FlightError, _WithoutTrace)):
        return error
    if isinstance(error, DbapiError):
        cause = error.__cause__
        own = isinstance(cause, errors.LivingDBError)
        error = cause if own and cause is not None else errors.RuleViolation(str(error))
    if isinstance(error, Stopped):
        kind = _STOPPED.get(error.code, flight.FlightServerError)
    elif isinstance(error, errors.LivingDBError):
        kinds = (other for own, other in _KINDS if isinstance(error, own))
        kind = next(kinds, flight.FlightServerError)
    else:
        _log.error("a call of Flight failed", exc_info=error)
        return flight.FlightInternalError("internal: the call failed; the server's log says why")  # type: ignore[no-any-return]
    found: Exception = kind(f"{error.code}: {error}")
    return found


@contextmanager
def told_as_flight_errors() -> Iterator[None]:
    """Raise what goes wrong inside as an error of Flight."""
    try:
        yield
    except Exception as error:
        raise flight_error(error) from None
