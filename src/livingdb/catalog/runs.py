"""What syncs have done: runs, how and how long; and the trail of states each has been in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.ids import SyncId
from livingdb.catalog.pending_note import keep_note
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["RunRow", "Runs", "Trail"]

_run, _trail, _sync = schema.run, schema.trail, schema.sync
_runs, _steps = SealedRows(_run), SealedRows(_trail)


@dataclass(frozen=True)
class RunRow:
    """One run of a sync: when it began and for how long, both in microseconds, and what became.

    `snapshot` is the number of the snapshot it made, if any; `outcome` is "done" or "failed".
    """

    id: int
    sync: SyncId
    snapshot: int | None
    time: int
    duration: int
    outcome: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Runs:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        of_sync = _run.c.sync == _number_of(bindparam("sync"))
        newest = _runs.every.where(of_sync).order_by(_run.c.id.desc())
        self._of = newest.limit(bindparam("most"))

    def add(
        self,
        connection: Connection,
        sync: SyncId,
        snapshot: int | None,
        time: int,
        duration: int,
        outcome: str,
        details: Mapping[str, Any],
    ) -> None:
        """A run that has ended; nothing if the sync was dropped meanwhile."""
        values = {
            "snapshot": snapshot,
            "time": time,
            "duration": duration,
            "outcome": outcome,
            "details": json.dumps(dict(details)),
        }
        _insert_about(connection, _runs, sync, values)

    def of(self, sync: SyncId, most: int = 100) -> list[RunRow]:
        """The runs of a sync, newest first."""
        rows = self._queries.all(self._of, {"sync": sync, "most": most})
        return [_row(row, sync) for row in rows]


def _number_of(sync: Any) -> Any:
    """The number of a sync."""
    return select(_sync.c.number).where(_sync.c.id == sync).scalar_subquery()


def _insert_about(
    connection: Connection, rows: SealedRows, sync: SyncId, values: Mapping[str, Any]
) -> None:
    """Add a row about a sync, which its number stands for there; nothing if it was dropped."""
    number = connection.execute(select(_sync.c.number).where(_sync.c.id == sync)).scalar()
    if number is not None:
        rows.insert_numbered(connection, [{"sync": number, **values}])


def _row(row: Sequence[Any], sync: SyncId) -> RunRow:
    values = _runs.named(row)
    return RunRow(**{**values, "sync": sync, "details": json.loads(values["details"])})


@dataclass(frozen=True)
class TrailRow:
    """A step: what became of a sync."""

    id: int
    sync: SyncId
    time: int
    state: str
    author: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Trail:
    """Reads and writes it.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._verified = 0

    def add(
        self,
        connection: Connection,
        sync: SyncId,
        time: int,
        state: str,
        author: str,
        reason: str,
        details: Mapping[str, Any],
    ) -> None:
        """One step more; nothing if the sync was dropped meanwhile."""
        keep_note(self._queries, connection)
        values = {
            "time": time,
            "state": state,
            "author": author,
            "reason": reason,
            "details": json.dumps(dict(details)),
        }
        _insert_about(connection, _steps, sync, values)

    def of(self, sync: SyncId, limit: int | None = None) -> list[TrailRow]:
        """The steps of a sync, newest first."""
        self._verify()
        of_sync = _trail.c.sync == _number_of(sync)
        statement = _steps.every.where(of_sync).order_by(_trail.c.id.desc())
        rows = self._queries.all(statement.limit(limit) if limit is not None else statement)
        return [
            TrailRow(**{**values, "sync": sync, "details": json.loads(values["details"])})
            for values in map(_steps.named, rows)
        ]

    def _verify(self) -> None:
        """Look at steps that are new, so that a damaged one of this sync is not passed over."""
        rows = self._queries.all(_steps.every.where(_trail.c.id > self._verified))
        self._verified = max([self._verified, *(step[0] for step in _steps.read_all(rows))])
