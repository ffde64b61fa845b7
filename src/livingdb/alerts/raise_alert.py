"""Raising alerts: a row for the event, and one in the outbox for every sink that wants it.

Both are in the transaction of what they tell of.  Nothing is sent from here.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.sinks import Sink, check_severity, from_json
from livingdb.catalog.alerts import RESOLVED
from livingdb.catalog.syncs import SyncRow
from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph, now

__all__ = ["fingerprint_of", "printable", "raise_alert", "rename_alerts", "resolve_alerts"]

_log = logging.getLogger("livingdb")


def raise_alert(
    graph: Graph,
    connection: Connection,
    about: SyncRow | str,
    event: str,
    severity: str,
    message: str,
    time: int,
    details: Mapping[str, Any] | None = None,
    fingerprint: str | None = None,
    sinks: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Add an alert about a sync, or what else has a name, in the caller's transaction; its number.

    An alert with the fingerprint of one that nobody resolved says which one it repeats.  It goes
    to the sync's own sinks, those given and those of the whole database, if they want it and it
    is not within their cool-down.
    """
    check_severity(severity)
    own = [] if isinstance(about, str) else about.guard.get("alerts", [])
    name = about if isinstance(about, str) else about.name
    known = dict(details or {})
    if fingerprint is None:
        fingerprint = fingerprint_of(name, event, str(known.get("condition", "")))
    catalog = graph.catalog
    first = catalog.alerts.first_unresolved(connection, fingerprint)
    if first is not None:
        known["repeats"] = first
    everywhere = catalog.watches.sinks(connection)
    wanted = []
    for text, sink in _sinks_by_text([*own, *sinks, *everywhere]).items():
        if not sink.wants(event, severity):
            continue
        if first is None or _has_cooled(graph, connection, fingerprint, text, sink, time):
            wanted.append(text)
    words = printable(message)
    number = catalog.alerts.add(connection, time, name, event, severity, words, known, fingerprint)
    if wanted:
        catalog.outbox.add(connection, number, wanted, time)
        if graph.on_alert is not None:
            graph.on_alert()
    return number


def resolve_alerts(
    graph: Graph, connection: Connection, sync: SyncRow | str, by: str, note: str = ""
) -> int:
    """Resolve the alerts about a sync, as when it is active again; how many there were."""
    name = sync if isinstance(sync, str) else sync.name
    rows = graph.catalog.alerts.unresolved_alerts(connection, name)
    for row in rows:
        details = {**row.details, RESOLVED: {"by": by, "note": note, "time": now()}}
        graph.catalog.alerts.set_state(connection, row.id, RESOLVED, details)
    return len(rows)


def rename_alerts(graph: Graph, connection: Connection, before: str, after: str) -> None:
    """Let the alerts about a sync be about it under its new name, also those to come again."""
    alerts = graph.catalog.alerts
    for row in alerts.unresolved_alerts(connection, before):
        about = row.event, str(row.details.get("condition", ""))
        if row.fingerprint == fingerprint_of(before, *about):
            alerts.set_fingerprint(connection, row.id, fingerprint_of(after, *about))
    alerts.rename_sync(connection, before, after)


def printable(text: str) -> str:
    """The text without what some catalogs cannot hold: zero bytes and halves of characters."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def fingerprint_of(*parts: str) -> str:
    """What alerts have in common that tell of the same thing."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _sinks_by_text(stored: Sequence[Mapping[str, Any]]) -> dict[str, Sink]:
    """Sinks by the text that the outbox knows them by, each once."""
    found: dict[str, Sink] = {}
    for values in stored:
        text = json.dumps(dict(values), sort_keys=True)
        try:
            found.setdefault(text, from_json(values))
        except InvalidData as error:
            # A newer LivingDB may know it; what the alert tells of must not fail for it.
            _log.warning("an alert is not sent to a sink: %s", error)
    return found


def _has_cooled(
    graph: Graph, connection: Connection, fingerprint: str, text: str, sink: Sink, time: int
) -> bool:
    """Whether enough time has passed since a sink got the same thing."""
    if sink.cool_down_seconds == 0:
        return True
    last = graph.catalog.outbox.last_time(connection, fingerprint, text)
    return last is None or time - last >= sink.cool_down_seconds * 1e6
