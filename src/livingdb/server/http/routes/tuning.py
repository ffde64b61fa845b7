"""Advice: what would make the observed work cost less, done and undone."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Path
from pydantic import Field

from livingdb.server.http.context import Asking, Db, Server
from livingdb.server.http.models import Answer, Asked
from livingdb.server.http.routes.jobs import JobInfo, start_job
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.maintenance.tuning.advice import Advice

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["tuning"])


class AdviceInfo(Answer):
    """An advice, and what became of it."""

    number: int
    time: datetime
    kind: str
    action: str
    reason: str
    state: str
    noticed_by: str
    outcome: str
    predicted_seconds: float = Field(description="That the observed work takes less.")
    measured_seconds: float | None
    price_seconds: float
    price_bytes: int


class AdviceList(Answer):
    """Advice, the newest first."""

    mode: str = Field(description="Whether the database observes, applies, or does neither.")
    advice: list[AdviceInfo]


class Trial(Asked):
    """How long to look for advice, and whether to do the best."""

    apply: bool = False
    seconds: float = Field(10.0, gt=0, le=600)


class AdviceAction(Asked):
    """What to do with an advice."""

    action: Literal["apply", "undo"]


def _info(advice: Advice) -> AdviceInfo:
    return AdviceInfo(
        number=advice.number,
        time=advice.time,
        kind=advice.kind,
        action=advice.action,
        reason=advice.reason,
        state=advice.state,
        noticed_by=advice.noticed_by,
        outcome=advice.outcome,
        predicted_seconds=float(advice.predicted),
        measured_seconds=None if advice.measured is None else float(advice.measured),
        price_seconds=advice.price.seconds,
        price_bytes=advice.price.bytes,
    )


@router.get("/advice", operation_id="list_advice", summary="Advice")
def list_advice(db: Db) -> AdviceList:
    """What was advised so far, and what became of it."""
    found = [_info(one) for one in db.advices()]
    return AdviceList(mode=db.tuning, advice=found[::-1])


@router.post("/tune", operation_id="tune", summary="Look for advice", status_code=202)
def tune(body: Trial, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Try what would make the observed work cost less, as a job."""

    def work(say: object) -> dict[str, object]:
        found = db.tune(apply=body.apply, seconds=body.seconds)
        return {"advice": [_info(one).model_dump(mode="json") for one in found]}

    return start_job(server, asking, "tune", work)


@router.post("/advice/{number}", operation_id="act_on_advice", summary="Do or undo an advice")
def act_on_advice(
    number: Annotated[int, Path(ge=1, le=2**62)], body: AdviceAction, db: Db
) -> AdviceInfo:
    """Do what an advice says, or let everything be as it was before."""
    found = db.advice(number)
    return _info(found.apply() if body.action == "apply" else found.undo())
