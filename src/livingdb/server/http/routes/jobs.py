"""Jobs: long work, how far it is, and its end."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from livingdb.server.http.context import Asking, Context, Server
from livingdb.server.http.doorkeeper import Caller
from livingdb.server.http.jobs import Job, Progress, Work
from livingdb.server.http.models import Answer
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["JobInfo", "job_info", "router", "start_job"]

router = SubjectRouter(prefix="/v1/jobs", tags=["jobs"])
JobId = Annotated[str, Path(description="The job.", examples=["5d1e…"])]


class JobError(Answer):
    """Why a job failed."""

    code: str
    message: str
    details: dict[str, Any] = Field(default_factory=dict)


class JobInfo(Answer):
    """Work under way, or what became of it."""

    id: str
    kind: str = Field(
        description="The operation, where `Prefer` made a job of it.", examples=["collect"]
    )
    state: Literal["waiting", "running", "cancelling", "done", "failed", "cancelled"]
    began: datetime
    ended: datetime | None
    progress: str
    done: int | None
    total: int | None
    result: Any
    error: JobError | None


class JobList(Answer):
    """The jobs of who asks, newest first."""

    jobs: list[JobInfo]


def job_info(job: Job) -> JobInfo:
    """What is told of a job."""
    return JobInfo(
        id=job.id,
        kind=job.kind,
        state=job.state,  # type: ignore[arg-type]
        began=job.began,
        ended=job.ended,
        progress=job.progress,
        done=job.done,
        total=job.total,
        result=job.result,
        error=None if job.error is None else JobError(**job.error),
    )


def start_job(server: Context, asking: Caller, kind: str, work: Work) -> JobInfo:
    """Begin work in the name of who asks, with the rights that they have when it begins."""

    def checked(say: Progress) -> Any:
        with server.keeper.acting_as(asking):
            return work(say)

    return job_info(server.jobs.start(kind, asking.key, checked))


@router.get("", operation_id="list_jobs", summary="Jobs")
def list_jobs(server: Server, asking: Asking) -> JobList:
    """The jobs of who asks."""
    return JobList(jobs=[job_info(job) for job in server.jobs.all(asking.key)])


@router.get("/{job}", operation_id="get_job", summary="One job")
def get_job(job: JobId, server: Server, asking: Asking) -> JobInfo:
    """How far a job is, or what became of it."""
    return job_info(server.jobs.find(job, asking.key))


@router.post("/{job}/cancel", operation_id="cancel_job", summary="End a job", status_code=202)
def cancel_job(job: JobId, server: Server, asking: Asking) -> JobInfo:
    """Ask a job to end: it is `cancelling` until it next can, and stores nothing from now on."""
    found = server.jobs.find(job, asking.key)
    server.jobs.cancel(found)
    return job_info(found)
