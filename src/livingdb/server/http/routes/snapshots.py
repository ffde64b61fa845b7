"""Snapshots: the states that the database was in, and a picture of them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from livingdb.server.http.answers import json_answer
from livingdb.server.http.context import Db, OptionalRef, ref_of
from livingdb.server.http.models import Answer, SnapshotInfo, snapshot_info
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["snapshots"])
_KINDS = {
    "text": "text/plain",
    "mermaid": "text/plain",
    "svg": "image/svg+xml",
    "html": "text/html",
    "data": "application/json",
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'"
)
"""The page has its scripts and styles in it, and loads nothing."""


class Log(Answer):
    """Snapshots, newest first."""

    snapshots: list[SnapshotInfo]


@router.get("/snapshots", operation_id="list_snapshots", summary="The log")
def list_snapshots(
    db: Db,
    ref: OptionalRef = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    table: Annotated[str | None, Query(description="Only those that changed this table.")] = None,
) -> Log:
    """A snapshot and its ancestors, newest first."""
    begin = db.at(ref_of(db, ref))
    return Log(snapshots=[snapshot_info(one) for one in begin.log(limit, table)])


@router.get("/snapshot", operation_id="get_snapshot", summary="One snapshot")
def get_snapshot(db: Db, ref: OptionalRef = None) -> SnapshotInfo:
    """What a ref stands for."""
    return snapshot_info(db.at(ref_of(db, ref)))


@router.get(
    "/graph",
    operation_id="get_graph",
    summary="The graph as a picture",
    response_class=Response,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in set(_KINDS.values())}}
    },
)
def get_graph(
    db: Db,
    form: Annotated[
        Literal["text", "mermaid", "svg", "html", "data"], Query(alias="format")
    ] = "text",
    limit: Annotated[int, Query(ge=1, le=20_000, description="The newest snapshots.")] = 100,
) -> Response:
    """The snapshot graph: branches, commits, merges, schema changes and syncs.

    `data` is what the page draws it from.
    """
    picture = db.graph(limit=limit)
    if form == "data":
        from livingdb.render.page import page_data

        return json_answer(page_data(picture))
    if form == "html":
        policy = {"Content-Security-Policy": _PAGE_POLICY}
        return Response(picture.to_html(), headers=policy, media_type=_KINDS[form])
    made = {"text": picture.to_text, "mermaid": picture.to_mermaid, "svg": picture.to_svg}[form]()
    return Response(made, media_type=_KINDS[form])
