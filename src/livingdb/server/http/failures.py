"""What went wrong, in the words of HTTP: one table of statuses, one shape of answers.

Every answer that is no success is `{"code", "message", "details"}`.  Codes of LivingDB's own errors
are theirs; the few that a server adds are here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from livingdb.access.audit import REFUSED
from livingdb.errors import (
    AlreadyExists,
    Conflict,
    Corruption,
    DuplicateKey,
    DuplicateValue,
    Forbidden,
    Forgotten,
    LimitExceeded,
    LivingDBError,
    Locked,
    MaskKeyMissing,
    MergeConflict,
    NotFound,
    Refused,
    StorageFailure,
    Untrusted,
)
from livingdb.server.http.json_values import json_bytes, plain_value
from livingdb.server.http.sql_sessions import NoSession

__all__ = [
    "STATUSES",
    "Failure",
    "Refusal",
    "describe_error",
    "failure_response",
    "handle_error",
    "handle_unexpected",
    "internal_failure",
    "status_of",
]

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (AlreadyExists, 409),
    (DuplicateKey, 409),
    (Forgotten, 410),
    (LimitExceeded, 429),
    (Forbidden, 403),
    (Untrusted, 403),
    (MaskKeyMissing, 403),
    (Refused, 409),
    (Conflict, 409),
    (Locked, 423),
    (StorageFailure, 507),
    (Corruption, 500),
    (LivingDBError, 422),
    (UnicodeError, 422),
    (RecursionError, 422),
)
"""The status of each error; the first line that fits counts."""

_SHOWN_CONFLICTS = 1000
_LONGEST_NOTED = 500
_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}


class Failure(BaseModel):
    """Why nothing was done."""

    code: str = Field(description="Stable: codes are added, never changed.", examples=["not_found"])
    message: str = Field(examples=["there is no branch 'dev'"])
    details: dict[str, Any] = Field(default_factory=dict)


class Refusal(HTTPException):
    """What the server itself refuses, before a database is asked."""

    def __init__(self, status: int, code: str, message: str, **details: Any):
        super().__init__(status, message)
        self.code = code
        self.details = details


def status_of(error: Exception) -> int:
    """The status of an error of LivingDB."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def failure_response(
    status: int, code: str, message: str, details: dict[str, Any] | None = None
) -> Response:
    """An answer that says why nothing was done."""
    told = {"code": code, "message": _printable(message), "details": plain_value(details or {})}
    headers = {"Retry-After": "1"} if status in (423, 429) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(json_bytes(told), status, headers, "application/json")


async def handle_unexpected(request: Request, _error: Exception) -> Response:
    """The answer to an error that nobody expected, which is logged by who watches requests."""
    return internal_failure(request.state.number)


def internal_failure(number: str) -> Response:
    """What is said of an error that nobody expected: its number in the log, and no more."""
    said = f"the server failed; its log has more under {number}"
    return failure_response(500, "internal", said, {"id": number})


async def handle_error(request: Request, error: Exception) -> Response:
    """The answer to any error that is expected; what somebody may not do is written down."""
    if isinstance(error, Forbidden):
        await run_sync(_note_refused, request, str(error))
    if isinstance(error, RequestValidationError):
        error = _unread_body(request, error) or error
    return describe_error(error)


def _unread_body(request: Request, error: RequestValidationError) -> Refusal | None:
    """What to say of a body that is no JSON, or is not said to be; None if it was read."""
    kinds = {str(one["type"]) for one in error.errors() if one["loc"][0] == "body"}
    if "json_invalid" in kinds:
        return Refusal(400, "bad_request", "the body is no JSON")
    if "model_attributes_type" in kinds and isinstance(error.body, bytes):
        said = request.headers.get("Content-Type", "nothing")
        message = f"a body comes with Content-Type: application/json, not {said}"
        return Refusal(415, "unsupported_media_type", message)
    return None


def _note_refused(request: Request, words: str) -> None:
    operation = getattr(request.scope.get("route"), "operation_id", None) or "none"
    with suppress(LivingDBError):  # who only reads the database writes nothing down
        request.app.state.server.db.people.record(
            operation, "", REFUSED, {"error": words[:_LONGEST_NOTED]}
        )


def describe_error(error: Exception) -> Response:
    """An error that is expected, as an answer."""
    if isinstance(error, RequestValidationError):
        wrong = [_wrong_part(one) for one in error.errors()]
        said = "; ".join(f"{one['where']}: {one['problem']}" for one in wrong)
        return failure_response(422, "invalid_request", said, {"problems": wrong})
    if isinstance(error, HTTPException):
        code = getattr(error, "code", _CODES.get(error.status_code, "http_error"))
        details = getattr(error, "details", {})
        made = failure_response(error.status_code, code, str(error.detail), details)
        made.headers.update(error.headers or {})
        return made
    if isinstance(error, (UnicodeError, RecursionError)):
        said = "a text is not Unicode" if isinstance(error, UnicodeError) else "nested too deeply"
        return failure_response(status_of(error), "invalid_data", said)
    code = str(getattr(error, "code", "error"))
    return failure_response(status_of(error), code, str(error), _details(error))


def _wrong_part(one: dict[str, Any]) -> dict[str, Any]:
    """Where a request is not as it should be; never what was there."""
    return {"where": ".".join(map(str, one["loc"])), "problem": str(one["msg"])}


def _details(error: Exception) -> dict[str, Any]:
    if isinstance(error, NoSession):
        return {"missing": "session"}
    if isinstance(error, MergeConflict):
        return {
            "conflicts": {
                name: table.slice(0, _SHOWN_CONFLICTS) for name, table in error.conflicts.items()
            },
            "schema_conflicts": dict(error.schema_conflicts),
        }
    if isinstance(error, DuplicateValue):
        return {
            "table": error.table,
            "columns": list(error.columns),
            "value": error.value,
            "keys": list(error.keys),
        }
    return {}


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
