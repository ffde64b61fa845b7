"""Syncs: what keeps branches in step."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from livingdb.database.offered import SyncDeed, sync_deeds
from livingdb.errors import IllegalSync, InvalidData
from livingdb.server.http.context import Db
from livingdb.server.http.guards import (
    Condition,
    KeptSink,
    NewSink,
    Severity,
    changed_conditions,
    changed_sinks,
    wrong_at,
)
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import Answer, Asked, OnConflict
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.database.sync import Sync

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["syncs"])


class ConditionInfo(Answer):
    """What has to hold of a change before it is carried."""

    text: str = Field(examples=["max_changed_share(0.2)"])
    action: str
    severity: str | None = Field(description="Of its alerts; null: as the action is bad.")


class SinkInfo(Answer):
    """Where alerts go, without what may be a secret: addresses, and the values of headers."""

    number: int
    label: str = Field(examples=["webhook https://example.org/…"])
    severity: Severity = Field(description="Only alerts that are at least so bad.")


class SyncInfo(Answer):
    """A standing relation between branches."""

    name: str = Field(examples=["main/totals"])
    kind: str
    makes: str = Field(description="view, function, model, clone or version (of a schema)")
    sources: list[str]
    target: str
    direction: str
    when: str
    state: str = Field(description="active, held, detached or error")
    reason: str
    lag: int | None = Field(description="Snapshots that the target has not seen.")
    lag_seconds: float | None
    conditions: list[ConditionInfo]
    may: list[SyncDeed] = Field(description="What who asks has the right to do about it.")


class SyncList(Answer):
    """Every sync."""

    syncs: list[SyncInfo]


class SyncDetails(SyncInfo):
    """A sync, what it does, and what became of it."""

    explanation: str
    definition: str = Field(description="The query, the function or the masks that make it.")
    alerts: list[SinkInfo] | None = Field(
        description="Where its alerts go; null if one is of a kind that is not known here."
    )
    on_break: Literal["detach", "move"] | None = Field(
        description="What becomes of a view that cannot follow a schema change; null of others."
    )
    trail: list[dict[str, Any]]
    runs: list[dict[str, Any]]


class AlteredSync(Asked):
    """What becomes different about a sync; an empty list takes all away.

    What is not said stays as it is, and so does a condition that is said as it is told.
    """

    name: str = Field(examples=["main/totals"])
    when: str | None = None
    conditions: list[Condition] | None = None
    alerts: list[str | NewSink | KeptSink] | None = Field(
        None, description="Where alerts go.", examples=[["webhook:https://…"]]
    )
    on_break: Literal["detach", "move"] | None = None


class SyncAction(Asked):
    """What is to become of a sync."""

    name: str = Field(examples=["main/totals"])
    action: Literal["detach", "reattach", "resume", "approve"]
    reason: str = ""
    on_conflict: OnConflict = Field("fail", description="For reattach.")


def sync_info(sync: Sync) -> SyncInfo:
    """What a list tells of a sync."""
    return SyncInfo(**_facts(sync))


def _facts(sync: Sync) -> dict[str, Any]:
    lag = sync.lag
    return {
        "name": sync.name,
        "kind": sync.kind,
        "makes": sync.makes,
        "sources": sync.sources,
        "target": sync.target,
        "direction": sync.direction,
        "when": sync.when,
        "state": sync.state,
        "reason": sync.reason or ("" if lag is None else lag.reason),
        "lag": None if lag is None else int(lag),
        "lag_seconds": None if lag is None else lag.seconds,
        "conditions": _conditions(sync),
        "may": sync_deeds(sync),
    }


def _conditions(sync: Sync) -> list[ConditionInfo]:
    return [
        ConditionInfo(**told, severity=one.severity)
        for told, one in zip(sync.condition_texts, sync.conditions, strict=True)
    ]


def _sinks(sync: Sync) -> list[SinkInfo] | None:
    try:
        known: list[Any] = sync.alerts
    except InvalidData:
        return None
    return [
        SinkInfo(number=at, label=one.label, severity=one.severity) for at, one in enumerate(known)
    ]


@router.get("/syncs", operation_id="list_syncs", summary="Syncs")
def list_syncs(db: Db) -> SyncList:
    """Every sync: where it leads, when, and how far it is behind."""
    return SyncList(syncs=[sync_info(one) for one in db.syncs()])


@router.get("/sync", operation_id="get_sync", summary="One sync")
def get_sync(db: Db, name: Annotated[str, Query(examples=["main/totals"])]) -> SyncDetails:
    """What a sync does, and what became of it."""
    found = db.sync(name)
    on_break: Any = found.on_break
    return SyncDetails(
        **_facts(found),
        explanation=found.explain(),
        definition=found.definition,
        alerts=_sinks(found),
        on_break=on_break,
        trail=plain_value(found.trail),
        runs=plain_value(found.runs),
    )


@router.patch("/sync", operation_id="alter_sync", summary="Change a sync")
def alter_sync(body: AlteredSync, db: Db) -> SyncInfo:
    """Change when a sync runs, its conditions, where its alerts go, or what breaks it.

    What is wrong with one of several is told with its place, as `at` of the details.
    """
    found = db.sync(body.name)
    guards: dict[str, Any] = {}
    said: list[list[Any]] = []
    if body.conditions is not None:
        told = _conditions(found)
        said = changed_conditions(
            body.conditions,
            {
                (one.text, one.action, one.severity): known
                for one, known in zip(told, found.conditions, strict=True)
            },
        )
        guards["conditions"] = list(chain.from_iterable(said))
    if body.alerts is not None:
        guards["alerts"] = changed_sinks(body.alerts, found.alerts)
    try:
        found.alter(when=body.when, on_break=body.on_break, **guards)
    except IllegalSync as error:
        with wrong_at("conditions", _said_at(said, error.condition)):
            raise
    return sync_info(found)


def _said_at(said: list[list[Any]], wrong: int | None) -> int | None:
    """Where in the request a condition was said, by its place among all that were meant."""
    places = [at for at, meant in enumerate(said) for _ in meant]
    return None if wrong is None or wrong >= len(places) else places[wrong]


@router.post("/sync/action", operation_id="act_on_sync", summary="Detach, reattach, resume, …")
def act_on_sync(body: SyncAction, db: Db) -> SyncInfo:
    """Let a sync go, take it up again, or let what it holds pass."""
    found = db.sync(body.name)
    if body.action == "detach":
        found.detach(body.reason)
    elif body.action == "reattach":
        found.reattach(body.on_conflict)
    elif body.action == "resume":
        found.resume()
    else:
        found.approve(note=body.reason)
    return sync_info(found)
