"""How the database stands, what it weighs, and what keeps it: checks, retention, backups."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from livingdb.errors import Forbidden, InvalidName
from livingdb.graph.names import is_hidden
from livingdb.graph.retention import Retention
from livingdb.server.http.context import Asking, Db, Server, branch_of, ref_of
from livingdb.server.http.models import Answer, Asked
from livingdb.server.http.routes.jobs import JobInfo, start_job
from livingdb.server.http.routes.tables import key_values
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["upkeep"])


class StatusLine(Answer):
    """A sync, a job of the runner, an alert or its delivery."""

    kind: str
    name: str
    message: str
    time: datetime | None = None


class BehindLine(Answer):
    """A sync whose target has not seen all of its sources."""

    name: str
    state: str
    when: str
    snapshots: int | None
    seconds: float | None
    why: str


class StatusInfo(Answer):
    """How a database stands."""

    ok: bool
    behind: list[BehindLine]
    due: list[StatusLine]
    running: list[StatusLine]
    failed: list[StatusLine]
    next: list[StatusLine]
    branches: int
    snapshots: int
    packs: int
    journal_bytes: int
    last_upkeep: datetime | None
    last_check: datetime | None


class WeightInfo(Answer):
    """Chunks and the bytes they are stored in."""

    chunks: int
    bytes: int


class StorageInfo(Answer):
    """What a database weighs."""

    bytes: int
    catalog_bytes: int
    pack_bytes: int
    journal_bytes: int
    projection_bytes: int
    chunks: int
    packs: int
    snapshots: int
    sharing: float
    tables: dict[str, WeightInfo]
    branches: dict[str, WeightInfo]


class RetentionPolicy(Asked):
    """What is kept, and for how long; everything, if nothing is said."""

    days: float | None = Field(None, ge=0)
    snapshots: int | None = Field(None, ge=1)
    thin: Literal["hourly", "daily", "weekly", "monthly"] | None = None
    thin_days: float | None = Field(None, ge=0)
    dropped_days: float | None = Field(None, ge=0)
    drop_idle: bool | float = False
    branches: dict[str, RetentionPolicy] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)
    grace_seconds: float = Field(3600.0, ge=0)

    def policy(self) -> Retention:
        """The policy that it says."""
        return Retention.from_json(self.model_dump(exclude_defaults=True))


class Collection(Asked):
    """What is collected."""

    keep: RetentionPolicy | None = Field(None, description="In place of the policy that is set.")
    dry_run: bool = False


class Check(Asked):
    """What is looked at."""

    deep: bool = Field(False, description="Also compute anew what every active sync promises.")


class Erasure(Asked):
    """Rows that leave every version, branch, view and file."""

    table: str = Field(examples=["customers"])
    keys: list[list[Any]] = Field(min_length=1, examples=[[[42]]])
    reason: str = Field(min_length=1, examples=["asked to be forgotten"])
    branch: str | None = None
    aggregates: Literal["keep", "recompute"] = "keep"
    texts: list[str] = Field(default_factory=list)
    dry_run: bool = False


class NewBackup(Asked):
    """Where a backup goes, below the place that the server was told."""

    name: str = Field(examples=["nightly"])
    keep: int | None = Field(None, ge=1, description="How many backups stay there.")
    verify: bool = False


class NewExport(Asked):
    """Where an export goes, below the folder that the server was told."""

    name: str = Field(examples=["orders-2026"])
    ref: str | None = None
    tables: list[str] | None = None
    form: Literal["parquet", "csv", "arrow"] = Field("parquet", alias="format")


@router.get("/status", operation_id="get_status", summary="How the database stands")
def get_status(db: Db) -> StatusInfo:
    """What is behind, due and failed, and what would be done next."""
    found = db.status()
    return StatusInfo(ok=found.ok, **dataclasses.asdict(found))


@router.get("/storage", operation_id="get_storage", summary="What it weighs")
def get_storage(db: Db) -> StorageInfo:
    """Bytes, chunks and packs, per table and per branch, and how often a chunk is shared."""
    found = db.storage()
    told = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    for part in ("tables", "branches"):
        told[part] = {
            name: WeightInfo(**vars(weight))
            for name, weight in told[part].items()
            if not is_hidden(name)
        }
    return StorageInfo(**told)


@router.get("/retention", operation_id="get_retention", summary="What is kept")
def get_retention(db: Db) -> RetentionPolicy:
    """The policy by which garbage is collected."""
    return RetentionPolicy.model_validate(db.retention.to_json())


@router.put("/retention", operation_id="set_retention", summary="Set what is kept")
def set_retention(body: RetentionPolicy, db: Db) -> RetentionPolicy:
    """Set the policy by which garbage is collected."""
    db.retention = body.policy()
    return RetentionPolicy.model_validate(db.retention.to_json())


@router.post("/collect", operation_id="collect_garbage", summary="Collect", status_code=202)
def collect_garbage(body: Collection, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Forget what the policy does not keep and give its space back, as a job."""
    keep = None if body.keep is None else body.keep.policy()

    def work(say: Any) -> dict[str, Any]:
        done = db.collect_garbage(keep, body.dry_run, say)
        return {
            "dry_run": done.is_dry,
            "snapshots": list(done.snapshots),
            "dropped": list(done.dropped),
            "kept": dict(done.kept),
            "before_bytes": done.before_bytes,
            "after_bytes": done.after_bytes,
        }

    return start_job(server, asking, "collect", work)


@router.post("/compact", operation_id="compact", summary="Compact", status_code=202)
def compact(server: Server, db: Db, asking: Asking) -> JobInfo:
    """Drain the journal, thin old trees and write packs anew, as a job."""
    return start_job(
        server, asking, "compact", lambda say: dataclasses.asdict(db.compact(progress=say))
    )


@router.post("/check", operation_id="check", summary="Check", status_code=202)
def check(body: Check, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Look at every chunk, reference and index, as a job."""

    def work(say: Any) -> dict[str, Any]:
        found = db.check(deep=body.deep, progress=say)
        return {
            "ok": found.ok,
            "problems": [dataclasses.asdict(problem) for problem in found.problems],
            "not_checked": [dataclasses.asdict(one) for one in found.not_checked],
            "snapshots": found.snapshots,
            "versions": found.versions,
            "chunks": found.chunks,
            "packs": found.packs,
            "syncs": found.syncs,
        }

    return start_job(server, asking, "check", work)


@router.post("/upkeep", operation_id="run_upkeep", summary="Upkeep now", status_code=202)
def run_upkeep(server: Server, db: Db, asking: Asking) -> JobInfo:
    """Do what keeps the database fast and sound, for a minute at most, as a job."""

    def work(say: Any) -> list[dict[str, Any]]:
        return [dataclasses.asdict(run) for run in db.upkeep(progress=say).runs]

    return start_job(server, asking, "upkeep", work)


@router.post("/erase", operation_id="erase_rows", summary="Erase rows", status_code=202)
def erase_rows(body: Erasure, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Take rows out of a table for good, as a job."""
    branch = branch_of(db, body.branch)
    described = branch.table(body.table)
    keys = [key_values(described, key) for key in body.keys]

    def work(_say: Any) -> dict[str, Any]:
        done = db.erase(
            body.table,
            keys,
            body.reason,
            body.aggregates,
            body.texts,
            branch.name,
            body.dry_run,
        )
        return done.to_json()

    return start_job(server, asking, "erase", work)


@router.post("/backup", operation_id="back_up", summary="Back up", status_code=202)
def back_up(body: NewBackup, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Back the database up, below the place that the server was told, as a job."""
    place = _below(server.settings.backup_place, body.name, "--backup-place")

    def work(say: Any) -> dict[str, Any]:
        made = db.backup(place, keep=body.keep, verify=body.verify, progress=say)
        return {"name": body.name, "point": made.point, "time": made.time, "bytes": made.bytes}

    return start_job(server, asking, "backup", work)


@router.post("/export", operation_id="export_tables", summary="Export", status_code=202)
def export_tables(body: NewExport, server: Server, db: Db, asking: Asking) -> JobInfo:
    """Write tables as files, below the folder that the server was told, as a job."""
    folder = _below(server.settings.export_folder, body.name, "--export-folder")
    at = db.at(ref_of(db, body.ref))

    def work(say: Any) -> dict[str, Any]:
        made = at.export(folder, body.tables, body.form, progress=say)
        return {
            "name": body.name,
            "snapshot": made.snapshot,
            "rows": made.rows,
            "bytes": made.bytes,
        }

    return start_job(server, asking, "export", work)


def _below(place: str | None, name: str, option: str) -> str:
    """A place of a name below the one that whoever started the server allows."""
    if place is None:
        raise Forbidden(f"this server writes no such files: whoever starts it says {option}")
    is_plain = name and name == Path(name).name and not name.startswith(".")
    if not is_plain or not name.isprintable() or any(mark in name for mark in "\\?#%:"):
        raise InvalidName(f"{name!r}: a name without slashes, in the place that {option} says")
    address, question, options = place.partition("?")
    return f"{address.rstrip('/')}/{name}{question}{options}"
