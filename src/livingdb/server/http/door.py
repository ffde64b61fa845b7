"""The door: what every request passes before it reaches a database.

Whoever is called by another name (Host), or by a page of another site (Origin), is not answered:
a page that a browser was led to by a name of its own cannot ask for what is on this machine.  Sites
that are allowed are told so as browsers ask it (CORS); a page of theirs comes with a token.  Then
comes who it is, by a token or by the cookie of a browser (which, where it changes something, also
has to know what only our own page was told); their share of the server; and what they may send.
What is asked from there on is asked in their name.
"""

from __future__ import annotations

import asyncio
import hmac
import time as clock
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livingdb.errors import LivingDBError
from livingdb.interruption import Interruption, interruptible
from livingdb.server.http.browser_sessions import (
    COOKIE,
    CSRF_HEADER,
    BrowserSessions,
    is_csrf_token,
)
from livingdb.server.http.doorkeeper import Caller, Doorkeeper
from livingdb.server.http.failures import Refusal, describe_error
from livingdb.server.http.metrics import Metrics
from livingdb.server.http.routes.page import PAGE_PATHS
from livingdb.server.http.turns import Turns
from livingdb.server.settings import ServerSettings

__all__ = ["EVENTS", "OPEN_PATHS", "Door"]

OPEN_PATHS = ("/health", "/ready", "/openapi.json", "/v1/login")
"""What is answered to anybody who may call the server by its name."""
EVENTS = "/v1/events"
METRICS = "/metrics"
_READING = ("GET", "HEAD", "OPTIONS")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ASKED_HEADERS = ("Authorization", "Content-Type", "If-Match", "Last-Event-ID", "Prefer")
_TOLD_HEADERS = (
    *("ETag", "Retry-After", "X-Request-Id", "LivingDB-Snapshot", "LivingDB-Next"),
    *("LivingDB-More", "LivingDB-Changed", "LivingDB-Branch", "LivingDB-Transaction"),
    *("Location", "Preference-Applied"),
)
"""What pages of sites that are allowed may say, and see, beside what any page may."""
_STRANGERS_BYTES = 64 << 10
"""Of a body, where nobody has to say who asks: a token is in it, and no more."""
_STOP_SECONDS, _LOOK_SECONDS = 2.0, 0.02
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Door:
    """Lets requests in, each in the name of who asks."""

    def __init__(
        self,
        app: ASGIApp,
        keeper: Doorkeeper,
        browsers: BrowserSessions,
        settings: ServerSettings,
        metrics: Metrics,
    ):
        self._app = app
        self._keeper = keeper
        self._browsers = browsers
        self._settings = settings
        self._metrics = metrics
        self._turns = Turns(settings.limits)
        self._at_work: set[Interruption] = set()
        own = settings.host if ":" not in settings.host else f"[{settings.host}]"
        self._hosts = {*_LOCAL_HOSTS, own.lower(), *map(str.lower, settings.allowed_hosts)}
        self._from_sites = CORSMiddleware(
            self._enter,
            allow_origins=settings.allowed_origins,
            allow_methods=_METHODS,
            allow_headers=_ASKED_HEADERS,
            expose_headers=_TOLD_HEADERS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        enter: ASGIApp = self._enter
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if headers.get("origin") in self._settings.allowed_origins and self._is_ours(headers):
                enter = self._from_sites
        await enter(scope, receive, send)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        async with AsyncExitStack() as stack:
            try:
                caller = await self._admit(HTTPConnection(scope))
                if caller is not None:
                    scope["state"]["caller"] = caller
                    is_stream = scope["path"] == EVENTS
                    turn = self._turns.stream if is_stream else self._turns.request
                    await stack.enter_async_context(turn(caller.name))
            except Refusal as refusal:
                self._metrics.refusals.labels(refusal.code).inc()
                await describe_error(refusal)(scope, receive, send)
                return
            limits = self._settings.limits
            most = limits.body_bytes
            most = most if caller is not None else min(most, _STRANGERS_BYTES)
            limited = _Body(receive, Headers(scope=scope), most, limits.stall_seconds).receive
            await self._answer(caller, scope, limited, send)

    async def _answer(
        self, caller: Caller | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer in the name of who asks, for as long as queries may take."""
        if caller is None:
            await self._app(scope, receive, send)
            return
        with self._keeper.acting_as(caller), interruptible() as interruption:
            if scope["path"] == EVENTS:  # who listens does so for as long as they like
                await self._app(scope, receive, send)
                return
            time = _WorkTime(self._settings.limits.seconds, interruption, send)
            self._at_work.add(interruption)
            try:
                await self._app(scope, receive, time.send)
            finally:
                self._at_work.discard(interruption)
                time.stop()

    def end(self, seconds: float) -> None:
        """Let requests come to their end; what is at work a little before the time is stopped."""
        end = clock.monotonic() + seconds
        self._wait(end - min(_STOP_SECONDS, seconds / 2))
        for one in list(self._at_work):
            one.stop("the server stops: ask again")
        self._wait(end)

    def _wait(self, end: float) -> None:
        """Until no request is at work, but not for longer."""
        while self._at_work and clock.monotonic() < end:
            clock.sleep(_LOOK_SECONDS)

    async def _admit(self, request: HTTPConnection) -> Caller | None:
        """Who asks; None where nobody has to say so."""
        self._check_host(request)
        self._check_origin(request)
        if request.scope["path"] in (*OPEN_PATHS, *PAGE_PATHS):
            return None
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind:
            if kind.lower() != "bearer" or not secret.strip():
                raise Refusal(401, "unauthenticated", "say Authorization: Bearer <token>")
            if request.scope["path"] == METRICS and self._is_metrics_token(secret.strip()):
                return None
            return await self._authenticate(request, secret.strip())
        cookie = request.cookies.get(COOKIE)
        session = None if cookie is None else self._browsers.find(cookie)
        if session is None:
            raise Refusal(
                401, "unauthenticated", "who are you? Say Authorization: Bearer <token>, or log in"
            )
        is_change = request.scope["method"] not in _READING
        if is_change and not is_csrf_token(session, request.headers.get(CSRF_HEADER, "")):
            raise Refusal(
                403, "csrf", f"a browser says {CSRF_HEADER} with what it was told at login"
            )
        return await self._authenticate(request, session.token)

    async def _authenticate(self, request: HTTPConnection, secret: str) -> Caller:
        known = request.scope["state"]["still_known"] = partial(self._keeper.authenticate, secret)
        try:
            return await run_sync(known)
        except LivingDBError as error:
            raise Refusal(401, "unauthenticated", str(error)) from None

    def _is_metrics_token(self, secret: str) -> bool:
        ours = self._settings.metrics_token
        return ours is not None and hmac.compare_digest(secret.encode(), ours.encode())

    def _check_host(self, request: HTTPConnection) -> None:
        if not self._is_ours(request.headers):
            raise Refusal(
                421, "unknown_host", "the server is not called by this name; see --allow-host"
            )

    def _is_ours(self, headers: Headers) -> bool:
        """Whether the server is called by a name of its own."""
        given = headers.get("host", "").lower()
        return given in self._hosts or _host_name(given) in self._hosts

    def _check_origin(self, request: HTTPConnection) -> None:
        origin = request.headers.get("origin")
        if origin is None or origin in self._settings.allowed_origins:
            return
        parts = urlsplit(origin)
        host = request.headers.get("host", "").lower()
        if not parts.scheme or parts.netloc.lower() != host:
            raise Refusal(403, "foreign_origin", "pages of other sites do not come in")


def _host_name(host: str) -> str:
    """A host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


class _WorkTime:
    """The time that an answer may take: what counts is work, not waiting for a slow client."""

    def __init__(self, seconds: float, interruption: Interruption, send: Send):
        self._said = (
            f"the query took longer than {seconds:g} seconds: ask for less, or say "
            "Prefer: respond-async"
        )
        self._left_seconds = seconds
        self._interruption = interruption
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._start()

    def _start(self) -> None:
        self._began = self._loop.time()
        left = self._left_seconds
        self._timer = self._loop.call_later(left, self._interruption.stop, self._said)

    def stop(self) -> None:
        """No time passes from now on."""
        self._timer.cancel()
        self._left_seconds -= self._loop.time() - self._began

    async def send(self, message: Message) -> None:
        """Send a part of the answer, for as long as the client takes."""
        self.stop()
        try:
            await self._send(message)
        finally:
            self._start()


class _Body:
    """What a client sends: no more than it may, and not too slowly."""

    def __init__(self, receive: Receive, headers: Headers, most: int, stall_seconds: float):
        self._receive: Callable[[], Awaitable[Message]] = receive
        self._most = most
        self._stall_seconds = stall_seconds
        self._seen_bytes = 0
        self._is_whole = False
        said = headers.get("content-length", "")
        self._said_bytes = int(said) if said.isdecimal() else 0

    async def receive(self) -> Message:
        """The next part."""
        if self._said_bytes > self._most:
            raise _too_large(self._most)
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._stall_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, "timeout", "the request did not come to an end") from None
        self._seen_bytes += len(message.get("body", b""))
        if self._seen_bytes > self._most:
            raise _too_large(self._most)
        self._is_whole = not message.get("more_body", False)
        return message


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"a request has at most {most:,} bytes", limit_bytes=most)
