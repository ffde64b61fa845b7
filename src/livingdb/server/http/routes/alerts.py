"""Alerts: what somebody should look at."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from livingdb.alert import (
    on_failures,
    on_growth,
    on_lag,
    on_merge,
    on_schema_change,
    parse,
)
from livingdb.database.offered import may_settle
from livingdb.errors import NotFound
from livingdb.server.http.context import Db
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import Answer, Asked, Done
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.alerts.watch import WatchTarget
    from livingdb.database.alert import Alert
    from livingdb.database.alerting import Watch

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["alerts"])


class AlertInfo(Answer):
    """An event that somebody should look at."""

    number: int
    time: datetime
    sync: str
    event: str
    severity: str
    state: str
    message: str
    details: dict[str, Any]
    deliveries: list[dict[str, Any]]
    may_settle: bool = Field(
        description="Whether who asks has the right to acknowledge and resolve it."
    )


class AlertList(Answer):
    """Alerts, newest first."""

    alerts: list[AlertInfo]


class AlertAction(Asked):
    """What becomes of an alert."""

    action: Literal["acknowledge", "resolve"]
    note: str = ""


class OnSchemaChange(Asked):
    """A table is made, dropped or has another schema."""

    event: Literal["schema_change"]
    table: str | None = Field(None, description="Any, if it is left out.")
    branch: str | None = Field(None, description="Any, if it is left out.")

    def target(self) -> WatchTarget:
        """The same, as `Database.watch` takes it."""
        return on_schema_change(self.table, self.branch)


class OnMerge(Asked):
    """Something is merged into a branch."""

    event: Literal["merge"]
    into: str | None = Field(None, description="Any branch, if it is left out.")

    def target(self) -> WatchTarget:
        """The same, as `Database.watch` takes it."""
        return on_merge(self.into)


class OnLag(Asked):
    """A derived object is behind what it reads for so long."""

    event: Literal["lag"]
    sync: str = Field(examples=["totals"])
    limit: str | float = Field(description="A time, or seconds.", examples=["10 minutes"])

    def target(self) -> WatchTarget:
        """The same, as `Database.watch` takes it."""
        return on_lag(self.sync, self.limit)


class OnFailures(Asked):
    """A sync failed so many times in a row."""

    event: Literal["failures"]
    sync: str = Field(examples=["totals"])
    times: int = Field(3, ge=1, le=100)

    def target(self) -> WatchTarget:
        """The same, as `Database.watch` takes it."""
        return on_failures(self.sync, self.times)


class OnGrowth(Asked):
    """The database grew by so much within a time."""

    event: Literal["growth"]
    limit: int | float | str = Field(
        description="Bytes, a share as a number with a point, or a text.", examples=["500 MB"]
    )
    per: str | float = Field("1 day", description="A time, or seconds.")

    def target(self) -> WatchTarget:
        """The same, as `Database.watch` takes it."""
        return on_growth(self.limit, self.per)


class NewWatch(Asked):
    """A watch that is to be made."""

    name: str
    on: OnSchemaChange | OnMerge | OnLag | OnFailures | OnGrowth = Field(discriminator="event")
    severity: Literal["info", "warning", "error", "critical"] = "warning"
    alerts: list[str] = Field([], description="Who is told.", examples=[["webhook:https://…"]])

    def sinks(self) -> list[Any]:
        """Who is told, as `Database.watch` takes it."""
        return [parse(text) for text in self.alerts]


class WatchInfo(Answer):
    """Something that raises alerts besides the syncs."""

    name: str
    event: str
    severity: str
    time: datetime


class WatchList(Answer):
    """Watches by name."""

    watches: list[WatchInfo]


def alert_info(alert: Alert) -> AlertInfo:
    """What is told of an alert."""
    return AlertInfo(
        number=alert.id,
        time=alert.time,
        sync=alert.sync,
        event=alert.event,
        severity=alert.severity,
        state=alert.state,
        message=alert.message,
        details=plain_value(alert.details),
        deliveries=plain_value(alert.deliveries),
        may_settle=may_settle(alert),
    )


@router.get("/alerts", operation_id="list_alerts", summary="Alerts")
def list_alerts(
    db: Db,
    state: Literal["open", "acknowledged", "resolved"] | None = None,
    severity: Annotated[
        Literal["info", "warning", "error", "critical"] | None,
        Query(description="At least so bad."),
    ] = None,
    sync: Annotated[str | None, Query(description="About one sync.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> AlertList:
    """Alerts, newest first."""
    found = db.alerts(state, severity, sync)[:limit]
    return AlertList(alerts=[alert_info(one) for one in found])


@router.post("/alerts/{number}", operation_id="act_on_alert", summary="Look at an alert")
def act_on_alert(
    number: Annotated[int, Path(ge=1, le=2**62)], body: AlertAction, db: Db
) -> AlertInfo:
    """Say that somebody looks at an alert, or that it is settled."""
    found = next((one for one in db.alerts() if one.id == number), None)
    if found is None:
        raise NotFound(f"there is no alert {number}")
    if body.action == "acknowledge":
        found.acknowledge(note=body.note)
    else:
        found.resolve(note=body.note)
    return alert_info(found)


def _watch_info(watch: Watch) -> WatchInfo:
    return WatchInfo(name=watch.name, event=watch.event, severity=watch.severity, time=watch.time)


@router.get("/watches", operation_id="list_watches", summary="Watches")
def list_watches(db: Db) -> WatchList:
    """What raises alerts besides the syncs."""
    return WatchList(watches=[_watch_info(one) for one in db.watches()])


@router.post("/watches", operation_id="add_watch", summary="Make a watch", status_code=201)
def add_watch(body: NewWatch, db: Db) -> WatchInfo:
    """Raise alerts from now on when something happens; a maintainer of everything may."""
    return _watch_info(db.watch(body.name, body.on.target(), body.sinks(), body.severity))


@router.delete("/watches", operation_id="drop_watch", summary="Forget a watch")
def drop_watch(name: Annotated[str, Query(description="The watch.")], db: Db) -> Done:
    """Forget a watch; its alerts stay."""
    db.unwatch(name)
    return Done()


@router.post("/watches/check", operation_id="check_watches", summary="Look at watches now")
def check_watches(db: Db) -> AlertList:
    """Look at lag, failures and growth now, as the runner does; the alerts that this raised."""
    return AlertList(alerts=[alert_info(one) for one in db.check_watches()])
