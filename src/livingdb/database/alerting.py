"""What a database offers for alerts: the list, where they go, and what else raises them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from livingdb.alerts.dispatcher import Dispatcher
from livingdb.alerts.outbox import Delivery
from livingdb.alerts.sinks import sinks_to_json
from livingdb.database.alert import Alert, every_alert
from livingdb.database.watch import Watch, add_watch, drop_watch, every_watch, readable_sinks
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph

if TYPE_CHECKING:
    from livingdb.alerts.sinks import Sink
    from livingdb.database.database import Database

__all__ = ["Alerting"]

_log = logging.getLogger("livingdb")


class Alerting(ABC):
    """The part of a database that tells people."""

    _dispatcher: Dispatcher

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    def alerts(
        self, state: str | None = None, severity: str | None = None, sync: str | None = None
    ) -> list[Alert]:
        """What somebody should look at, newest first.

        `state`: open, acknowledged or resolved; `severity`: at least so bad; `sync`: about that.
        """
        return every_alert(cast("Database", self), state, severity, sync)

    def alert_sinks(self) -> list[Sink]:
        """Where every alert of the database goes, besides the sinks of its sync or watch."""
        return readable_sinks(self._graph.catalog.watches.sinks())

    def set_alert_sinks(self, sinks: list[Sink]) -> None:
        """Let every alert from now on go to these, if they want it; an empty list: to none."""
        values = sinks_to_json(sinks)
        with self._graph.catalog.write() as connection:
            self._graph.catalog.watches.set_sinks(connection, values)

    def deliver_alerts(self, wait_seconds: float | None = None) -> list[Delivery]:
        """Send what is due now and wait for it, but not for longer; what was done meanwhile."""
        self._graph  # noqa: B018 - says so if it is closed
        return self._dispatcher.deliver(wait_seconds)

    def watch(
        self, name: str, what: object, alerts: object = (), severity: str = "warning"
    ) -> Watch:
        """Raise alerts when something happens; see `livingdb.alert.on_schema_change` and so on."""
        return add_watch(self._graph, name, what, alerts, severity)

    def watches(self) -> list[Watch]:
        """Every watch, by name."""
        return every_watch(self._graph)

    def unwatch(self, name: str) -> None:
        """Forget a watch; its alerts stay."""
        drop_watch(self._graph, name)

    def check_watches(self) -> list[Alert]:
        """Look at lag, failures and growth now, as the runner does; the alerts that it raised."""
        graph = self._graph
        from livingdb.commit.watch_rounds import check_watches

        numbers = check_watches(graph)
        rows = [graph.catalog.alerts.by_id(number) for number in numbers]
        return [Alert(cast("Database", self), row) for row in rows if row is not None]

    def _end_round(self) -> None:
        """What the runner does after the syncs."""
        try:
            if self._graph.catalog.watches.all():
                self.check_watches()
            self._dispatcher.wake_if_needed()
        except LivingDBError as error:
            _log.warning("watches and alerts wait for the next round: %s", error)
