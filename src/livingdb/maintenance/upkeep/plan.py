"""What the runner would do, in which order and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.catalog.jobs import RUNNING, JobRow
from livingdb.files.processes import has_ended
from livingdb.maintenance.upkeep.job import Estimate, Job, Memory, Work

__all__ = ["PlannedJob", "is_taken", "memory_of", "plan_jobs"]

_LEAST_SECONDS = 0.001


@dataclass(frozen=True)
class PlannedJob:
    """A job, the row of it that was seen, and what there is to do; or why that is not known."""

    job: Job
    row: JobRow | None
    estimate: Estimate | None
    error: Exception | None = None
    is_taken: bool = False
    """Whether somebody else is doing it."""

    @property
    def due(self) -> int:
        """From when on it can be begun, in microseconds."""
        wanted = 0 if self.estimate is None else self.estimate.due
        return max(wanted, 0 if self.row is None else self.row.due)

    @property
    def cost_seconds(self) -> float:
        """What it takes, by what it took before."""
        known = None if self.row is None else self.row.details.get("unit_seconds")
        each = self.job.unit_seconds if known is None else float(known)
        return max(_LEAST_SECONDS, each * (1.0 if self.estimate is None else self.estimate.units))

    @property
    def worth(self) -> float:
        """What it brings for each second that it takes."""
        return 0.0 if self.estimate is None else self.estimate.benefit_seconds / self.cost_seconds

    def is_due(self, moment: int) -> bool:
        """Whether it can be begun now: there is something to do, and nobody is doing it."""
        has_work = self.estimate is not None or self.error is not None
        return has_work and not self.is_taken and self.due <= moment


def plan_jobs(
    work: Work, jobs: Sequence[Job], rows: Mapping[str, JobRow], moment: int
) -> list[PlannedJob]:
    """The jobs, those that bring most for a second first; one that cannot say is among them."""
    found = [_planned(work, job, rows.get(job.name), moment) for job in jobs]
    return sorted(found, key=lambda each: -each.worth)


def _planned(work: Work, job: Job, row: JobRow | None, moment: int) -> PlannedJob:
    held = row is not None and is_taken(row, moment)
    try:
        estimate = job.estimate(work, memory_of(row))
    except Exception as error:  # whatever is wrong, the other jobs go on
        return PlannedJob(job, row, None, error, held)
    return PlannedJob(job, row, estimate, None, held)


def is_taken(row: JobRow, moment: int) -> bool:
    """Whether somebody is doing a job: a process that has ended is not."""
    is_held = row.state == RUNNING and row.until > moment
    return is_held and not has_ended(row.holder.partition(" ")[0])


def memory_of(row: JobRow | None) -> Memory:
    """What a job remembers."""
    found: Memory = {} if row is None else row.details.get("memory", {})
    return found
