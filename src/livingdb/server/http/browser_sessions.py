"""Browsers: a cookie in place of a token, and a second secret that other sites do not know."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time as clock
from dataclasses import dataclass
from threading import Lock

from starlette.responses import Response

__all__ = ["COOKIE", "CSRF_HEADER", "BrowserSession", "BrowserSessions", "is_csrf_token"]

COOKIE = "livingdb_session"
CSRF_HEADER = "x-csrf-token"
_IDLE_SECONDS = 12 * 3600.0
_MOST, _MOST_OF_ONE = 10_000, 100
"""Sessions, and those that one token opened."""


@dataclass
class BrowserSession:
    """Somebody who logged in with a token, which is looked at anew with each request."""

    token: str
    csrf: str
    used: float


class BrowserSessions:
    """Those of one server, in its memory alone; a server that starts anew knows none."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: dict[bytes, BrowserSession] = {}

    def open(self, token: str, response: Response, is_secure: bool) -> BrowserSession:
        """A new session; the answer carries its cookie, over TLS alone if it came that way."""
        secret = secrets.token_urlsafe(32)
        made = BrowserSession(token, secrets.token_urlsafe(32), clock.monotonic())
        with self._lock:
            self._make_room(token)
            self._sessions[_digest(secret)] = made
        response.set_cookie(
            COOKIE,
            secret,
            max_age=int(_IDLE_SECONDS),
            httponly=True,
            samesite="strict",
            secure=is_secure,
            path="/",
        )
        return made

    def find(self, secret: str) -> BrowserSession | None:
        """The session of a cookie; None if it ended."""
        with self._lock:
            found = self._sessions.get(_digest(secret))
            if found is None or clock.monotonic() - found.used > _IDLE_SECONDS:
                return None
            found.used = clock.monotonic()
            return found

    def close(self, secret: str, response: Response) -> None:
        """End a session, and forget its cookie."""
        with self._lock:
            self._sessions.pop(_digest(secret), None)
        response.delete_cookie(COOKIE, path="/")

    def _make_room(self, token: str) -> None:
        """End sessions that rest, and the oldest of a token that has many: not those of others."""
        late = clock.monotonic() - _IDLE_SECONDS
        every = sorted(self._sessions.items(), key=lambda item: item[1].used)
        kept = {key: one for key, one in every if one.used > late}
        same = [key for key, one in kept.items() if one.token == token]
        for key in same[: max(0, len(same) - _MOST_OF_ONE + 1)]:
            del kept[key]
        for key in list(kept)[: max(0, len(kept) - _MOST + 1)]:
            del kept[key]
        self._sessions = kept


def is_csrf_token(session: BrowserSession, given: str) -> bool:
    """Whether a request knows what only the server's own page was told."""
    return hmac.compare_digest(session.csrf.encode(), given.encode())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
