"""Asks a server over HTTP; what it refuses is raised as LivingDB's own errors."""

from __future__ import annotations

import json
import selectors
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode

from livingdb import errors
from livingdb.dbapi.server_address import ServerAddress

__all__ = ["ARROW", "Answer", "NoSession", "ServerClient", "Unreachable"]

ARROW = "application/vnd.apache.arrow.stream"
_CONNECT_SECONDS = 30.0


class Unreachable(errors.LivingDBError):
    """The server does not answer; whether it did what it was asked is not known."""

    code = "unreachable"


class NoSession(errors.NotFound):
    """The server does not know the session, or not any more."""


@dataclass(frozen=True)
class Answer:
    """What a server says to a request that it grants."""

    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ServerClient:
    """One connection to a server, made anew where the server let go of it between requests.

    It takes one request at a time.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._encryption = _encryption(address)
        self._http: HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str | None] | None = None,
        wants_arrow: bool = False,
    ) -> Answer:
        """The answer to a request, with a body of JSON, or of Arrow if it is bytes."""
        headers = {"Authorization": f"Bearer {self._address.token}"}
        headers["Accept"] = ARROW if wants_arrow else "application/json"
        if body is not None:
            headers["Content-Type"] = ARROW if isinstance(body, bytes) else "application/json"
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        said = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(said)}" if said else path
        try:
            http = self._connected()
            http.request(method, target, sent, headers)
            response = http.getresponse()
            answer = Answer(_names_in_lower_case(response.getheaders()), response.read())
        except (OSError, HTTPException) as error:
            self.disconnect()
            raise Unreachable(
                f"the server at {self._address} does not answer ({_reason(error)}): whether it did "
                "what was asked last is not known"
            ) from None
        if response.status >= 300:
            raise self._failure(response.status, answer)
        self._check_kind(answer, wants_arrow)
        return answer

    def disconnect(self) -> None:
        """Let go of the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _connected(self) -> HTTPConnection:
        if self._http is not None and _is_dropped(self._http):
            self.disconnect()
        if self._http is None:
            made = self._new_connection()
            made.connect()
            made.sock.settimeout(None)  # how long a query may take is for the server to say
            made.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._http = made
        return self._http

    def _new_connection(self) -> HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._encryption is None:
            return HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        return HTTPSConnection(host, port, timeout=_CONNECT_SECONDS, context=self._encryption)

    def _check_kind(self, answer: Answer, wants_arrow: bool) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip()
        if kind != (ARROW if wants_arrow else "application/json"):
            raise self._stranger(f"it answered with {kind or 'nothing'}")

    def _failure(self, status: int, answer: Answer) -> errors.LivingDBError:
        """What a server refused, as the error that it had."""
        try:
            told = answer.json()
            code, message, details = told["code"], str(told["message"]), told["details"]
        except (ValueError, TypeError, LookupError):
            return self._stranger(f"it answered with the status {status}")
        if details.get("missing") == "session":
            return NoSession(message)
        kind = next((one for one in _kinds(errors.LivingDBError) if one.code == code), None)
        error = errors.LivingDBError(message) if kind is None else kind(message)
        error.code = code
        return error

    def _stranger(self, said: str) -> errors.LivingDBError:
        return errors.LivingDBError(
            f"at {self._address} is no server of LivingDB: {said}; is it the port of HTTP, and "
            "is TLS as the server has it?"
        )


def _encryption(address: ServerAddress) -> ssl.SSLContext | None:
    """How connections are encrypted, by whom the server has to be vouched for; None: not at all."""
    if not address.has_tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.certificate)
    except OSError as error:
        raise errors.InvalidData(
            f"the certificate {address.certificate} cannot be used: {error}"
        ) from None


def _kinds(kind: type[errors.LivingDBError]) -> Iterator[type[errors.LivingDBError]]:
    """The errors of the tree; not those that modules add for themselves."""
    if kind.__module__ == errors.__name__:
        yield kind
        for one in kind.__subclasses__():
            yield from _kinds(one)


def _names_in_lower_case(headers: list[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


def _is_dropped(http: HTTPConnection) -> bool:
    """Whether the other side closed a connection that nothing is expected from."""
    if http.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(http.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
