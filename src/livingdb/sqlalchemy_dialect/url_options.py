"""What a URL of SQLAlchemy says: where the database is, and how it is opened.

livingdb:///shop.ldb?branch=dev          in the folder that the process runs in
livingdb:////data/shop.ldb               four slashes: a path from the root
livingdb:///s3://bucket/shop.ldb         wherever `livingdb.open` finds databases
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

__all__ = ["connect_arguments"]

_FORM = "write livingdb:///folder/shop.ldb, with four slashes for a path from the root"


def connect_arguments(url: URL) -> tuple[str, dict[str, Any]]:
    """The place of the database, and what else `livingdb.dbapi.connect` is told."""
    if url.host or url.port or url.username or url.password:
        raise ArgumentError(
            f"{url.render_as_string()}: databases are opened by their paths, not at a host; {_FORM}"
        )
    if not url.database:
        raise ArgumentError(f"{url}: it names no database; {_FORM}")
    return url.database, _options(url.query)


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
