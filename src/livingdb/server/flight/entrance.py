"""Who comes in: by a token, or by a name with a token as its password."""

from __future__ import annotations

import base64
import binascii
import time as clock
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Protocol

from pyarrow import flight

from livingdb.errors import LivingDBError
from livingdb.server.flight.calls import Call
from livingdb.server.flight.failures import flight_error, unauthenticated
from livingdb.server.flight.observed_call import ObservedCall, Observer, outcome_of

if TYPE_CHECKING:
    from livingdb.access.user import User
    from livingdb.database.database import Database

__all__ = [
    "BRANCH_HEADER",
    "COOKIE",
    "NO_SESSION",
    "Caller",
    "Entrance",
    "Keeper",
    "OpenDoor",
    "PeopleKeeper",
    "Visit",
]

BRANCH_HEADER = "x-livingdb-branch"
"""The header that says which branch or ref a call is about."""
COOKIE = "arrow_flight_session_id"
NO_SESSION = "none"
"""What the cookie says before there is a session: whoever sends it back keeps cookies."""


class Caller(Protocol):
    """Who calls."""

    @property
    def name(self) -> str:
        """What they are called."""
        ...

    @property
    def key(self) -> str:
        """What tells them from everybody else, also from who had the name before."""
        ...


class Keeper(Protocol):
    """Knows people by their secrets, and does things in their name."""

    def authenticate(self, secret: str) -> Any:
        """Whose secret it is; `Forbidden` if it is nobody's."""
        ...

    def acting_as(self, caller: Any) -> AbstractContextManager[object]:
        """What is done inside is checked for who calls, and done in their name."""
        ...


class PeopleKeeper:
    """Knows the people of a database by their tokens, and nobody else."""

    def __init__(self, database: Database):
        self._database = database

    def authenticate(self, secret: str) -> User:
        """Whose token it is; `Forbidden` if it is nobody's."""
        return self._database.people.authenticate(secret)

    def acting_as(self, caller: User) -> AbstractContextManager[object]:
        """What is done inside is checked for who calls, and done in their name."""
        return self._database.acting_as(caller)


class OpenDoor(flight.ServerAuthHandler):  # type: ignore[misc]
    """Lets the handshake pass: who comes in says so in a header, which `Entrance` reads."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing is said but in headers."""

    def is_valid(self, token: bytes) -> bytes:
        """Whoever it is, `Entrance` has looked."""
        return b""


class Visit(flight.ServerMiddleware):  # type: ignore[misc]
    """One call: who makes it, what its headers say, and what is to be done when it has ended."""

    call: Call
    """How it is at work, once it is its turn."""
    operation: str
    """What it brings: a command, an action, or else its method."""
    rights: object = None
    """Who makes it with all that was granted to them by now; another, if that has changed."""

    def __init__(
        self,
        caller: Caller,
        bearer: str | None,
        cookie: str | None,
        branch: str | None,
        method: str,
        observe: Observer,
    ):
        super().__init__()
        self.operation = method
        self._observe = observe
        self._began = clock.perf_counter()
        self.caller = caller
        self.cookie = cookie
        self.branch = branch
        self._bearer = bearer
        self._at_end: list[Callable[[], object]] = []

    @property
    def user(self) -> str:
        """The key of who calls, by which things are kept for them."""
        return self.caller.key

    def at_end(self, act: Callable[[], object]) -> None:
        """Do something when the call has ended, however it did."""
        self._at_end.append(act)

    def sending_headers(self) -> Mapping[str, str]:
        """A token for the calls that follow a handshake; and a cookie, to see if it comes back."""
        headers = {} if self._bearer is None else {"authorization": f"Bearer {self._bearer}"}
        if self.cookie is None:
            headers["set-cookie"] = f"{COOKIE}={NO_SESSION}; HttpOnly"
        return headers

    def call_completed(self, exception: BaseException | None) -> None:
        """Do what was left for the end, and tell of the call."""
        while self._at_end:
            self._at_end.pop()()
        seconds = clock.perf_counter() - self._began
        self._observe(
            ObservedCall(self.operation, outcome_of(exception), seconds, self.caller.name)
        )


class Entrance(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Looks at the headers of every call before anything is done."""

    def __init__(self, keeper: Keeper, observe: Observer):
        super().__init__()
        self._keeper = keeper
        self._observe = observe

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> Visit:
        """Who calls; the call is refused if that is nobody."""
        method = str(info.method.name).lower()
        try:
            caller, secret = self._caller(headers)
        except Exception as error:
            self._observe(ObservedCall(method, outcome_of(error), 0.0, None))
            raise
        bearer = secret if info.method == flight.FlightMethod.HANDSHAKE else None
        branch = _first(headers, BRANCH_HEADER)
        return Visit(caller, bearer, _cookie(headers), branch or None, method, self._observe)

    def _caller(self, headers: Mapping[str, Sequence[Any]]) -> tuple[Caller, str]:
        name, secret = _credentials(_first(headers, "authorization"))
        try:
            caller = self._keeper.authenticate(secret)
        except LivingDBError as error:
            raise unauthenticated(str(error)) from None
        except Exception as error:
            raise flight_error(error) from None
        if name is not None and name != caller.name:
            raise unauthenticated("the token is not one of this user")
        return caller, secret


def _credentials(header: str) -> tuple[str | None, str]:
    """The name, if one is said, and the token."""
    kind, _, given = header.partition(" ")
    given = given.strip()
    if kind.lower() == "bearer" and given:
        return None, given
    if kind.lower() == "basic":
        try:
            padding = "=" * (-len(given) % 4)  # which some clients leave out
            text = base64.b64decode(given + padding, validate=True).decode()
        except (binascii.Error, ValueError):
            raise unauthenticated("the header Authorization: Basic … cannot be read") from None
        name, _, secret = text.partition(":")
        if name and secret:
            return name, secret
    raise unauthenticated(
        "who are you? Say Authorization: Bearer <token>, or a user name with a token as password"
    )


def _first(headers: Mapping[str, Sequence[Any]], name: str) -> str:
    given = headers.get(name) or [""]
    return given[0] if isinstance(given[0], str) else ""


def _cookie(headers: Mapping[str, Sequence[Any]]) -> str | None:
    """The session that the client says it is in; None if it keeps no cookies."""
    for text in headers.get("cookie") or ():
        try:
            found = SimpleCookie(text).get(COOKIE)
        except CookieError:
            continue
        if found is not None:
            return found.value
    return None
