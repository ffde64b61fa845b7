"""Alerts: one row for each event that somebody should look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.chunks.queries import Queries

__all__ = ["ACKNOWLEDGED", "OPEN", "RESOLVED", "AlertRow", "Alerts"]

OPEN, ACKNOWLEDGED, RESOLVED = "open", "acknowledged", "resolved"
_alert = schema.alert


@dataclass(frozen=True)
class AlertRow:
    """An event: of which sync, what it was, and what became of it."""

    id: int
    time: int
    sync: str
    event: str
    severity: str
    message: str
    state: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Alerts:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(
        self,
        connection: Connection,
        time: int,
        sync: str,
        event: str,
        severity: str,
        message: str,
        details: Mapping[str, Any],
    ) -> None:
        """A new alert, open."""
        values = {
            "time": time,
            "sync": sync,
            "event": event,
            "severity": severity,
            "message": message,
            "state": OPEN,
            "details": json.dumps(dict(details)),
        }
        connection.execute(_alert.insert(), values)

    def all(self, state: str | None = None) -> list[AlertRow]:
        """Every alert, newest first; in one state, if it is named."""
        statement = select(_alert).order_by(_alert.c.id.desc())
        if state is not None:
            statement = statement.where(_alert.c.state == state)
        return [_row(row) for row in self._queries.all(statement)]

    def set_state(
        self, connection: Connection, number: int, state: str, details: Mapping[str, Any]
    ) -> None:
        """Change what became of an alert, with all that is known of it."""
        values = {"state": state, "details": json.dumps(dict(details))}
        connection.execute(_alert.update().where(_alert.c.id == number).values(values))


def _row(row: Any) -> AlertRow:
    return AlertRow(
        row.id,
        row.time,
        row.sync,
        row.event,
        row.severity,
        row.message,
        row.state,
        json.loads(row.details),
    )
