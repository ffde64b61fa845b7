"""Watches: what raises alerts besides syncs, and what each of them remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists

__all__ = ["WatchRow", "Watches"]

_watch = schema.watch
_meta = schema.meta
_SINKS = "alert sinks"


@dataclass(frozen=True)
class WatchRow:
    """A watch: `spec` says what for, how bad it is and whom to tell; `state` is its memory."""

    name: str
    spec: Mapping[str, Any]
    time: int
    state: Mapping[str, Any] = field(default_factory=dict)


class Watches:
    """Reads and writes them.  What writes takes the connection of a transaction.

    A new or dropped watch raises the catalog's epoch with it: who did not see it cannot commit.
    """

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> list[WatchRow]:
        """Every watch, by name."""
        rows = self._queries.all(select(_watch).order_by(_watch.c.name))
        return [
            WatchRow(row.name, json.loads(row.spec), row.time, json.loads(row.state))
            for row in rows
        ]

    def add(self, connection: Connection, row: WatchRow) -> None:
        """A new watch; `AlreadyExists` if the name is taken."""
        values = {
            "name": row.name,
            "spec": _text(row.spec),
            "state": _text(row.state),
            "time": row.time,
        }
        try:
            connection.execute(_watch.insert(), values)
        except IntegrityError:
            raise AlreadyExists(f"there is a watch {row.name!r} already") from None

    def remember(self, connection: Connection, row: WatchRow, state: Mapping[str, Any]) -> bool:
        """Let a watch remember something else; False if it is not as it was seen."""
        as_seen = _watch.c.name == row.name, _watch.c.state == _text(row.state)
        statement = _watch.update().where(*as_seen).values(state=_text(state))
        return connection.execute(statement).rowcount == 1

    def drop(self, connection: Connection, name: str) -> bool:
        """Forget a watch; False if there is none."""
        return connection.execute(_watch.delete().where(_watch.c.name == name)).rowcount == 1

    def sinks(self, connection: Connection | None = None) -> list[dict[str, Any]]:
        """The sinks of every alert of the database, as plain values."""
        statement = select(_meta.c.value).where(_meta.c.name == _SINKS)
        if connection is None:
            found = self._queries.scalar(statement)
        else:
            found = connection.execute(statement).scalar()
        return [] if found is None else list(json.loads(found))

    def set_sinks(self, connection: Connection, sinks: list[dict[str, Any]]) -> None:
        """Change them."""
        connection.execute(_meta.delete().where(_meta.c.name == _SINKS))
        connection.execute(_meta.insert(), {"name": _SINKS, "value": json.dumps(sinks)})


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True)
