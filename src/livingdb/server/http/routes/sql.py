"""SQL: one statement, or several that follow each other in a session."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import pyarrow as pa
from fastapi import Path, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from livingdb.errors import InvalidData, Unsupported
from livingdb.server.http.answers import read_body, rows_answer, rows_responses, wants_arrow
from livingdb.server.http.context import (
    Asking,
    Context,
    Db,
    Server,
    TableName,
    branch_of,
)
from livingdb.server.http.json_values import column_value
from livingdb.server.http.models import Answer, Asked, Done, RowsAnswer
from livingdb.server.http.row_writes import ROWS_BODY, read_rows_body, rows_kind
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.database.sql_session import SqlSession
    from livingdb.sql.result import Result

__all__ = ["router"]

router = SubjectRouter(prefix="/v1/sql", tags=["sql"])
SessionId = Annotated[str, Path(description="The session.", examples=["0f3a…"])]


class TypedValue(Asked):
    """A value whose type JSON has no word for."""

    type: str = Field(examples=["decimal(10,2)"])
    value: Any = Field(examples=["9.50"])


Value = str | int | float | bool | None | TypedValue | list[str | int | float | bool | None]


class Statement(Asked):
    """A statement, and the values of its parameters."""

    sql: str = Field(examples=["SELECT city, sum(amount) AS total FROM orders GROUP BY city"])
    parameters: list[Value] | dict[str, Value] | None = Field(
        None, description="A list for `?`, an object for `:name`; values are bound, never pasted."
    )
    limit: int | None = Field(None, ge=1, description="Rows at most that are sent back.")
    message: str = Field("", description="What the log says about a change.")


class SingleStatement(Statement):
    """A statement on its own."""

    branch: str | None = Field(None, description="The default branch, if it is left out.")
    ref: str | None = Field(None, description="A ref to query, in place of a branch.")
    engine: Literal["embedded", "spark", "auto"] | None = None


class SqlAnswer(RowsAnswer):
    """The rows of a query; after a change, the snapshot it made and how many rows it touched."""

    snapshot: str | None
    changed: int
    engine: str
    more: bool = Field(description="Whether there are rows beyond the limit.")


class NewSession(Asked):
    """Where a session begins."""

    branch: str | None = None


class SessionInfo(Answer):
    """A session, and whether a transaction is open in it."""

    id: str
    branch: str
    opened: datetime
    in_transaction: bool
    read_only: bool = Field(description="Whether the server only reads the database.")
    idle_seconds: float = Field(description="After so long without a statement it ends.")


class SessionTables(Answer):
    """The tables that a session sees."""

    tables: dict[str, dict[str, Any]] = Field(
        description="Columns, key, constraints and defaults of each, by its name."
    )


class Inserted(Answer):
    """How many rows were put into a table."""

    changed: int


class Sessions(Answer):
    """The sessions of who asks."""

    sessions: list[SessionInfo]


@router.post("", operation_id="run_sql", summary="Run SQL", responses=rows_responses(SqlAnswer))
def run_sql(body: SingleStatement, request: Request, server: Server, db: Db) -> Response:
    """A query, or a change as one transaction."""
    if body.ref is not None and body.branch is not None:
        raise InvalidData("say branch or ref, not both")
    values, most = _parameters(body), _most_rows(request, server, body)
    how: dict[str, Any] = {"engine": body.engine, "most": most + 1}
    if body.ref is not None:
        found = db.at(body.ref).sql(body.sql, values, **how)
    else:
        found = branch_of(db, body.branch).sql(body.sql, values, message=body.message, **how)
    return _answer(request, most, found)


@router.post("/sessions", operation_id="open_session", summary="A session of SQL", status_code=201)
def open_session(body: NewSession, server: Server, db: Db, asking: Asking) -> SessionInfo:
    """Statements that follow each other; BEGIN, COMMIT and ROLLBACK are among them."""
    made = server.sessions.open(db, branch_of(db, body.branch), asking.key)
    return _session_info(server, made)


@router.get("/sessions", operation_id="list_sessions", summary="Sessions of SQL")
def list_sessions(server: Server, asking: Asking) -> Sessions:
    """The sessions of who asks."""
    found = server.sessions.all(asking.key)
    return Sessions(sessions=[_session_info(server, one) for one in found])


@router.post(
    "/sessions/{session}/statements",
    operation_id="run_in_session",
    summary="Run SQL in a session",
    responses=rows_responses(SqlAnswer),
)
def run_in_session(
    session: SessionId, body: Statement, request: Request, server: Server, asking: Asking
) -> Response:
    """Run one statement, with what the session did before."""
    most = _most_rows(request, server, body)
    with server.sessions.use(session, asking.key) as used:
        found = used.execute(body.sql, _parameters(body), message=body.message, most=most + 1)
        state = _state_headers(used)
    return _answer(request, most, found, state)


@router.post(
    "/sessions/{session}/rows",
    operation_id="insert_in_session",
    summary="Insert rows in a session",
    response_model=Inserted,
    openapi_extra=ROWS_BODY,
)
async def insert_in_session(
    session: SessionId,
    request: Request,
    response: Response,
    server: Server,
    asking: Asking,
    table: TableName,
) -> Inserted:
    """Insert many rows, in the transaction that is open or in one of their own."""
    body = [await read_body(request)]
    kind = rows_kind(request.headers.get("content-type", ""))

    def insert() -> Inserted:
        with server.sessions.use(session, asking.key) as used:
            rows = read_rows_body(body.pop(), kind, lambda: used.table_schema(table).arrow)
            changed = used.insert(table, rows)
            response.headers.update(_state_headers(used))
        return Inserted(changed=changed)

    return await run_in_threadpool(insert)


@router.get(
    "/sessions/{session}/tables", operation_id="list_session_tables", summary="Tables of a session"
)
def list_session_tables(
    session: SessionId,
    server: Server,
    asking: Asking,
    branch: Annotated[
        str | None, Query(description="The session's branch, if it is left out.", examples=["main"])
    ] = None,
    table: Annotated[
        str | None, Query(description="One table, if there is it.", examples=["orders"])
    ] = None,
) -> SessionTables:
    """What the tables hold that a session sees, also those of its transaction."""
    with server.sessions.use(session, asking.key) as used:
        found = used.table_schemas(branch)
    told = {name: one.to_json() for name, one in found.items() if table in (None, name)}
    return SessionTables(tables=told)


@router.delete("/sessions/{session}", operation_id="close_session", summary="End a session")
def close_session(session: SessionId, server: Server, asking: Asking) -> Done:
    """End a session; what it did not commit is gone."""
    server.sessions.close(session, asking.key)
    return Done()


def _session_info(server: Context, one: Any) -> SessionInfo:
    return SessionInfo(
        id=one.id,
        branch=one.session.branch.name,
        opened=one.opened,
        in_transaction=one.session.is_open,
        read_only=one.session.database.read_only is not None,
        idle_seconds=server.settings.limits.idle_seconds,
    )


def _parameters(body: Statement) -> Any:
    given = body.parameters
    if given is None:
        return None
    if isinstance(given, dict):
        return {name: _value(name, one) for name, one in given.items()}
    return [_value(str(at), one) for at, one in enumerate(given, 1)]


def _value(name: str, given: Any) -> Any:
    if not isinstance(given, TypedValue):
        return given
    from livingdb.tables.type_names import parse_type

    return _fitting(f"parameter {name}", given.value, parse_type(given.type))


def _fitting(name: str, given: Any, kind: pa.DataType) -> Any:
    """A value of a type; `InvalidData` if it does not fit, `Unsupported` for what is not bound."""
    if pa.types.is_map(kind):
        raise Unsupported(f"{name}: a map is not given as a value; write map(…) with its parts")
    value = column_value(name, given, kind)
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise InvalidData(f"{name}: {str(given)[:60]!r} does not fit {kind}") from None
    return value


def _state_headers(session: SqlSession) -> dict[str, str]:
    """Where a session stands after a statement."""
    changed = "changed" if session.has_changes else "open"
    return {
        "LivingDB-Branch": quote(session.branch.name),
        "LivingDB-Transaction": changed if session.is_open else "none",
    }


def _most_rows(request: Request, server: Context, body: Statement) -> int:
    """How many rows are sent back at most."""
    limits = server.settings.limits
    most = limits.rows if wants_arrow(request) else limits.page_rows
    return min(body.limit or most, most)


def _answer(
    request: Request, most: int, found: Result, state: dict[str, str] | None = None
) -> Response:
    rows = found.to_arrow()
    sent = rows.slice(0, most)
    made = getattr(found.snapshot, "id", None)
    facts = {
        "snapshot": made,
        "changed": found.changed,
        "engine": found.engine,
        "more": rows.num_rows > sent.num_rows,
    }
    headers = {"LivingDB-Changed": str(found.changed), **(state or {})}
    if made is not None:
        headers["LivingDB-Snapshot"] = made
    if facts["more"]:
        headers["LivingDB-More"] = "true"
    return rows_answer(request, sent, facts, headers)
