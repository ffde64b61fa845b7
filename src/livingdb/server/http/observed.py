"""What surrounds every answer: its number, its headers, a line in the log, and the counts.

An error that nobody expected ends here: who asked is told a number, and the log has the rest.
"""

from __future__ import annotations

import logging
import secrets
import time as clock

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livingdb.server.http.door import OPEN_PATHS
from livingdb.server.http.failures import internal_failure
from livingdb.server.http.metrics import Metrics
from livingdb.server.http.routes.page import PAGE_PATHS
from livingdb.server.logs import error_facts, tell

__all__ = ["Observed"]

_CLOSED_REQUEST = 499
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")


class Observed:
    """Watches requests to an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, has_tls: bool):
        self._app = app
        self._metrics = metrics
        self._headers = (*_HEADERS, _STRICT_TRANSPORT) if has_tls else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write down that it was."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _as_get(scope)
        scope.setdefault("state", {})
        answer = _Answer(send, secrets.token_hex(8), self._headers)
        scope["state"]["number"] = answer.number
        began = clock.perf_counter()
        failure: dict[str, object] = {}
        self._metrics.running.inc()
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            answer.status = answer.status or _CLOSED_REQUEST
        except Exception as error:
            failure = error_facts(error)
            if not answer.status:
                await internal_failure(answer.number)(scope, receive, answer.send)
        finally:
            self._metrics.running.dec()
            self._note(scope, answer, clock.perf_counter() - began, failure)

    def _note(
        self, scope: Scope, answer: _Answer, seconds: float, failure: dict[str, object]
    ) -> None:
        route = getattr(scope.get("route"), "operation_id", None)
        operation = scope["state"].get("operation") or route or "none"
        caller = scope["state"].get("caller")
        self._metrics.requests.labels(operation, str(answer.status)).inc()
        self._metrics.seconds.labels(operation).observe(seconds)
        self._metrics.sent_bytes.inc(answer.sent_bytes)
        tell(
            "request",
            logging.ERROR if failure else logging.INFO,
            id=answer.number,
            operation=operation,
            method=scope["method"],
            status=answer.status,
            seconds=round(seconds, 6),
            bytes=answer.sent_bytes,
            user=None if caller is None else caller.name,
            client=None if scope.get("client") is None else scope["client"][0],
            **failure,
        )


def _as_get(scope: Scope) -> Scope:
    """What asks for the head of an open path, as health checks do, asks for all of it.

    uvicorn looks at its own scope, and sends no body.
    """
    is_head = scope["method"] == "HEAD" and scope["path"] in (*OPEN_PATHS, *PAGE_PATHS)
    return {**scope, "method": "GET"} if is_head else scope


class _Answer:
    """What is sent back: with our headers, and counted."""

    def __init__(self, send: Send, number: str, headers: tuple[tuple[bytes, bytes], ...]):
        self._send = send
        self._headers = headers
        self.number = number
        self.status = 0
        self.sent_bytes = 0

    async def send(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            own = [pair for pair in self._headers if pair[0] not in given]
            message = {
                **message,
                "headers": [*message["headers"], *own, (b"x-request-id", self.number.encode())],
            }
        else:
            self.sent_bytes += len(message.get("body", b""))
        await self._send(message)
