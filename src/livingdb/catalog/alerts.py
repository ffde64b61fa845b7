"""Alerts, a row for each event that somebody should look at; watches, which raise them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists

__all__ = [
    "ACKNOWLEDGED",
    "OPEN",
    "RESOLVED",
    "SEVERITIES",
    "STATES",
    "AlertRow",
    "Alerts",
    "WatchRow",
    "Watches",
]

OPEN, ACKNOWLEDGED, RESOLVED = "open", "acknowledged", "resolved"

STATES = (OPEN, ACKNOWLEDGED, RESOLVED)

SEVERITIES = ("info", "warning", "error", "critical")
"""How bad an event is, the least first."""

_LOCK = 0x4C44_4241

_alert = schema.alert
_rows = SealedRows(_alert)


@dataclass(frozen=True)
class AlertRow:
    """An event: of which sync, what it was, and what became of it.

    Events with the same `fingerprint` are the same thing over again.
    """

    id: int
    time: int
    sync: str
    event: str
    severity: str
    message: str
    state: str
    details: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""


class Alerts:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._verified = 0

    def add(
        self,
        connection: Connection,
        time: int,
        sync: str,
        event: str,
        severity: str,
        message: str,
        details: Mapping[str, Any],
        fingerprint: str = "",
    ) -> int:
        """A new alert, open; its number."""
        values = {
            "time": time,
            "sync": sync,
            "event": event,
            "severity": severity,
            "message": message,
            "state": OPEN,
            "details": json.dumps(dict(details), default=str),
            "fingerprint": fingerprint,
        }
        (number,) = _rows.insert_numbered(connection, [values])
        return number

    def first_unresolved(self, connection: Connection, fingerprint: str) -> int | None:
        """The first alert with the fingerprint that nobody resolved; None if there is none.

        Until the transaction ends nobody else adds one that this did not see.
        """
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        same = _alert.c.fingerprint == fingerprint
        found = connection.execute(_rows.every.where(same).order_by(_alert.c.id)).all()
        unresolved = (row.id for row in map(_row, found) if row.state != RESOLVED)
        return next(unresolved, None)

    def all(
        self,
        state: str | None = None,
        severities: Collection[str] | None = None,
        sync: str | None = None,
    ) -> list[AlertRow]:
        """Every alert, newest first; in one state, of some severities, of one sync, if named."""
        wanted = []
        if state is not None:
            wanted.append(_alert.c.state == state)
        if severities is not None:
            wanted.append(_alert.c.severity.in_(sorted(severities)))
        if sync is not None:
            wanted.append(_alert.c.sync == sync)
        if wanted:
            self._verify()
        found = self._queries.all(_rows.every.where(*wanted).order_by(_alert.c.id.desc()))
        return [_row(row) for row in found]

    def _verify(self) -> None:
        """Look at alerts that are new, so that who asks for some is not misled by damaged ones."""
        new = _rows.read_all(self._queries.all(_rows.every.where(_alert.c.id > self._verified)))
        self._verified = max([self._verified, *(row[0] for row in new)])

    def by_id(self, number: int, connection: Connection | None = None) -> AlertRow | None:
        """The alert with this number; in a transaction, if its connection is given."""
        statement = _rows.every.where(_alert.c.id == number)
        if connection is not None:
            row = connection.execute(statement).first()
        else:
            row = self._queries.first(statement)
        return None if row is None else _row(row)

    def unresolved_alerts(self, connection: Connection, sync: str) -> list[AlertRow]:
        """The alerts about a sync that nobody resolved."""
        statement = _rows.every.where(_alert.c.sync == sync, _alert.c.state != RESOLVED)
        return [_row(row) for row in connection.execute(statement.order_by(_alert.c.id))]

    def set_state(
        self, connection: Connection, number: int, state: str, details: Mapping[str, Any]
    ) -> None:
        """Change what became of an alert, with all that is known of it."""
        values = {"state": state, "details": json.dumps(dict(details))}
        _rows.update(connection, [_alert.c.id == number], values)

    def set_fingerprint(self, connection: Connection, number: int, fingerprint: str) -> None:
        """Change by what an alert is told to be the same thing over again."""
        _rows.update(connection, [_alert.c.id == number], {"fingerprint": fingerprint})

    def rename_sync(self, connection: Connection, before: str, after: str) -> None:
        """Let all alerts about a sync name it as it is called now."""
        _rows.update(connection, [_alert.c.sync == before], {"sync": after})


def _row(row: Sequence[Any]) -> AlertRow:
    values = _rows.named(row)
    return AlertRow(**{**values, "details": json.loads(values["details"])})


_watch, _meta = schema.watch, schema.meta
_watches, _facts = SealedRows(_watch), SealedRows(_meta)

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
        rows = _watches.read_all(self._queries.all(_watches.every.order_by(_watch.c.name)))
        return [
            WatchRow(name, json.loads(spec), time, json.loads(state))
            for name, spec, state, time in rows
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
            _watches.insert(connection, [values])
        except IntegrityError:
            raise AlreadyExists(f"there is a watch {row.name!r} already") from None

    def remember(self, connection: Connection, row: WatchRow, state: Mapping[str, Any]) -> bool:
        """Let a watch remember something else; False if it is not as it was seen."""
        as_seen = _watch.c.name == row.name, _watch.c.state == _text(row.state)
        return len(_watches.update(connection, as_seen, {"state": _text(state)})) == 1

    def set_spec(self, connection: Connection, name: str, spec: Mapping[str, Any]) -> None:
        """Change what a watch looks for."""
        _watches.update(connection, [_watch.c.name == name], {"spec": _text(spec)})

    def drop(self, connection: Connection, name: str) -> bool:
        """Forget a watch; False if there is none."""
        return _watches.delete(connection, _watch.c.name == name) == 1

    def sinks(self, connection: Connection | None = None) -> list[dict[str, Any]]:
        """The sinks of every alert of the database, as plain values."""
        if connection is None:
            row = _facts.find(self._queries, name=_SINKS)
        else:
            found = connection.execute(_facts.every.where(_meta.c.name == _SINKS)).first()
            row = None if found is None else _facts.read(found)
        return [] if row is None else list(json.loads(row[1]))

    def set_sinks(self, connection: Connection, sinks: list[dict[str, Any]]) -> None:
        """Change them."""
        _facts.put(connection, [{"name": _SINKS, "value": json.dumps(sinks)}])


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True)
