"""The trail of each sync: which states it has been in, since when, by whom and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Trail", "TrailRow"]

_trail = schema.trail


@dataclass(frozen=True)
class TrailRow:
    """A step: what became of a sync."""

    id: int
    sync: int
    time: int
    state: str
    author: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Trail:
    """Reads and writes it.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(
        self,
        connection: Connection,
        sync: int,
        time: int,
        state: str,
        author: str,
        reason: str,
        details: Mapping[str, Any],
    ) -> None:
        """One step more."""
        values = {
            "sync": sync,
            "time": time,
            "state": state,
            "author": author,
            "reason": reason,
            "details": json.dumps(dict(details)),
        }
        connection.execute(_trail.insert(), values)

    def of(self, sync: int, limit: int | None = None) -> list[TrailRow]:
        """The steps of a sync, newest first."""
        statement = select(_trail).where(_trail.c.sync == sync).order_by(_trail.c.id.desc())
        rows = self._queries.all(statement.limit(limit) if limit is not None else statement)
        return [
            TrailRow(
                row.id,
                row.sync,
                row.time,
                row.state,
                row.author,
                row.reason,
                json.loads(row.details),
            )
            for row in rows
        ]
