"""What a database offers for alerts: the list, where they go, and what else raises them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection

from livingdb.access.roles import Role
from livingdb.catalog.alerts import WatchRow
from livingdb.database.alert import Alert, every_alert
from livingdb.errors import InvalidData, InvalidName, LivingDBError, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.alerts.dispatcher import Dispatcher
    from livingdb.alerts.outbox import Delivery
    from livingdb.alerts.sinks import Sink
    from livingdb.alerts.watch import WatchTarget
    from livingdb.database.database import Database
    from livingdb.graph.draft import Action

__all__ = ["Alerting"]

_log = logging.getLogger("livingdb")


class Alerting(ABC):
    """The part of a database that tells people."""

    @property
    @abstractmethod
    def _dispatcher(self) -> Dispatcher:
        """What sends alerts from this process."""

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    @abstractmethod
    def _require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless who acts here has a role on the database itself."""

    @abstractmethod
    def _note_in(self, connection: Connection, action: str, subject: object = "") -> None:
        """The same, in the transaction that does it."""

    @abstractmethod
    def _note(self, action: str, subject: object = "") -> Action:
        """What a transaction does to write down, with what it does, that a user did that."""

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
        from livingdb.alerts.sinks import sinks_to_json

        values = sinks_to_json(sinks)
        self._require_everywhere(Role.MAINTAINER, "say where alerts go")
        with self._graph.catalog.write() as connection:
            self._graph.catalog.watches.set_sinks(connection, values)
            self._note_in(connection, "set alert sinks")

    def deliver_alerts(self, wait_seconds: float | None = None) -> list[Delivery]:
        """Send what is due now and wait for it, but not for longer; what was done meanwhile."""
        self._require_everywhere(Role.MAINTAINER, "send alerts")
        self._graph  # noqa: B018 - says so if it is closed
        return self._dispatcher.deliver(wait_seconds)

    def watch(
        self, name: str, what: object, alerts: object = (), severity: str = "warning"
    ) -> Watch:
        """Raise alerts when something happens; see `livingdb.alert.on_schema_change` and so on."""
        self._require_everywhere(Role.MAINTAINER, "watch the database")
        return add_watch(self._graph, name, what, alerts, severity, self._note("watch", name))

    def watches(self) -> list[Watch]:
        """Every watch, by name."""
        return every_watch(self._graph)

    def unwatch(self, name: str) -> None:
        """Forget a watch; its alerts stay."""
        self._require_everywhere(Role.MAINTAINER, "watch the database")
        drop_watch(self._graph, name, self._note("unwatch", name))

    def check_watches(self) -> list[Alert]:
        """Look at lag, failures and growth now, as the runner does; the alerts that it raised."""
        self._require_everywhere(Role.MAINTAINER, "look at watches")
        graph = self._graph
        from livingdb.commit.check_watches import check_watches

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


class Watch:
    """Something that raises alerts besides the syncs."""

    def __init__(self, row: WatchRow):
        self._row = row

    @property
    def name(self) -> str:
        """What it is called."""
        return self._row.name

    @property
    def event(self) -> str:
        """What it raises alerts for, in a word."""
        return str(self._row.spec["on"].get("event"))

    @property
    def what(self) -> WatchTarget:
        """What it looks for."""
        from livingdb.alerts.watch import WatchTarget

        return WatchTarget.from_json(self._row.spec["on"])

    @property
    def severity(self) -> str:
        """How bad that is."""
        return str(self._row.spec["severity"])

    @property
    def alerts(self) -> list[Sink]:
        """Who is told, besides those who are told everything."""
        return readable_sinks(self._row.spec["alerts"])

    @property
    def time(self) -> datetime:
        """When it was made, in UTC."""
        return to_datetime(self._row.time)

    @property
    def state(self) -> dict[str, Any]:
        """What it remembers: `over` is whether its line is crossed."""
        return dict(self._row.state)

    def __repr__(self) -> str:
        try:
            return f"<Watch {self.name}: {self.what}>"
        except InvalidData:
            return f"<Watch {self.name}: {self.event}>"


def readable_sinks(sinks: Sequence[dict[str, Any]]) -> list[Sink]:
    """Stored sinks, without those of kinds that are not known here."""
    from livingdb.alerts.sinks import from_json

    found = []
    for values in sinks:
        try:
            found.append(from_json(values))
        except InvalidData:
            continue
    return found


def add_watch(
    graph: Graph, name: str, what: object, alerts: object, severity: str, noted: Action
) -> Watch:
    """A new watch, from the next commit on; `AlreadyExists` if the name is taken."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidName(f"{name!r} is no name for a watch")
    from livingdb.alerts.sinks import check_severity, sinks_to_json
    from livingdb.alerts.watch import WatchTarget

    if not isinstance(what, WatchTarget):
        raise InvalidData(
            f"{what!r} cannot be watched; say livingdb.alert.on_schema_change(), on_merge(), "
            "on_lag(), on_failures() or on_growth()"
        )
    spec = {
        "on": what.to_json(),
        "severity": check_severity(severity),
        "alerts": sinks_to_json(alerts),
    }
    from livingdb.commit.check_watches import initial_state

    state = initial_state(graph, what)
    row = WatchRow(name, spec, now(), state)
    with graph.catalog.write() as connection:
        graph.catalog.watches.add(connection, row)
        noted(connection)
        graph.catalog.raise_epoch(connection)
    return Watch(row)


def drop_watch(graph: Graph, name: str, noted: Action) -> None:
    """Forget a watch; `NotFound` if there is none."""
    with graph.catalog.write() as connection:
        if not graph.catalog.watches.drop(connection, name):
            raise NotFound(f"there is no watch {name!r}")
        noted(connection)
        graph.catalog.raise_epoch(connection)


def every_watch(graph: Graph) -> list[Watch]:
    """Every watch, by name."""
    return [Watch(row) for row in graph.catalog.watches.all()]
