"""Whether the server is well, who asks, and how a browser comes in."""

from __future__ import annotations

from pathlib import PurePosixPath

from anyio.to_thread import run_sync
from fastapi import Request
from pydantic import Field
from starlette.responses import Response

import livingdb
from livingdb.access.roles import Role
from livingdb.errors import Forbidden, LivingDBError
from livingdb.server.http.answers import json_answer
from livingdb.server.http.browser_sessions import COOKIE
from livingdb.server.http.context import Asking, Db, Server
from livingdb.server.http.doorkeeper import Caller
from livingdb.server.http.failures import Failure, Refusal
from livingdb.server.http.models import Answer, Asked, Done
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["router"]

router = SubjectRouter(tags=["server"])


class About(Answer):
    """The server, its database, and who asks."""

    version: str
    database: str = Field(description="What tells the database from all others.")
    name: str = Field(description="What the database is called.", examples=["shop.ldb"])
    default_branch: str | None
    read_only: str | None = Field(description="Why nothing can be written; null if it can.")
    user: str
    position: str = Field(
        description="Where `GET /v1/events` begins with `after`, to miss nothing."
    )


class Login(Asked):
    """The token of somebody in front of a browser."""

    token: str = Field(examples=["ldb_…"])


class LoggedIn(Answer):
    """A browser is known by its cookie from now on."""

    user: str
    csrf_token: str = Field(description="What the header X-CSRF-Token of every change says.")


@router.get("/health", operation_id="health", summary="The process answers")
async def health() -> Done:
    """Whether the process answers; nothing is asked of the database."""
    return Done()


@router.get(
    "/ready",
    operation_id="ready",
    summary="The database answers",
    responses={503: {"model": Failure}},
)
def ready(db: Db) -> Done:
    """Whether the database can be read."""
    try:
        db.branches(limit=1)
    except LivingDBError:
        raise Refusal(503, "not_ready", "the database does not answer") from None
    return Done()


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Counts for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(server: Server, request: Request) -> Response:
    """What the server counts, as Prometheus reads it: for owners, and by the token for that."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is not None and not caller.user.may_everywhere(Role.OWNER):
        raise Forbidden("the counts are of all users together: they are told to owners")
    return Response(server.metrics.to_text(), media_type="text/plain; version=0.0.4")


@router.get("/v1/about", operation_id="about", summary="The database, and who asks")
def about(db: Db, asking: Asking, server: Server) -> About:
    """What is served here, and to whom."""
    position = server.events.position()
    try:
        default = db.default_branch.name
    except LivingDBError:
        default = None
    return About(
        version=livingdb.__version__,
        database=db.id,
        name=PurePosixPath(db.name).name or db.name,
        default_branch=default,
        read_only=db.read_only,
        user=asking.name,
        position=position,
    )


@router.post(
    "/v1/login",
    operation_id="log_in",
    summary="Let a browser in",
    response_model=LoggedIn,
    responses={401: {"model": Failure}},
)
async def log_in(body: Login, request: Request, server: Server) -> Response:
    """Give a browser a cookie in place of a token; scripts of pages cannot read it."""
    try:
        caller = await run_sync(server.keeper.authenticate, body.token)
    except LivingDBError as error:
        raise Refusal(401, "unauthenticated", str(error)) from None
    told = json_answer({})
    session = server.browsers.open(body.token, told, request.url.scheme == "https")
    made = json_answer({"user": caller.name, "csrf_token": session.csrf})
    made.headers["set-cookie"] = told.headers["set-cookie"]
    return made


@router.post("/v1/logout", operation_id="log_out", summary="Forget a browser", response_model=Done)
def log_out(request: Request, server: Server) -> Response:
    """End the session of a browser."""
    made = json_answer({"done": True})
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        server.browsers.close(cookie, made)
    return made
