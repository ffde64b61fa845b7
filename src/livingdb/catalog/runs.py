"""What syncs have done: runs, how and how long; and the trail of states each has been in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["RunRow", "Runs", "Trail"]

_run = schema.run


@dataclass(frozen=True)
class RunRow:
    """One run of a sync: when it began and for how long, both in microseconds, and what became.

    `snapshot` is the number of the snapshot it made, if any; `outcome` is "done" or "failed".
    """

    id: int
    sync: int
    snapshot: int | None
    time: int
    duration: int
    outcome: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Runs:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        of_sync = _run.c.sync == bindparam("sync")
        newest = select(_run).where(of_sync).order_by(_run.c.id.desc())
        self._of = newest.limit(bindparam("most"))

    def add(
        self,
        connection: Connection,
        sync: int,
        snapshot: int | None,
        time: int,
        duration: int,
        outcome: str,
        details: Mapping[str, Any],
    ) -> None:
        """A run that has ended."""
        values = {
            "sync": sync,
            "snapshot": snapshot,
            "time": time,
            "duration": duration,
            "outcome": outcome,
            "details": json.dumps(dict(details)),
        }
        connection.execute(_run.insert(), values)

    def of(self, sync: int, most: int = 100) -> list[RunRow]:
        """The runs of a sync, newest first."""
        rows = self._queries.all(self._of, {"sync": sync, "most": most})
        return [_row(row) for row in rows]


def _row(row: Any) -> RunRow:
    return RunRow(
        row.id,
        row.sync,
        row.snapshot,
        row.time,
        row.duration,
        row.outcome,
        json.loads(row.details),
    )


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
