"""Where a server is, and who asks it: what a URL says, and what is said beside it.

livingdb://127.0.0.1:8765/?branch=dev            a server on this machine
livingdb://bob:ldb_…@db.example.org/?tls=true    with a user and a token, over TLS
livingdb+https://db.example.org/?token=ldb_…     the same, without the user
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from livingdb.dbapi.errors import InterfaceError

__all__ = ["ServerAddress", "is_server_url", "parse_server_url"]

_SCHEMES = {"livingdb": False, "livingdb+http": False, "livingdb+https": True}
"""Whether connections are encrypted, by how a URL begins."""
_PORT = 8765
_ENCRYPTED_PORT = 443
_TOKEN_VARIABLE = "LIVINGDB_TOKEN"
_OPTIONS = ("branch", "autocommit", "isolation", "token", "user", "tls", "certificate")
_OF_FILES = ("author", "trust", "engine", "read_only")


@dataclass(frozen=True)
class ServerAddress:
    """A server, and who asks it.

    `user` is whose token it has to be, where that was said; `certificate` is a file with those
    that vouch for the server, in place of the system's.
    """

    host: str
    port: int
    token: str = field(repr=False)
    user: str | None = None
    has_tls: bool = False
    certificate: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_server_url(place: object) -> bool:
    """Whether a place is a server's: a URL of LivingDB that names a host."""
    if not isinstance(place, str):
        return False
    scheme, slashes, rest = place.partition("://")
    return bool(slashes) and scheme.lower() in _SCHEMES and not rest.startswith("/")


def parse_server_url(url: str, given: Mapping[str, Any]) -> tuple[ServerAddress, dict[str, Any]]:
    """The server, and what is said of the connection: branch, autocommit, isolation.

    What is given beside the URL counts more than what it says; None is nothing.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InterfaceError(f"the URL of a server is not understood: {error}") from None
    if not host:
        raise InterfaceError("the URL names no server: write livingdb://host:8765/?branch=main")
    if parts.path not in ("", "/") or parts.fragment:
        raise InterfaceError(
            f"{parts.path or '#' + parts.fragment}: a server serves one database, so nothing "
            "stands behind its host and port but ?branch=… and other options"
        )
    said = _query_options(parts.query)
    said |= {name: value for name, value in given.items() if value is not None}
    has_tls = _SCHEMES[parts.scheme.lower()] or _yes_or_no("tls", said.pop("tls", False))
    address = ServerAddress(
        host,
        port or (_ENCRYPTED_PORT if has_tls else _PORT),
        _token(said.pop("token", None) or unquote(parts.password or "")),
        said.pop("user", None) or unquote(parts.username or "") or None,
        has_tls,
        said.pop("certificate", None),
    )
    if address.certificate is not None and not has_tls:
        raise InterfaceError("a certificate is for TLS: write livingdb+https:// or tls=true")
    if "autocommit" in said:
        said["autocommit"] = _yes_or_no("autocommit", said["autocommit"])
    if "isolation" in said:
        said["isolation"] = str(said["isolation"]).lower()
    return address, said


def _query_options(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _OF_FILES:
            raise InterfaceError(
                f"{name} is told when a database is opened, which its server did: leave it out"
            )
        if name not in _OPTIONS:
            near = get_close_matches(name, _OPTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_OPTIONS)}"
            raise InterfaceError(f"the URL has an option {name!r} that nobody knows; {hint}")
        if name in found:
            raise InterfaceError(f"the URL has the option {name!r} twice")
        found[name] = value
    return found


def _yes_or_no(name: str, said: bool | str) -> bool:
    if isinstance(said, bool):
        return said
    if said.lower() in ("true", "yes", "1"):
        return True
    if said.lower() in ("false", "no", "0"):
        return False
    raise InterfaceError(f"{name}={said}: write true or false")


def _token(given: str) -> str:
    token = given or os.environ.get(_TOKEN_VARIABLE, "")
    if not token:
        raise InterfaceError(
            "a server wants to know who asks: give token=, or put it into "
            f"{_TOKEN_VARIABLE}; `livingdb user token` issues one"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InterfaceError("the token has characters that no token has")
    return token
