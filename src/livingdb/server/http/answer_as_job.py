"""Requests whose answer comes later: `Prefer: respond-async` makes a job of what takes its time.

The request is read, the job begins, and who asked is told of it at once.  The job asks the same of
the application, in the name of who asked, for as long as it takes; what it would have been told is
the job's result, or its error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Message, Receive, Scope, Send

from livingdb.errors import LimitExceeded, LivingDBError
from livingdb.server.http.answers import json_answer
from livingdb.server.http.failures import Refusal, describe_error
from livingdb.server.http.jobs import JobFailed, JsonText
from livingdb.server.http.routes.jobs import start_job

if TYPE_CHECKING:
    from livingdb.server.http.context import Context
    from livingdb.server.http.doorkeeper import Caller

__all__ = ["JOB_RESPONSE", "PREFER_PARAMETER", "AnswerAsJob", "is_long"]

_PREFERENCE = "respond-async"
_ACCEPTED = 202
_FIRST_ERROR = 400
_MOST_BYTES = 4 << 20
"""Of an answer, which is kept until its job is forgotten."""
_AT_ONCE = ("/v1/events", "/v1/jobs", "/v1/login", "/v1/logout", "/v1/sql/sessions")
"""What is about the connection, or the session, of who asks."""
_ABOUT_ANSWERS = (b"accept", b"prefer")
"""Headers that say how to answer: what a job tells is JSON."""

PREFER_PARAMETER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": f"`{_PREFERENCE}`: the answer becomes the result of a job.",
    "schema": {"type": "string", "enum": [_PREFERENCE]},
}
JOB_RESPONSE: dict[str, Any] = {
    "description": "The job whose result will be the answer, if `Prefer` asked for one.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobInfo"}}},
}
"""How the document tells of it."""


def is_long(route: APIRoute) -> bool:
    """Whether an operation may take its time, and is no job in any case."""
    is_job = route.status_code == _ACCEPTED
    return route.path.startswith("/v1/") and not route.path.startswith(_AT_ONCE) and not is_job


class AnswerAsJob:
    """Lets jobs answer those who prefer it, and the application everybody else."""

    def __init__(self, api: FastAPI, context: Context, routes: Iterable[BaseRoute]):
        self._api = api
        self._context = context
        self._later = [one for one in routes if isinstance(one, APIRoute) and is_long(one)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has come in."""
        route = self._route(scope) if _prefers_job(scope) else None
        if route is None:
            await self._api(scope, receive, send)
            return
        scope["route"] = route
        try:
            answer = await self._begin(route, scope, await Request(scope, receive).body())
        except (LivingDBError, Refusal) as error:
            answer = describe_error(error)
        await answer(scope, receive, send)

    async def _begin(self, route: APIRoute, scope: Scope, body: bytes) -> Response:
        """Begin the job, and what is said of it."""
        kept = [pair for pair in scope["headers"] if pair[0].lower() not in _ABOUT_ANSWERS]
        asked = {**scope, "headers": kept, "state": dict(scope["state"])}

        def work(_say: object) -> Any:
            return asyncio.run(_ask(self._api, asked, body))

        caller: Caller = scope["state"]["caller"]
        begun = start_job(self._context, caller, str(route.operation_id), work)
        headers = {"Preference-Applied": _PREFERENCE, "Location": f"/v1/jobs/{begun.id}"}
        return json_answer(begun.model_dump(), _ACCEPTED, headers)

    def _route(self, scope: Scope) -> APIRoute | None:
        """The operation that is asked for, if it may be answered later."""
        full = (one for one in self._later if one.matches(scope)[0] is Match.FULL)
        return next(full, None)


def _prefers_job(scope: Scope) -> bool:
    if scope["type"] != "http" or "caller" not in scope.get("state", {}):
        return False
    said = ",".join(Headers(scope=scope).getlist("prefer"))
    return any(one.partition(";")[0].strip().lower() == _PREFERENCE for one in said.split(","))


async def _ask(api: FastAPI, scope: Scope, body: bytes) -> JsonText:
    """What the application answers; `JobFailed` if that is an error."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    start: Message = {}
    told = bytearray()

    async def receive() -> Message:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif len(told) <= _MOST_BYTES:
            told.extend(message.get("body", b""))

    await api(scope, receive, send)
    if len(told) > _MOST_BYTES:
        raise LimitExceeded(
            f"the answer of a job has at most {_MOST_BYTES:,} bytes: ask for fewer rows"
        )
    is_json = Headers(raw=start["headers"]).get("content-type") == "application/json"
    if start["status"] >= _FIRST_ERROR:
        answer = json.loads(told)
        raise JobFailed(answer["code"], answer["message"], answer["details"])
    return JsonText(bytes(told) if is_json else json.dumps(told.decode()).encode())
