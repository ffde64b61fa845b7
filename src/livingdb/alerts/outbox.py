"""Rows of the outbox as those see them who send and who receive."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from livingdb.alerts.sinks import Sink, from_json
from livingdb.catalog.outbox import OutboxRow
from livingdb.errors import Corruption, InvalidData
from livingdb.graph.graph import Graph

__all__ = ["Delivery", "back_off_seconds", "label_of", "message_of", "sink_of"]

_FIRST_SECONDS, _FACTOR, _LONGEST_SECONDS = 2.0, 3.0, 3600.0


@dataclass(frozen=True)
class Delivery:
    """What became of an attempt to send an alert: "sent", "waiting" for another, or "failed"."""

    alert: int
    sink: str
    state: str
    attempts: int
    error: str = ""


def back_off_seconds(attempts: int, chance: float) -> float:
    """How long to wait after so many attempts, spread by a chance from 0 to 1."""
    exponent = min(attempts - 1, 20)
    plain: float = min(_FIRST_SECONDS * _FACTOR**exponent, _LONGEST_SECONDS)
    return plain * (0.5 + chance)


def message_of(graph: Graph, row: OutboxRow) -> dict[str, Any]:
    """What a sink gets: the alert, and a key that is the same however often it is sent."""
    alert = graph.catalog.alerts.by_id(row.alert)
    if alert is None:
        raise Corruption(f"the outbox names the alert {row.alert}, which is not there")
    database = graph.catalog.meta("database")
    return {
        "id": alert.id,
        "key": f"{database}-{alert.id}-{row.id}",
        "time": datetime.fromtimestamp(alert.time / 1e6, UTC).isoformat(),
        "database": graph.place.name,
        "sync": alert.sync,
        "event": alert.event,
        "severity": alert.severity,
        "message": alert.message,
        "details": _as_json_value(dict(alert.details)),
        "fingerprint": alert.fingerprint,
        "attempt": row.attempts,
    }


def _as_json_value(value: Any) -> Any:
    """The value as JSON can say it: numbers that are none are texts."""
    if isinstance(value, dict):
        return {key: _as_json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json_value(item) for item in value]
    return value if not isinstance(value, float) or isfinite(value) else str(value)


def label_of(text: str) -> str:
    """What a sink of the outbox is called, without secrets."""
    try:
        return sink_of(text).label
    except InvalidData:
        return "unknown"


def sink_of(text: str) -> Sink:
    """The sink of a row; `InvalidData` if it is of a kind that is not known here."""
    return from_json(json.loads(text))
