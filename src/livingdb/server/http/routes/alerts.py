"""Alerts: what somebody should look at."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from livingdb.errors import NotFound
from livingdb.server.http.context import Db
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import Answer, Asked

if TYPE_CHECKING:
    from livingdb.database.alert import Alert

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["alerts"])


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


class AlertList(Answer):
    """Alerts, newest first."""

    alerts: list[AlertInfo]


class AlertAction(Asked):
    """What becomes of an alert."""

    action: Literal["acknowledge", "resolve"]
    note: str = ""


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


@router.get("/watches", operation_id="list_watches", summary="Watches")
def list_watches(db: Db) -> WatchList:
    """What raises alerts besides the syncs."""
    return WatchList(
        watches=[
            WatchInfo(name=one.name, event=one.event, severity=one.severity, time=one.time)
            for one in db.watches()
        ]
    )
