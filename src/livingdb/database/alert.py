"""An alert as users see it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from livingdb.catalog.alerts import ACKNOWLEDGED, RESOLVED, AlertRow
from livingdb.database.snapshot import moment
from livingdb.graph.graph import now

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Alert"]


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
        """The name of the sync it is about."""
        return self._row.sync

    @property
    def event(self) -> str:
        """What happened, in a word."""
        return self._row.event

    @property
    def severity(self) -> str:
        """How bad it is: info, warning or error."""
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
        return moment(self._row.time)

    @property
    def details(self) -> dict[str, Any]:
        """More about it."""
        return dict(self._row.details)

    def acknowledge(self, by: str | None = None, note: str = "") -> None:
        """Somebody looks at it."""
        self._set(ACKNOWLEDGED, by, note)

    def resolve(self, by: str | None = None, note: str = "") -> None:
        """It is settled."""
        self._set(RESOLVED, by, note)

    def _set(self, state: str, by: str | None, note: str) -> None:
        graph = self._database._graph
        who = by or self._database.author
        details = {**self._row.details, state: {"by": who, "note": note, "time": now()}}
        with graph.catalog.write() as connection:
            graph.catalog.alerts.set_state(connection, self._row.id, state, details)
        self._row = AlertRow(**{**vars(self._row), "state": state, "details": details})

    def __repr__(self) -> str:
        return f"<Alert {self.id} {self.state} {self.event} of {self.sync}: {self.message}>"
