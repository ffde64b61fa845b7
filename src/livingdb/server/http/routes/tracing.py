"""Where rows, columns and snapshots come from, and where they went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from livingdb.server.http.answers import rows_answer, rows_responses
from livingdb.server.http.context import Context, Db, OptionalRef, Server, TableName, ref_of
from livingdb.server.http.json_values import plain_value, rows_of
from livingdb.server.http.models import Answer, RowsAnswer
from livingdb.server.http.routes.tables import key_values
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb import Database

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["lineage and history"])

OptionalKey = Annotated[
    list[str] | None,
    Query(alias="key", description="The key of a row, a value for each of its columns."),
]
ViewName = Annotated[
    str, Query(alias="view", description="The derived object.", examples=["totals"])
]
Base = Annotated[bool, Query(description="Down to what was written; else one step only.")]


class TracedRows(RowsAnswer):
    """Rows, and whether there are more of them."""

    more: bool


class LineageInfo(Answer):
    """Source rows by table, with the snapshot and branch each was read in."""

    view: str
    snapshot: str
    tables: dict[str, list[dict[str, Any]]]
    snapshots: dict[str, str]
    branches: dict[str, str]
    whole: list[str] = Field(description="Tables of which any row may matter.")
    more: list[str] = Field(description="Tables of which there are more rows than are told.")


class ColumnLineageInfo(Answer):
    """The source columns of each column, and those that filters, joins and groups look at."""

    columns: dict[str, list[str]]
    used: dict[str, list[str]]


class ForwardLineageInfo(Answer):
    """The keys of rows that a row has a part in, by derived object."""

    objects: dict[str, list[dict[str, Any]]]
    whole: list[str] = Field(description="Objects of which any row may depend on it.")
    more: list[str] = Field(description="Objects of which there are more rows than are told.")


class PlaceList(Answer):
    """Where a row is or was."""

    places: list[dict[str, Any]]


class ProvenanceInfo(Answer):
    """What made a snapshot, as a tree down to the transactions."""

    tree: dict[str, Any]


@router.get(
    "/blame", operation_id="blame", summary="Who wrote it", responses=rows_responses(TracedRows)
)
def blame(
    request: Request,
    server: Server,
    db: Db,
    table: TableName,
    ref: OptionalRef = None,
    key: OptionalKey = None,
    columns: Annotated[bool, Query(description="For every cell.")] = False,
) -> Response:
    """For every row, or that with the key, the snapshot that gave it its values."""
    at = ref_of(db, ref)
    return _traced(request, server, db.blame(at, table, _row_key(db, at, table, key), columns))


@router.get(
    "/history",
    operation_id="row_history",
    summary="Every value a row has had",
    responses=rows_responses(TracedRows),
)
def row_history(
    request: Request,
    server: Server,
    db: Db,
    table: TableName,
    ref: OptionalRef = None,
    key: OptionalKey = None,
) -> Response:
    """Every value a row has had, newest first; without a key, all rows."""
    at = ref_of(db, ref)
    return _traced(request, server, db.history(at, table, _row_key(db, at, table, key)))


@router.get("/lineage", operation_id="row_lineage", summary="The rows behind a row")
def row_lineage(
    db: Db, server: Server, view: ViewName, key: OptionalKey = None, base: Base = True
) -> LineageInfo:
    """The source rows behind a row of a derived object; without a key, behind all."""
    found = db.lineage(view, _row_key(db, view, view, key), base=base)
    most = server.settings.limits.page_rows
    return LineageInfo(
        view=found.view,
        snapshot=found.snapshot,
        tables={name: rows_of(rows.slice(0, most)) for name, rows in found.items()},
        snapshots=found.snapshots,
        branches=found.branches,
        whole=list(found.whole),
        more=[name for name, rows in found.items() if rows.num_rows > most],
    )


@router.get("/lineage/columns", operation_id="column_lineage", summary="The columns behind one")
def column_lineage(db: Db, view: ViewName, base: Base = True) -> ColumnLineageInfo:
    """For each column of a derived object, the source columns it is computed from."""
    found = db.column_lineage(view, base)
    return ColumnLineageInfo(
        columns={name: list(sources) for name, sources in found.items()},
        used={use: list(sources) for use, sources in found.used.items()},
    )


@router.get("/lineage/forward", operation_id="forward_lineage", summary="What a row goes into")
def forward_lineage(
    db: Db,
    server: Server,
    table: TableName,
    key: Annotated[list[str], Query()],
    ref: OptionalRef = None,
) -> ForwardLineageInfo:
    """What would change if a row of a table did."""
    at = ref_of(db, ref)
    found = db.forward_lineage(at, table, _row_key(db, at, table, key))
    most = server.settings.limits.page_rows
    return ForwardLineageInfo(
        objects={name: rows_of(rows.slice(0, most)) for name, rows in found.items()},
        whole=list(found.whole),
        more=[name for name, rows in found.items() if rows.num_rows > most],
    )


@router.get("/whereabouts", operation_id="whereabouts", summary="Where a row has gone")
def whereabouts(
    db: Db, table: TableName, key: Annotated[list[str], Query()], branch: str | None = None
) -> PlaceList:
    """Branches, tags, views, clones and models a row is or was in, and since when."""
    of = db.default_branch.name if branch is None else branch
    found = db.whereabouts(table, _row_key(db, of, table, key), of)
    return PlaceList(places=plain_value(found.to_arrow()))


@router.get("/provenance", operation_id="provenance", summary="What made a snapshot")
def provenance(db: Db, ref: OptionalRef = None) -> ProvenanceInfo:
    """What made a snapshot, from what and by whom, as one tree down to the transactions."""
    return ProvenanceInfo(tree=plain_value(db.provenance(ref_of(db, ref)).to_dict()))


def _row_key(db: Database, ref: str, table: str, key: list[str] | None) -> Any:
    if key is None:
        return None
    at = db.at(ref)
    names = at.tables()
    found = at.table(table if table in names or len(names) != 1 else names[0])
    return key_values(found, list(key))


def _traced(request: Request, server: Context, found: pa.Table) -> Response:
    most = server.settings.limits.page_rows
    return rows_answer(request, found.slice(0, most), {"more": found.num_rows > most})
