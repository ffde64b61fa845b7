"""A watch as users see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from livingdb.alerts.sinks import check_severity, from_json, sinks_to_json
from livingdb.alerts.watch import WatchTarget
from livingdb.catalog.watches import WatchRow
from livingdb.errors import InvalidData, InvalidName, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.alerts.sinks import Sink

__all__ = ["Watch", "add_watch", "drop_watch", "every_watch", "readable_sinks"]


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
    found = []
    for values in sinks:
        try:
            found.append(from_json(values))
        except InvalidData:
            continue
    return found


def add_watch(graph: Graph, name: str, what: object, alerts: object, severity: str) -> Watch:
    """A new watch, from the next commit on; `AlreadyExists` if the name is taken."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidName(f"{name!r} is no name for a watch")
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
    from livingdb.commit.watch_rounds import initial_state

    state = initial_state(graph, what)
    row = WatchRow(name, spec, now(), state)
    with graph.catalog.write() as connection:
        graph.catalog.watches.add(connection, row)
        graph.catalog.raise_epoch(connection)
    return Watch(row)


def drop_watch(graph: Graph, name: str) -> None:
    """Forget a watch; `NotFound` if there is none."""
    with graph.catalog.write() as connection:
        if not graph.catalog.watches.drop(connection, name):
            raise NotFound(f"there is no watch {name!r}")
        graph.catalog.raise_epoch(connection)


def every_watch(graph: Graph) -> list[Watch]:
    """Every watch, by name."""
    return [Watch(row) for row in graph.catalog.watches.all()]
