"""Schema changes: what one would mean, and making it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from livingdb.database.parse_changes import parse_changes
from livingdb.server.http.context import Asking, Db, Server, branch_of
from livingdb.server.http.guards import Guards
from livingdb.server.http.models import Answer, Asked, SnapshotInfo, snapshot_info
from livingdb.server.http.routes.jobs import JobInfo, start_job
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["router"]

router = SubjectRouter(prefix="/v1/schema", tags=["schema changes"])

Changes = list[str | dict[str, Any]]


class SchemaChanges(Asked):
    """Changes, made all or none, one after the other."""

    branch: str | None = Field(None, examples=["main"])
    changes: Changes = Field(
        min_length=1,
        description="Statements of SQL, or objects with `change` and its values.",
        examples=[["ALTER TABLE orders ADD COLUMN vat DOUBLE DEFAULT 0.0"]],
    )


class Evolution(SchemaChanges, Guards):
    """Changes, and what becomes of who knows the old schema."""

    keep: str | None = Field(None, description="A branch that stays on the old schema.")
    to: str | None = Field(None, description="A branch for the new schema.")
    sync: Literal["none", "forward", "reverse", "both"] | None = None
    when: str = Field("immediate", examples=["immediate", "deferred"])
    on_break: Literal["detach", "move"] | None = Field(
        None, description="What becomes of views that cannot follow."
    )
    message: str = ""


class ExplanationInfo(Answer):
    """What a change would mean."""

    legal: list[str] = Field(description="The directions in which a sync is possible.")
    illegal: dict[str, str] = Field(description="Why the others are not.")
    scans: list[str] = Field(description="What it looks at the rows for.")
    failures: list[str] = Field(description="The first rows that do not fit.")


class Retirement(Asked):
    """A schema version that ends."""

    branch: str = Field(examples=["main_v1"])
    policy: Literal["reject", "truncate"] = "reject"


class RetiredInfo(Answer):
    """What became of a schema version."""

    branch: str
    snapshot: str
    neighbours: list[str]
    own_values: dict[str, dict[str, int]]


class Migration(Asked):
    """A branch whose pending changes are carried out now."""

    branch: str | None = None


@router.post("/explain", operation_id="explain_schema_change", summary="What would it mean?")
def explain_schema_change(body: SchemaChanges, db: Db) -> ExplanationInfo:
    """Which directions are legal, why others are not, and which rows do not fit."""
    branch = branch_of(db, body.branch)
    changes, _ = parse_changes(branch, body.changes)
    seen = branch.explain_evolution(changes)
    return ExplanationInfo(
        legal=list(seen.legal),
        illegal=dict(seen.illegal),
        scans=list(seen.scans),
        failures=list(seen.failures),
    )


@router.post("/changes", operation_id="change_schema", summary="Change the schema")
def change_schema(body: Evolution, db: Db) -> SnapshotInfo:
    """Change the schema of a branch; no rows are written."""
    branch = branch_of(db, body.branch)
    changes, said = parse_changes(branch, body.changes)
    given = {"keep": body.keep, "to": body.to, "sync": body.sync, "on_break": body.on_break}
    options = {**said, **{name: one for name, one in given.items() if one is not None}}
    made = branch.evolve(changes, **options, when=body.when, message=body.message, **body.guards())
    return snapshot_info(made)


@router.post("/retire", operation_id="retire_version", summary="End a schema version")
def retire_version(body: Retirement, db: Db) -> RetiredInfo:
    """End a schema version; its neighbours stay in step with each other."""
    done = db.retire(body.branch, body.policy)
    return RetiredInfo(
        branch=done.name,
        snapshot=done.snapshot,
        neighbours=list(done.neighbours),
        own_values={table: dict(columns) for table, columns in done.own_values.items()},
    )


@router.post(
    "/migrate", operation_id="migrate", summary="Carry out pending changes", status_code=202
)
def migrate(body: Migration, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Materialize what changes of schemas and layouts left to be done, as a job."""
    branch = branch_of(db, body.branch)
    return start_job(
        server, asking, "migrate", lambda say: {"tables": branch.migrate(progress=say)}
    )
