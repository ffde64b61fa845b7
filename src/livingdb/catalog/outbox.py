"""The outbox: what is to be sent of alerts, to which sink, and what became of it.

A row is put there in the transaction of its alert.  Whoever sends it claims it first: the claim
counts as an attempt and moves `due` to when it lapses, so that what a killed program had claimed
is sent by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.alerts import OPEN
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["FAILED", "SENT", "WAITING", "Outbox", "OutboxRow"]

WAITING, SENT, FAILED = "waiting", "sent", "failed"
_outbox, _alert = schema.outbox, schema.alert
_rows, _alerts = SealedRows(_outbox), SealedRows(_alert)


@dataclass(frozen=True)
class OutboxRow:
    """One alert for one sink; `due` is when it may be sent next, in microseconds."""

    id: int
    alert: int
    sink: str
    state: str
    attempts: int
    due: int
    error: str


class Outbox:
    """Reads and writes it.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(self, connection: Connection, alert: int, sinks: Iterable[str], due: int) -> None:
        """Let an alert be sent to sinks."""
        values = [
            {"alert": alert, "sink": sink, "state": WAITING, "attempts": 0, "due": due, "error": ""}
            for sink in sinks
        ]
        if values:
            _rows.insert_numbered(connection, values)

    def last_time(self, connection: Connection, fingerprint: str, sink: str) -> int | None:
        """When the newest alert with the fingerprint happened that was not lost for the sink."""
        statement = (
            _alerts.every.join(_outbox, _outbox.c.alert == _alert.c.id)
            .where(_alert.c.fingerprint == fingerprint)
            .where(_outbox.c.sink == sink, _outbox.c.state != FAILED)
            .order_by(_alert.c.time.desc())
            .limit(1)
        )
        found = connection.execute(statement).first()
        return None if found is None else int(_alerts.named(found)["time"])

    def waiting_sinks(self) -> dict[str, int]:
        """The sinks that something waits for, and when the first of it is due."""
        first: dict[str, int] = {}
        for row in map(_row, self._queries.all(_rows.every.where(_outbox.c.state == WAITING))):
            first[row.sink] = min(row.due, first.get(row.sink, row.due))
        return first

    def due_rows(self, sink: str, time: int) -> list[OutboxRow]:
        """What is due for a sink, in the order of the alerts."""
        statement = (
            _rows.every.where(
                _outbox.c.state == WAITING, _outbox.c.due <= time, _outbox.c.sink == sink
            )
            .order_by(_outbox.c.id)
            .limit(100)
        )
        return [_row(row) for row in self._queries.all(statement)]

    def claim(self, connection: Connection, row: OutboxRow, until: int) -> OutboxRow | None:
        """The row as an attempt that lapses at a time; None if somebody else has it."""
        values = {"attempts": row.attempts + 1, "due": until}
        if not self._compare_and_swap(connection, row, values):
            return None
        return OutboxRow(**{**vars(row), **values})

    def retry_later(self, connection: Connection, claim: OutboxRow, due: int, error: str) -> bool:
        """An attempt failed; try at another time, unless somebody else took the row over."""
        return self._compare_and_swap(connection, claim, {"due": due, "error": error})

    def give_up(self, connection: Connection, claim: OutboxRow, error: str) -> bool:
        """An attempt failed and there is no other; False if somebody else took the row over."""
        return self._compare_and_swap(connection, claim, {"state": FAILED, "error": error})

    def mark_sent(self, connection: Connection, number: int) -> None:
        """The sink has it, whoever tries as well."""
        _rows.update(connection, [_outbox.c.id == number], {"state": SENT, "error": ""})

    def of(self, alert: int) -> list[OutboxRow]:
        """What was to be sent of an alert."""
        statement = _rows.every.where(_outbox.c.alert == alert).order_by(_outbox.c.id)
        return [_row(row) for row in self._queries.all(statement)]

    def given_up(self) -> list[OutboxRow]:
        """What no sink took, of alerts that are open still; newest first."""
        statement = (
            _rows.every.join(_alert, _outbox.c.alert == _alert.c.id)
            .where(_outbox.c.state == FAILED, _alert.c.state == OPEN)
            .order_by(_outbox.c.id.desc())
        )
        return [_row(row) for row in self._queries.all(statement)]

    def all(self) -> list[OutboxRow]:
        """Everything, newest first."""
        statement = _rows.every.order_by(_outbox.c.id.desc())
        return [_row(row) for row in self._queries.all(statement)]

    def _compare_and_swap(
        self, connection: Connection, row: OutboxRow, values: dict[str, Any]
    ) -> bool:
        """Change the row if it is as it was seen."""
        as_seen = (
            _outbox.c.id == row.id,
            _outbox.c.state == row.state,
            _outbox.c.attempts == row.attempts,
            _outbox.c.due == row.due,
        )
        return len(_rows.update(connection, as_seen, values)) == 1


def _row(row: Sequence[Any]) -> OutboxRow:
    return OutboxRow(*_rows.read(row))
