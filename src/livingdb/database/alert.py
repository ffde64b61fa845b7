"""An alert as users see it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from livingdb.access.roles import EVERYTHING, Role
from livingdb.catalog.alerts import ACKNOWLEDGED, RESOLVED, SEVERITIES, STATES, AlertRow
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Alert", "every_alert"]

_SETTLED = {ACKNOWLEDGED: "acknowledge", RESOLVED: "resolve"}


def every_alert(
    database: Database, state: str | None, severity: str | None, sync: str | None
) -> list[Alert]:
    """Alerts, newest first: in a state, at least so bad, and about a sync, if these are given."""
    if state is not None and state not in STATES:
        raise InvalidData(f"state={state!r}: choose one of {', '.join(STATES)}")
    severities = None
    if severity is not None:
        if severity not in SEVERITIES:
            raise InvalidData(f"severity={severity!r}: choose one of {', '.join(SEVERITIES)}")
        severities = SEVERITIES[SEVERITIES.index(severity) :]
    graph = database._graph
    if sync is not None:
        with suppress(NotFound):  # it may be gone, or a watch
            sync = database.sync(sync).name
    return [Alert(database, row) for row in graph.catalog.alerts.all(state, severities, sync)]


class Alert:
    """An event that somebody should look at."""

    def __init__(self, database: Database, row: AlertRow):
        self._database = database
        self._row = row

    @property
    def id(self) -> int:
        """Its number."""
        return self._row.id

    @property
    def sync(self) -> str:
        """The name of the sync it is about, or of the watch that raised it."""
        return self._row.sync

    @property
    def event(self) -> str:
        """What happened, in a word."""
        return self._row.event

    @property
    def severity(self) -> str:
        """How bad it is: info, warning, error or critical."""
        return self._row.severity

    @property
    def message(self) -> str:
        """What happened, in words."""
        return self._row.message

    @property
    def state(self) -> str:
        """open, acknowledged or resolved."""
        return self._row.state

    @property
    def time(self) -> datetime:
        """When it happened, in UTC."""
        return to_datetime(self._row.time)

    @property
    def details(self) -> dict[str, Any]:
        """More about it; `repeats` is the number of the alert that told the same first."""
        return dict(self._row.details)

    @property
    def fingerprint(self) -> str:
        """What it has in common with alerts that tell the same."""
        return self._row.fingerprint

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        """Where it was to be sent: the sink, the state, the attempts and the last error."""
        from livingdb.alerts.outbox import label_of

        return [
            {
                "sink": label_of(row.sink),
                "state": row.state,
                "attempts": row.attempts,
                "error": row.error,
            }
            for row in self._database._graph.catalog.outbox.of(self.id)
        ]

    def acknowledge(self, by: str | None = None, note: str = "") -> None:
        """Somebody looks at it."""
        self._set_state(ACKNOWLEDGED, by, note)

    def resolve(self, by: str | None = None, note: str = "") -> None:
        """It is settled."""
        self._set_state(RESOLVED, by, note)

    def _set_state(self, state: str, by: str | None, note: str) -> None:
        graph = self._database._graph
        who = self._database._author_of(by)
        self._check_settler()
        with graph.catalog.write() as connection:
            row = graph.catalog.alerts.by_id(self._row.id, connection) or self._row
            details = {**row.details, state: {"by": who, "note": note, "time": now()}}
            graph.catalog.alerts.set_state(connection, row.id, state, details)
            self._database._note_in(connection, f"{_SETTLED[state]} alert", self.id)
        self._row = AlertRow(**{**vars(self._row), "state": state, "details": details})

    def _check_settler(self) -> None:
        """`Forbidden` unless who acts here maintains all that the alert is about."""
        for branch in _branches_of(self._database._graph, self._row.sync):
            self._database._require_name(Role.MAINTAINER, branch, f"settle alert {self.id}")

    def __repr__(self) -> str:
        return f"<Alert {self.id} {self.state} {self.event} of {self.sync}: {self.message}>"


def _branches_of(graph: Graph, about: str) -> list[str]:
    """The branches that an alert is about: those that its sync writes; else the whole database."""
    known = graph.sync_chains()
    chains = [chain for chain in known.every if known.title(chain) == about]
    chains += [chain for chain in known.every if any(row.name == about for row in chain)]
    for chain in chains:
        ends = {chain[-1].target} if chain[0].direction == "forward" else {*chain[0].sources}
        return sorted(known.names.get(end, EVERYTHING) for end in ends)
    return [about if graph.branches.find(about) is not None else EVERYTHING]
