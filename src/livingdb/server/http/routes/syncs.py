"""Syncs: what keeps branches in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from livingdb.server.http.context import Db
from livingdb.server.http.guards import Guards
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import Answer, Asked, OnConflict
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.database.sync import Sync

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["syncs"])


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
    conditions: list[dict[str, str]]


class SyncList(Answer):
    """Every sync."""

    syncs: list[SyncInfo]


class SyncDetails(SyncInfo):
    """A sync, what it does, and what became of it."""

    explanation: str
    definition: str = Field(description="The query, the function or the masks that make it.")
    trail: list[dict[str, Any]]
    runs: list[dict[str, Any]]


class AlteredSync(Guards):
    """What becomes different about a sync; an empty list takes all away."""

    name: str = Field(examples=["main/totals"])
    when: str | None = None
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
        "conditions": sync.condition_texts,
    }


@router.get("/syncs", operation_id="list_syncs", summary="Syncs")
def list_syncs(db: Db) -> SyncList:
    """Every sync: where it leads, when, and how far it is behind."""
    return SyncList(syncs=[sync_info(one) for one in db.syncs()])


@router.get("/sync", operation_id="get_sync", summary="One sync")
def get_sync(db: Db, name: Annotated[str, Query(examples=["main/totals"])]) -> SyncDetails:
    """What a sync does, and what became of it."""
    found = db.sync(name)
    return SyncDetails(
        **_facts(found),
        explanation=found.explain(),
        definition=found.definition,
        trail=plain_value(found.trail),
        runs=plain_value(found.runs),
    )


@router.patch("/sync", operation_id="alter_sync", summary="Change a sync")
def alter_sync(body: AlteredSync, db: Db) -> SyncInfo:
    """Change when a sync runs, its conditions or where its alerts go."""
    found = db.sync(body.name)
    found.alter(when=body.when, on_break=body.on_break, **body.guards())
    return sync_info(found)


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
