"""Merge requests: wishes that others look at before they come true."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from livingdb.server.http.context import Db
from livingdb.server.http.failures import Failure
from livingdb.server.http.guards import Condition, parse_conditions
from livingdb.server.http.models import (
    Answer,
    Asked,
    Granularity,
    SnapshotInfo,
    snapshot_info,
)
from livingdb.server.http.routes.compare import DiffInfo, PreviewInfo, diff_info, preview_info
from livingdb.server.http.settled import Resolution
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.commit.merging.merge_request import MergeRule
    from livingdb.database.merge_request import MergeNote, MergeRequest

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["merge requests"])
Number = Annotated[int, Path(ge=1, le=2**62, description="The number of the request.")]


class NewRequest(Asked):
    """A wish that a branch be merged into another."""

    source: str = Field(examples=["dev"])
    into: str = Field(examples=["main"])
    title: str = ""
    description: str = ""


class Note(Answer):
    """What somebody said or did about a request."""

    kind: str
    author: str
    time: datetime
    text: str
    head: str


class RequestInfo(Answer):
    """A merge request."""

    number: int
    title: str
    description: str
    author: str
    time: datetime
    source: str
    target: str
    state: Literal["open", "merged", "closed"]
    snapshot: str | None


class RequestList(Answer):
    """Merge requests, newest first."""

    merge_requests: list[RequestInfo]
    next: int | None = Field(description="What `before` of the next request says.")


class CheckInfo(Answer):
    """A condition of the target, judged now."""

    text: str
    holds: bool
    problem: str | None
    action: str


class RequestDetails(RequestInfo):
    """A merge request, what was said about it, and what stands in its way."""

    notes: list[Note]
    approvals: list[Note]
    problems: list[str]


class ChecksInfo(Answer):
    """The conditions of the target."""

    checks: list[CheckInfo]


class RequestAction(Asked):
    """What somebody says or does about a request."""

    action: Literal["comment", "approve", "close", "reopen"]
    text: str = ""


class RequestMerge(Resolution):
    """How a request is merged."""

    granularity: Granularity = "row"
    message: str = ""


class RuleInfo(Answer):
    """What a branch asks of requests that lead to it."""

    approvals: int
    checks: list[dict[str, Any]]
    merge_only: bool = Field(description="Whether it takes nothing but merges.")


class NewRule(Asked):
    """What a branch is to ask of requests that lead to it."""

    branch: str = Field(examples=["main"])
    approvals: int = Field(0, ge=0, le=1000)
    checks: list[Condition] = Field(default_factory=list)
    merge_only: bool | None = Field(None, description="As it is, if it is left out.")


def _facts(request: MergeRequest) -> dict[str, Any]:
    made = request.snapshot
    return {
        "number": request.number,
        "title": request.title,
        "description": request.description,
        "author": request.author,
        "time": request.time,
        "source": request.source,
        "target": request.target,
        "state": request.state,
        "snapshot": None if made is None else made.id,
    }


def _note(note: MergeNote) -> Note:
    return Note(kind=note.kind, author=note.author, time=note.time, text=note.text, head=note.head)


@router.get("/merge-requests", operation_id="list_merge_requests", summary="Merge requests")
def list_merge_requests(
    db: Db,
    state: Literal["open", "merged", "closed"] | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    before: Annotated[
        int | None,
        Query(ge=1, le=2**62, description="The `number` of a request, to go on with older ones."),
    ] = None,
) -> RequestList:
    """Merge requests, newest first, a page at a time."""
    found = db.merge_requests(state, limit, before)
    return RequestList(
        merge_requests=[RequestInfo(**_facts(one)) for one in found],
        next=found[-1].number if len(found) == limit else None,
    )


@router.post(
    "/merge-requests", operation_id="request_merge", summary="Ask for a merge", status_code=201
)
def request_merge(body: NewRequest, db: Db) -> RequestInfo:
    """Ask others to look at a branch before it is merged into another."""
    return RequestInfo(
        **_facts(db.request_merge(body.source, body.into, body.title, body.description))
    )


@router.get(
    "/merge-requests/{number}", operation_id="get_merge_request", summary="One merge request"
)
def get_merge_request(number: Number, db: Db) -> RequestDetails:
    """A merge request, what was said about it, and what stands in its way."""
    found = db.merge_request(number)
    return RequestDetails(
        **_facts(found),
        notes=[_note(one) for one in found.notes],
        approvals=[_note(one) for one in found.approvals],
        problems=found.problems(),
    )


@router.get(
    "/merge-requests/{number}/preview",
    operation_id="preview_merge_request",
    summary="What it would do",
)
def preview_merge_request(number: Number, db: Db) -> PreviewInfo:
    """Conflicts, changes and schema changes of the merge; nothing is written."""
    return preview_info(db.merge_request(number).preview())


@router.get(
    "/merge-requests/{number}/diff", operation_id="diff_merge_request", summary="What it changed"
)
def diff_merge_request(number: Number, db: Db) -> DiffInfo:
    """What the source changed since it parted from the target."""
    return diff_info(db.merge_request(number).diff())


@router.get(
    "/merge-requests/{number}/checks",
    operation_id="check_merge_request",
    summary="Whether the target's conditions hold",
)
def check_merge_request(number: Number, db: Db) -> ChecksInfo:
    """The conditions of the target, judged now."""
    return ChecksInfo(
        checks=[
            CheckInfo(text=one.text, holds=one.holds, problem=one.problem, action=one.action)
            for one in db.merge_request(number).checks()
        ]
    )


@router.post(
    "/merge-requests/{number}/notes",
    operation_id="act_on_merge_request",
    summary="Comment, approve, close, reopen",
)
def act_on_merge_request(number: Number, body: RequestAction, db: Db) -> RequestInfo:
    """Say or do something about a request, in the name of who asks."""
    found = db.merge_request(number)
    if body.action == "comment":
        found.comment(body.text)
    elif body.action == "approve":
        found.approve(note=body.text)
    elif body.action == "close":
        found.close(reason=body.text)
    else:
        found.reopen(reason=body.text)
    return RequestInfo(**_facts(found))


@router.post(
    "/merge-requests/{number}/merge",
    operation_id="merge_merge_request",
    summary="Merge it",
    responses={409: {"model": Failure, "description": "Conflicts, or the target's rule."}},
)
def merge_merge_request(number: Number, body: RequestMerge, db: Db) -> SnapshotInfo:
    """Merge it, if the target's rule allows."""
    made = db.merge_request(number).merge(
        on_conflict=body.policies(), granularity=body.granularity, message=body.message
    )
    return snapshot_info(made)


@router.get("/merge-rule", operation_id="get_merge_rule", summary="What a branch asks")
def get_merge_rule(db: Db, branch: Annotated[str, Query(examples=["main"])]) -> RuleInfo:
    """What a branch asks of merge requests that lead to it."""
    return _rule_info(db.merge_rule(branch))


def _rule_info(rule: MergeRule) -> RuleInfo:
    return RuleInfo(
        approvals=rule.approvals,
        checks=[dict(one) for one in rule.checks],
        merge_only=rule.merge_only,
    )


@router.put("/merge-rule", operation_id="set_merge_rule", summary="Set what a branch asks")
def set_merge_rule(body: NewRule, db: Db) -> RuleInfo:
    """Let a branch ask for approvals and conditions, and take nothing but merges."""
    checks = parse_conditions(body.checks)
    db.set_merge_rule(body.branch, body.approvals, checks, merge_only=body.merge_only)
    return _rule_info(db.merge_rule(body.branch))
