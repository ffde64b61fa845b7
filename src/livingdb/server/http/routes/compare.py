"""Differences between refs, and merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from livingdb.errors import NotFound
from livingdb.server.http.answers import arrow_answer, rows_answer, rows_responses, wants_arrow
from livingdb.server.http.context import Db, Server, TableName
from livingdb.server.http.failures import Failure
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import (
    Answer,
    Granularity,
    RowsAnswer,
    SnapshotInfo,
    snapshot_info,
)
from livingdb.server.http.settled import Resolution
from livingdb.server.http.subject_router import SubjectRouter
from livingdb.server.http.table_pages import take_rows

if TYPE_CHECKING:
    from livingdb import SnapshotDiff
    from livingdb.database.comparing import MergePreview

__all__ = ["DiffInfo", "PreviewInfo", "diff_info", "preview_info", "router"]

router = SubjectRouter(prefix="/v1", tags=["diff and merge"])
_SHOWN = 1000

Before = Annotated[str, Query(description="What it was.", examples=["main"])]
After = Annotated[str, Query(description="What it is.", examples=["dev"])]


class TableDiff(Answer):
    """How many rows of a table differ."""

    inserted: int
    updated: int
    deleted: int
    schema_state: str = Field(description="same, changed, added or dropped")


class DiffInfo(Answer):
    """What changed between two refs."""

    tables: dict[str, TableDiff]
    schema_changes: list[dict[str, Any]]
    notes: list[str]


class DiffRows(RowsAnswer):
    """Rows that differ: their key, `_change_type`, `_before` and `_after`."""

    more: bool


class MergeOptions(Resolution):
    """What is merged, and who wins."""

    source: str = Field(description="A branch or any ref.", examples=["dev"])
    into: str = Field(examples=["main"])
    granularity: Granularity = "row"


class Merge(MergeOptions):
    """A merge."""

    symmetric: bool = False
    fast_forward: bool = True
    message: str = ""


class PreviewInfo(Answer):
    """What a merge would do; nothing was written."""

    is_clean: bool
    fast_forward: bool
    changes: dict[str, dict[str, int]]
    schema_changes: list[dict[str, Any]]
    conflicts: dict[str, list[dict[str, Any]]]
    schema_conflicts: dict[str, str]
    refusal: str = Field("", description="The constraint that the merged rows would break.")


def diff_info(found: SnapshotDiff) -> DiffInfo:
    """What is told of a difference."""
    return DiffInfo(
        tables={
            name: TableDiff(**part.summary(), schema_state=part.schema_state)
            for name, part in found.items()
        },
        schema_changes=[_change(one) for one in found.schema],
        notes=list(found.notes),
    )


def preview_info(seen: MergePreview) -> PreviewInfo:
    """What is told of a merge that was not made."""
    return PreviewInfo(
        is_clean=seen.is_clean,
        fast_forward=seen.fast_forward,
        changes={name: dict(counts) for name, counts in seen.changes.items()},
        schema_changes=[_change(one) for one in seen.schema],
        conflicts={
            name: plain_value(rows.slice(0, _SHOWN)) for name, rows in seen.conflicts.items()
        },
        schema_conflicts=dict(seen.schema_conflicts),
        refusal=seen.refusal,
    )


def _change(change: Any) -> dict[str, Any]:
    return {"title": change.title, **plain_value(change.to_json())}


@router.get("/diff", operation_id="diff", summary="What differs")
def diff(
    db: Db,
    before: Before,
    after: After,
    tables: Annotated[list[str] | None, Query(description="Some of them.")] = None,
) -> DiffInfo:
    """The tables that differ between two refs, how many rows, and the schema changes between."""
    return diff_info(db.diff(before, after, tables))


@router.get(
    "/diff/rows",
    operation_id="diff_rows",
    summary="Rows that differ",
    responses=rows_responses(DiffRows),
)
def diff_rows(
    request: Request,
    server: Server,
    db: Db,
    before: Before,
    after: After,
    table: TableName,
    limit: Annotated[
        int | None, Query(ge=1, description="Rows at most; as Arrow, all if it is left out.")
    ] = None,
) -> Response:
    """The rows of one table that differ, in key order."""
    found = db.diff(before, after, [table]).get(table)
    if found is None:
        raise NotFound(f"table {table!r} does not differ")
    limits, is_arrow = server.settings.limits, wants_arrow(request)
    if is_arrow and limit is None:
        return arrow_answer(found.schema, found.batches())
    most = min(limit or _SHOWN, limits.rows if is_arrow else limits.page_rows)
    rows = take_rows(found.schema, found.batches(), most + 1)
    more = rows.num_rows > most
    headers = {"LivingDB-More": "true"} if more else {}
    return rows_answer(request, rows.slice(0, most), {"more": more}, headers)


@router.post("/merge/preview", operation_id="preview_merge", summary="What a merge would do")
def preview_merge(body: MergeOptions, db: Db) -> PreviewInfo:
    """Changes, schema changes and conflicts of a merge; nothing is written."""
    return preview_info(db.preview_merge(body.source, body.into, body.policies(), body.granularity))


@router.post(
    "/merge",
    operation_id="merge",
    summary="Merge",
    responses={409: {"model": Failure, "description": "Conflicts; `details` has the rows."}},
)
def merge(body: Merge, db: Db) -> SnapshotInfo:
    """Put what a branch (or any ref) changed on another branch."""
    made = db.merge(
        body.source,
        body.into,
        body.policies(),
        body.granularity,
        body.symmetric,
        body.fast_forward,
        body.message,
    )
    return snapshot_info(made)
