"""The application: routes over one database, behind its door."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

import livingdb
from livingdb.errors import LivingDBError
from livingdb.server.http.agent_paths import AgentPaths
from livingdb.server.http.answer_as_job import (
    JOB_RESPONSE,
    PREFER_PARAMETER,
    AnswerAsJob,
    is_long,
)
from livingdb.server.http.browser_sessions import BrowserSessions
from livingdb.server.http.context import Context, refuse_unknown_parameters
from livingdb.server.http.door import OPEN_PATHS, Door
from livingdb.server.http.doorkeeper import Doorkeeper
from livingdb.server.http.events import Events
from livingdb.server.http.failures import Failure, handle_error, handle_unexpected
from livingdb.server.http.jobs import CANCELLING, RUNNING, WAITING, Jobs
from livingdb.server.http.metrics import Metrics
from livingdb.server.http.observed import Observed
from livingdb.server.http.routes import (
    alerts,
    compare,
    events,
    jobs,
    merge_requests,
    page,
    refs,
    schema_changes,
    snapshots,
    sql,
    syncs,
    system,
    tables,
    tracing,
    tuning,
    upkeep,
    users,
    views,
)
from livingdb.server.http.row_writes import Rows
from livingdb.server.http.sql_sessions import SqlSessions
from livingdb.server.settings import ServerSettings

if TYPE_CHECKING:
    from livingdb import Database

__all__ = ["ROUTERS", "HttpApp", "create_app"]

ROUTERS = (
    system,
    refs,
    snapshots,
    tables,
    sql,
    compare,
    schema_changes,
    views,
    syncs,
    alerts,
    tracing,
    tuning,
    upkeep,
    merge_requests,
    users,
    jobs,
    events,
    page,
)
_ABOUT = """The ordinary API of a LivingDB database over HTTP.

Names stand in queries and bodies, never in paths, since names of branches have slashes.  Rows are
JSON or, where `Accept: application/vnd.apache.arrow.stream` asks for it, Arrow.  Whatever is no
success has the body `{code, message, details}`.
"""
_LEAST_SECONDS = 1.0
"""For which requests are waited, whatever else took its time."""
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": said}
    for status, said in {
        400: "The body is no JSON.",
        401: "Nobody is known by this token.",
        403: "Who asks may not do it.",
        404: "What was named does not exist.",
        408: "The request did not come to an end.",
        409: "A rule, another change or a name that is taken stands in the way.",
        410: "What was named was there, and is gone for good.",
        413: "The request is too large.",
        415: "The body is of another type.",
        421: "The server is not called by this name.",
        422: "The request, a name, a value or a statement is not understood.",
        423: "Somebody else holds what is needed.",
        429: "Who asks has had their share for now.",
    }.items()
}


class HttpApp:
    """An application with what it holds: jobs, sessions and streams that end with it."""

    def __init__(self, app: ASGIApp, door: Door, api: FastAPI, context: Context):
        self._app = app
        self._door = door
        self.api = api
        self.context = context

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as an ASGI application does."""
        await self._app(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The document that says what can be asked."""
        return self.api.openapi()

    def close(self, seconds: float) -> None:
        """End streams, jobs, requests and sessions; what runs is waited for, but not for longer.

        What is still at work then is stopped: nothing is stored after it.
        """
        end = clock.monotonic() + seconds
        self.context.events.close()
        self.context.jobs.close(seconds)
        self._door.end(max(_LEAST_SECONDS, end - clock.monotonic()))
        self.context.sessions.close_all()


def create_app(
    db: Database,
    settings: ServerSettings | None = None,
    run_token: str | None = None,
) -> HttpApp:
    """The HTTP API of a database, as an ASGI application; `run_token` lets its owner in."""
    settings = settings or ServerSettings()
    metrics, happenings = Metrics(), Events(db)
    work = Jobs(settings.limits, happenings.tell_job)
    context = Context(
        db,
        settings,
        Doorkeeper(db, run_token),
        BrowserSessions(),
        work,
        SqlSessions(settings.limits),
        happenings,
        metrics,
    )
    metrics.watch("jobs_running", "Jobs that run.", _counter(work.count, RUNNING, CANCELLING))
    metrics.watch("jobs_waiting", "Jobs that wait.", _counter(work.count, WAITING))
    metrics.watch("sql_sessions", "Sessions of SQL.", lambda: len(context.sessions))
    metrics.watch("event_streams", "Streams of events.", happenings.count)
    api = _api(context)
    app = AgentPaths(AnswerAsJob(api, context, _routes()), db, settings)
    door = Door(app, context.keeper, context.browsers, settings, metrics)
    return HttpApp(Observed(door, metrics, settings.has_tls), door, api, context)


def _counter(count: Callable[..., int], *states: str) -> Callable[[], float]:
    return lambda: count(*states)


def _api(context: Context) -> FastAPI:
    api = FastAPI(
        title="LivingDB",
        version=livingdb.__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(refuse_unknown_parameters)],
        responses=_FAILURES,
        redirect_slashes=False,
    )
    api.state.server = context
    for kind in (
        LivingDBError,
        RequestValidationError,
        HTTPException,
        UnicodeError,
        RecursionError,
    ):
        api.add_exception_handler(kind, handle_error)
    api.add_exception_handler(Exception, handle_unexpected)
    for module in ROUTERS:
        api.include_router(module.router)
    plain = api.openapi

    def described() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = _completed(plain())
        return api.openapi_schema

    api.openapi = described  # type: ignore[method-assign]
    return api


def _routes() -> Iterator[BaseRoute]:
    for module in ROUTERS:
        yield from module.router.routes


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """The document, with what is no matter of single routes.

    That is how to say who asks, what may be answered by a job, and the bodies that routes read by
    themselves.
    """
    document.setdefault("components", {}).setdefault("securitySchemes", {})["token"] = {
        "type": "http",
        "scheme": "bearer",
    }
    document["components"].setdefault("schemas", {})["Rows"] = Rows.model_json_schema()
    long = {one.operation_id for one in _routes() if isinstance(one, APIRoute) and is_long(one)}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path not in OPEN_PATHS:
                operation["security"] = [{"token": []}]
            if operation["operationId"] in long:
                operation.setdefault("parameters", []).append(PREFER_PARAMETER)
                operation["responses"]["202"] = JOB_RESPONSE
    return document
