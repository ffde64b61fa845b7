"""Derived objects: views, models and transformed clones, and bringing them up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from livingdb.database.parse_changes import parse_changes
from livingdb.server.http.context import Asking, Db, Server, branch_of
from livingdb.server.http.guards import Guards
from livingdb.server.http.models import Answer, Asked, SnapshotInfo, snapshot_info
from livingdb.server.http.routes.jobs import JobInfo, start_job
from livingdb.server.http.routes.refs import BranchInfo, branch_info
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.database.run import Run

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["views"])
Engine = Literal["embedded", "spark", "auto"]


class NewView(Guards):
    """A derived object; one of `sql`, `spark` and `model` says what makes it."""

    name: str = Field(examples=["totals"])
    branch: str | None = Field(None, description="The branch it is derived from.")
    sql: str | None = Field(
        None, examples=["SELECT city, sum(amount) AS total FROM orders GROUP BY city"]
    )
    spark: str | None = Field(None, description="A trusted function of data frames.")
    model: str | None = Field(None, description="A trusted function that makes a model.")
    params: dict[str, Any] | None = None
    tables: list[str] | None = None
    when: str | None = Field(None, examples=["immediate", "deferred", "every 1 hour"])
    refresh: Literal["auto", "incremental", "full"] = "auto"
    materialize: str = "full"
    key: str | list[str] | None = None
    engine: Engine | None = None
    sync: Literal["forward", "both", "none"] = "forward"
    replace: bool = False
    on_break: Literal["detach", "move"] = "detach"
    message: str = ""


class NewClone(Guards):
    """A branch that sees another one through schema changes, masks among them."""

    name: str = Field(examples=["masked"])
    branch: str | None = Field(None, description="The branch it is a clone of.")
    transform: list[str | dict[str, Any]] | None = Field(
        None,
        examples=[[{"change": "MaskColumn", "table": "users", "name": "email", "key": "env:KEY"}]],
    )
    sync: Literal["none", "forward", "both"] = "none"
    when: str = "immediate"
    materialize: Literal["full", "lazy"] = "full"
    replace: bool = False
    message: str = ""


class Refresh(Asked):
    """A derived object that is brought up to date."""

    name: str = Field(examples=["totals"])
    full: bool = Field(False, description="All of it is made anew.")


class ViewAt(Asked):
    """A derived object, and the source snapshot it is wanted for."""

    name: str = Field(examples=["totals"])
    source: str = Field(examples=["main~1"])


class RunInfo(Answer):
    """What a refresh did."""

    name: str
    snapshot: str | None
    strategy: str
    reason: str | None
    rows: int
    seconds: float
    engine: str | None
    error: str | None


@router.post("/views", operation_id="create_view", summary="A derived object", status_code=201)
def create_view(body: NewView, db: Db) -> BranchInfo:
    """Derive a view, a table or a model from the tables of a branch."""
    made = branch_of(db, body.branch).derive(
        body.name,
        body.sql,
        spark=body.spark,
        model=body.model,
        params=body.params,
        tables=body.tables,
        when=body.when,
        refresh=body.refresh,
        materialize=body.materialize,
        key=body.key,
        engine=body.engine,
        sync=body.sync,
        replace=body.replace,
        on_break=body.on_break,
        message=body.message,
        **body.guards(),
    )
    return branch_info(made)


@router.post("/clones", operation_id="create_clone", summary="A clone in step", status_code=201)
def create_clone(body: NewClone, db: Db) -> BranchInfo:
    """A new branch that sees another one through schema changes, and may stay in step with it."""
    branch = branch_of(db, body.branch)
    changes = None
    if body.transform is not None:
        changes, _ = parse_changes(branch, body.transform)
    made = branch.clone(
        body.name,
        transform=changes,
        sync=body.sync,
        when=body.when,
        materialize=body.materialize,
        replace=body.replace,
        message=body.message,
        **body.guards(),
    )
    return branch_info(made)


@router.post(
    "/views/refresh", operation_id="refresh_view", summary="Bring one up to date", status_code=202
)
def refresh_view(body: Refresh, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Bring a derived object up to date, as a job; its result says what was done."""
    db.branch(body.name)
    return start_job(
        server,
        asking,
        "refresh",
        lambda _: run_info(db.refresh(body.name, body.full)).model_dump(),
    )


@router.post("/views/at", operation_id="view_at", summary="A view of a source snapshot")
def view_at(body: ViewAt, db: Db) -> SnapshotInfo:
    """The version of a derived object that was made from a snapshot; made now if there is none."""
    return snapshot_info(db.derived_at(body.name, body.source))


@router.post(
    "/propagate", operation_id="propagate", summary="Bring all up to date", status_code=202
)
def propagate(server: Server, db: Db, asking: Asking) -> JobInfo:
    """Bring everything up to date that is due, as a job."""
    return start_job(
        server,
        asking,
        "propagate",
        lambda say: [run_info(run).model_dump() for run in db.propagate(progress=say)],
    )


def run_info(run: Run) -> RunInfo:
    """What is told of a refresh."""
    return RunInfo(
        name=run.name,
        snapshot=None if run.snapshot is None else run.snapshot.id,
        strategy=run.strategy,
        reason=run.reason,
        rows=run.rows,
        seconds=run.seconds,
        engine=run.engine or None,
        error=run.error,
    )
