"""Tables and their rows: read at any ref, written at the head of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
from fastapi import Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from livingdb.errors import InvalidData, LimitExceeded, NotFound
from livingdb.server.http.answers import (
    arrow_answer,
    json_answer,
    read_body,
    rows_answer,
    rows_responses,
    wants_arrow,
)
from livingdb.server.http.context import (
    Db,
    OptionalBranch,
    OptionalRef,
    Server,
    TableName,
    branch_of,
    ref_of,
)
from livingdb.server.http.failures import Failure
from livingdb.server.http.json_values import (
    column_value,
    columns_of,
    row_of,
)
from livingdb.server.http.models import (
    Answer,
    Asked,
    ColumnInfo,
    Page,
    SnapshotInfo,
    snapshot_info,
)
from livingdb.server.http.row_writes import (
    ROWS_BODY,
    Operation,
    RowWrite,
    read_rows_body,
    rows_kind,
)
from livingdb.server.http.subject_router import SubjectRouter
from livingdb.server.http.table_pages import PageRequest, read_page, snapshot_of
from livingdb.tables.type_names import parse_limited_type

if TYPE_CHECKING:
    from livingdb.database.table import TableReader

__all__ = ["key_values", "router"]

router = SubjectRouter(prefix="/v1", tags=["tables"])
_USUAL_ROWS = 1000

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The snapshot that the branch has to stand on; 412 if it moved.",
    ),
]
Key = Annotated[
    list[str],
    Query(
        description="The key; a value for each of its columns, in their order.", examples=[["42"]]
    ),
]


class Tables(Answer):
    """The tables of a snapshot."""

    snapshot: str
    tables: list[str]


class TableInfo(Answer):
    """A table as it is in one snapshot."""

    name: str = Field(examples=["orders"])
    snapshot: str
    columns: list[ColumnInfo]
    key: list[str]
    unique: dict[str, list[str]]
    generated: dict[str, str]
    row_count: int
    version: str = Field(description="The address of its recipe.")


class NewTable(Asked):
    """A new, empty table."""

    name: str = Field(examples=["orders"])
    columns: dict[str, str] = Field(
        description="Types by column, in the words of SQL.",
        examples=[{"id": "bigint", "city": "string", "amount": "decimal(10,2)"}],
    )
    key: str | list[str] = Field(examples=["id"])
    defaults: dict[str, Any] | None = None
    foreign_keys: dict[str, str] | None = None
    unique: list[str | list[str]] | None = None
    message: str = ""


class Row(Answer):
    """One row."""

    snapshot: str
    row: dict[str, Any]


class Written(SnapshotInfo):
    """The snapshot that a change made."""


@router.get("/tables", operation_id="list_tables", summary="Tables of a ref")
def list_tables(db: Db, ref: OptionalRef = None) -> Tables:
    """The names of the tables there are at a ref."""
    at = db.at(ref_of(db, ref))
    return Tables(snapshot=at.id, tables=at.tables())


@router.post("/tables", operation_id="create_table", summary="A new table", status_code=201)
def create_table(body: NewTable, db: Db, branch: OptionalBranch = None) -> SnapshotInfo:
    """A new, empty table on a branch."""
    made = branch_of(db, branch).create_table(
        body.name,
        body.columns,
        body.key,
        defaults=_defaults(body),
        foreign_keys=body.foreign_keys,
        unique=body.unique,
        message=body.message,
    )
    return snapshot_info(made)


def _defaults(body: NewTable) -> dict[str, Any]:
    """Defaults as values of their columns; one of a column that there is not is left as it is."""
    types = {name: parse_limited_type(said)[0] for name, said in body.columns.items()}
    given = (body.defaults or {}).items()
    return {n: column_value(n, one, types[n]) if n in types else one for n, one in given}


@router.get("/table", operation_id="get_table", summary="One table")
def get_table(db: Db, table: TableName, ref: OptionalRef = None) -> TableInfo:
    """The columns, key and size of a table at a ref."""
    at = db.at(ref_of(db, ref))
    found = at.table(table)
    return TableInfo(
        name=found.name,
        snapshot=at.id,
        columns=[ColumnInfo(**one) for one in columns_of(found.schema)],
        key=list(found.key),
        unique={name: list(columns) for name, columns in found.unique.items()},
        generated=found.generated,
        row_count=len(found),
        version=found.version,
    )


@router.get(
    "/rows", operation_id="read_rows", summary="Rows of a table", responses=rows_responses(Page)
)
def read_rows(
    request: Request,
    server: Server,
    db: Db,
    table: TableName,
    ref: OptionalRef = None,
    columns: Annotated[
        list[str] | None, Query(description="Some of them.", examples=[["id", "city"]])
    ] = None,
    where: Annotated[
        str | None, Query(description="A condition in SQL.", examples=["amount > 10"])
    ] = None,
    after: Annotated[str | None, Query(description="Where the page before ended.")] = None,
    limit: Annotated[
        int | None, Query(ge=1, description="Rows at most; as Arrow, all if it is left out.")
    ] = None,
) -> Response:
    """Rows in key order, a page at a time, or as one stream of Arrow.

    All pages of one read are of one snapshot: the cursor knows which.
    """
    limits = server.settings.limits
    at = snapshot_of(db, ref_of(db, ref), after)
    headers = {"ETag": f'"{at.id}"', "LivingDB-Snapshot": at.id}
    if wants_arrow(request) and limit is None and after is None:
        found = at.table(table)
        if len(found) > limits.rows:
            raise LimitExceeded(
                f"{len(found):,} rows: an answer has at most {limits.rows:,}; say limit= and after="
            )
        names = found.schema.names if columns is None else columns
        schema = pa.schema([found.rows.schema.column(name).field for name in names])
        return arrow_answer(schema, found.batches(columns, where), headers)
    most = limits.rows if wants_arrow(request) else limits.page_rows
    page = read_page(at, PageRequest(table, columns, where, after, min(limit or _USUAL_ROWS, most)))
    if page.next is not None:
        headers["LivingDB-Next"] = page.next
    return rows_answer(request, page.rows, {"snapshot": at.id, "next": page.next}, headers)


@router.get("/row", operation_id="read_row", summary="One row", response_model=Row)
def read_row(db: Db, table: TableName, key: Key, ref: OptionalRef = None) -> Response:
    """The row with a key."""
    at = db.at(ref_of(db, ref))
    found = at.table(table)
    row = found.get(key_values(found, key))
    if row is None:
        raise NotFound(f"table {table!r} has no row with this key")
    told = row_of(row, found.schema)
    return json_answer({"snapshot": at.id, "row": told})


def key_values(table: TableReader, key: list[Any]) -> tuple[Any, ...]:
    """The values of a key, each as its column's type; texts stand for what they say."""
    names = table.key
    if len(key) != len(names):
        raise InvalidData(
            f"the key of {table.name!r} is ({', '.join(names)}): say key= for each, in that order"
            if names
            else f"the rows of {table.name!r} have no key: select them by a condition"
        )
    fields = [table.schema.field(name) for name in names]
    pairs = zip(fields, key, strict=True)
    return tuple(column_value(field.name, value, field.type) for field, value in pairs)


@router.post(
    "/rows/{operation}",
    operation_id="write_rows",
    summary="Write rows",
    response_model=Written,
    responses={412: {"model": Failure, "description": "The branch moved."}},
    openapi_extra=ROWS_BODY,
)
async def write_rows(
    request: Request,
    operation: Operation,
    db: Db,
    table: TableName,
    branch: OptionalBranch = None,
    message: Annotated[str, Query(description="What the log says about it.")] = "",
    strict: Annotated[
        bool, Query(description="Of a delete: refuse keys that are not there.")
    ] = False,
    if_match: IfMatch = None,
) -> Written:
    """Insert, upsert, update or delete rows in one transaction, given as JSON or as Arrow.

    `update` takes the key and some columns; `delete` the key columns alone.
    """
    body = [await read_body(request)]
    kind = rows_kind(request.headers.get("content-type", ""))
    asked = RowWrite(operation, table, message, strict, if_match)

    def write() -> Written:
        target = branch_of(db, branch)
        rows = read_rows_body(body.pop(), kind, lambda: target.table(table).schema)
        return Written(**snapshot_info(asked.make(target, rows)).model_dump())

    return await run_in_threadpool(write)
