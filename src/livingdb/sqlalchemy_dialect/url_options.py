"""What a URL of SQLAlchemy says: where the database is, and how it is opened.

livingdb:///shop.ldb?branch=dev          in the folder that the process runs in
livingdb:////data/shop.ldb               four slashes: a path from the root
livingdb:///s3://bucket/shop.ldb         wherever `livingdb.open` finds databases
livingdb://bob:ldb_…@host:8765/          a host: a server, and whose token it is
livingdb+https://host/?token=ldb_…       a server with TLS
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

__all__ = ["connect_arguments"]

_HTTPS = "livingdb+https"
_FORM = "write livingdb:///folder/shop.ldb, with four slashes for a path from the root"


def connect_arguments(url: URL) -> tuple[str, dict[str, Any]]:
    """The place of the database, and what else `livingdb.dbapi.connect` is told."""
    if url.host:
        return _server_url(url), {}
    if url.port or url.username or url.password or url.drivername == _HTTPS:
        raise ArgumentError(f"{url.render_as_string()}: it names no host; {_FORM}")
    if not url.database:
        raise ArgumentError(f"{url}: it names no database; {_FORM}")
    return url.database, _options(url.query)


def _server_url(url: URL) -> str:
    """The URL of a server, as `livingdb.dbapi.connect` reads it."""
    if url.database:
        raise ArgumentError(
            f"{url.render_as_string()}: a server at a host serves one database, so nothing stands "
            f"behind it but ?branch=… and other options; for files {_FORM}"
        )
    scheme = url.drivername if url.drivername == _HTTPS else "livingdb"
    return url.set(drivername=scheme).render_as_string(hide_password=False)


def _options(query: Mapping[str, str | tuple[str, ...]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, given in query.items():
        read = _READERS.get(name)
        if read is None:
            near = get_close_matches(name, _READERS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_READERS)}"
            raise ArgumentError(f"the URL has an option {name!r} that nobody knows; {hint}")
        found[name] = read(name, given if isinstance(given, tuple) else (given,))
    return found


def _one(name: str, given: tuple[str, ...]) -> str:
    if len(given) > 1:
        raise ArgumentError(f"the URL has the option {name!r} {len(given)} times")
    return given[0]


def _yes_or_no(name: str, given: tuple[str, ...]) -> bool:
    said = _one(name, given).lower()
    if said in ("true", "yes", "1"):
        return True
    if said in ("false", "no", "0"):
        return False
    raise ArgumentError(f"the URL has {name}={said}: write true or false")


def _several(_name: str, given: tuple[str, ...]) -> list[str]:
    return [part for text in given for part in text.split(",")]


_READERS: dict[str, Callable[[str, tuple[str, ...]], Any]] = {
    "branch": _one,
    "autocommit": _yes_or_no,
    "isolation": lambda name, given: _one(name, given).lower(),
    "author": _one,
    "trust": _several,
    "engine": _one,
    "read_only": _yes_or_no,
}
