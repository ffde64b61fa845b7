"""The jobs of the runner: who does each, until when that counts, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["FAILED", "IDLE", "RUNNING", "JobRow", "Jobs"]

IDLE, RUNNING, FAILED = "idle", "running", "failed"
_job = schema.job
_rows = SealedRows(_job)


@dataclass(frozen=True)
class JobRow:
    """A job; times are in microseconds, and 0 is never.

    `holder` does it, or did it last, and lost it if nothing was heard since `until`.  It is not to
    be begun before `due`; so many `failures` came one after the other, the last with `error`.
    `details` is what it remembers.
    """

    name: str
    state: str = IDLE
    holder: str = ""
    began: int = 0
    until: int = 0
    ended: int = 0
    due: int = 0
    failures: int = 0
    progress: str = ""
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class Jobs:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> dict[str, JobRow]:
        """The jobs that somebody has begun, by name."""
        return {row.name: row for row in map(_row, self._queries.all(_rows.every))}

    def swap(self, connection: Connection, seen: JobRow | None, row: JobRow) -> bool:
        """Write a job down, if it is as it was seen: nobody else has taken it meanwhile."""
        values = {**asdict(row), "details": json.dumps(dict(row.details))}
        if seen is None:
            return _rows.insert_missing(connection, [values]) == 1
        as_seen = (
            _job.c.name == seen.name,
            _job.c.state == seen.state,
            _job.c.holder == seen.holder,
            _job.c.began == seen.began,
        )
        return len(_rows.update(connection, as_seen, values)) == 1


def _row(row: Sequence[Any]) -> JobRow:
    values = _rows.named(row)
    return JobRow(**{**values, "details": json.loads(values["details"])})
