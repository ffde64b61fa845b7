"""What was advised, tried, changed and undone so that the database is used at less cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, or_, select

from livingdb.catalog import schema
from livingdb.catalog.pending_note import keep_note
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["ADVISED", "APPLIED", "DROPPED", "UNDONE", "TuningRow", "TuningRows"]

ADVISED, APPLIED, DROPPED, UNDONE = "advised", "applied", "dropped", "undone"
"""What became of an advice: nothing yet, it is in force, it did not pay, it is in force no more."""
_MOST = 1_000
_PASSING = "evict"
"""What is done once, and sets nothing: its records are history as soon as they are written."""

_tuning = schema.tuning
_rows = SealedRows(_tuning)


@dataclass(frozen=True)
class TuningRow:
    """One advice: what to do (`action`) about what (`subject`, an identity), and since when.

    `number` is 0 as long as it is not written down; `details` has all else as plain values.
    """

    action: str
    subject: str
    state: str
    time: int
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0


class TuningRows:
    """Reads and writes them.  What writes takes the connection of a transaction.

    What is written down as advised, applied or undone takes a note of who did it with it.
    """

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self) -> list[TuningRow]:
        """All of them, the oldest first."""
        return [_row(row) for row in self._queries.all(_rows.every.order_by(_tuning.c.number))]

    def applied(self, connection: Connection | None = None) -> list[TuningRow]:
        """Those in force, the oldest first."""
        asked = _rows.every.where(_tuning.c.state == APPLIED).order_by(_tuning.c.number)
        found = self._queries.all(asked) if connection is None else connection.execute(asked)
        return [_row(row) for row in found]

    def find(self, number: int, connection: Connection | None = None) -> TuningRow | None:
        """The one of a number."""
        asked = _rows.every.where(_tuning.c.number == number)
        if connection is None:
            found = self._queries.first(asked)
        else:
            found = connection.execute(asked).first()
        return None if found is None else _row(found)

    def add(self, connection: Connection, rows: Sequence[TuningRow]) -> list[int]:
        """Write some down; their numbers.  Of those that set nothing any longer the oldest go."""
        keep_note(self._queries, connection)
        numbers = _rows.insert_numbered(connection, [_values(row) for row in rows])
        is_history = or_(_tuning.c.state != APPLIED, _tuning.c.action == _PASSING)
        newest = select(_tuning.c.number).where(is_history)
        surplus = newest.order_by(_tuning.c.number.desc()).offset(_MOST).limit(_MOST)
        gone = [number for (number,) in connection.execute(surplus)]
        if gone:
            _rows.delete(connection, _tuning.c.number.in_(gone))
        return numbers

    def change(
        self, connection: Connection, seen: TuningRow, state: str, details: Mapping[str, Any]
    ) -> bool:
        """Let one have another state, if it is in the one that was seen."""
        as_seen = (_tuning.c.number == seen.number, _tuning.c.state == seen.state)
        values = {"state": state, "details": json.dumps(dict(details))}
        if len(_rows.update(connection, as_seen, values)) != 1:
            return False
        keep_note(self._queries, connection)
        return True

    def forget_advised(self, connection: Connection) -> None:
        """Forget what was advised and nothing came of."""
        _rows.delete(connection, _tuning.c.state == ADVISED)


def _values(row: TuningRow) -> dict[str, Any]:
    return {
        "time": row.time,
        "action": row.action,
        "subject": row.subject,
        "state": row.state,
        "details": json.dumps(dict(row.details)),
    }


def _row(row: Sequence[Any]) -> TuningRow:
    values = _rows.named(row)
    return TuningRow(**{**values, "details": json.loads(values["details"])})
