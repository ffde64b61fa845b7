"""The runner: takes the jobs that are due, what brings most for a second first, in bounded time.

Several may run against one database.  Who does a job says so in its row, by compare-and-swap, and
again and again as long as it lasts: a job whose runner was killed is free as soon as somebody can
tell, and at the latest when nothing was heard of it for some time.  Should two do one job
nevertheless, nothing comes of it but that it is done twice: steps commit as everybody else does.
"""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from livingdb.alerts.raise_alert import raise_alert, resolve_alerts
from livingdb.catalog.jobs import FAILED, IDLE, RUNNING, JobRow
from livingdb.errors import LivingDBError, Locked
from livingdb.files.processes import process_name
from livingdb.graph.graph import now
from livingdb.maintenance.upkeep.job import Job, Memory, Step, Work, error_text
from livingdb.maintenance.upkeep.pace import Pace
from livingdb.maintenance.upkeep.plan import PlannedJob, memory_of, plan_jobs

__all__ = ["JobRun", "UpkeepReport", "run_jobs"]

_log = logging.getLogger("livingdb")

LEASE_SECONDS = 600.0
"""For how long a job is held by somebody of whom nothing is heard."""
_HEARTBEAT_SECONDS = 1.0
_SLICE_SECONDS = 10.0
"""For how long a job goes on before it is asked what else is due."""
_PATIENCE_SECONDS = 5.0
"""What is done in one step may take so long, however little time is left."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 30.0, 3_600.0
_ALARMING = 3
"""After so many failures in a row somebody is told."""
_KEPT_RUNS = 16
_NOBODY = "runner"

Progress = Callable[[str, str], object]
"""Is told the name of a job, and how far it is."""


@dataclass(frozen=True)
class JobRun:
    """One run of a job: how many things it did, `made` in words, in how many seconds.

    `error` says what went wrong, and is empty if nothing did.  What `is_finished` has nothing
    left to do for now.
    """

    name: str
    did: int
    made: str
    seconds: float
    error: str = ""
    is_finished: bool = True

    def __str__(self) -> str:
        told = f"{self.name}: {self.did:,} {self.made}, {self.seconds:.2f} s"
        if self.error:
            return f"{told}; failed: {self.error}"
        return told if self.is_finished else f"{told}; there is more to do"


@dataclass(frozen=True)
class UpkeepReport:
    """What the runner did: one run of a job after the other, in how many seconds."""

    runs: tuple[JobRun, ...]
    seconds: float

    @property
    def failed(self) -> tuple[JobRun, ...]:
        """The runs that failed; each is tried again, later."""
        return tuple(run for run in self.runs if run.error)

    def __bool__(self) -> bool:
        return any(run.did for run in self.runs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.runs)) or "nothing is due"


def run_jobs(
    work: Work,
    jobs: Sequence[Job],
    seconds: float,
    bytes_per_second: float | None = None,
    progress: Progress | None = None,
) -> UpkeepReport:
    """Do what is due until it is done, or so much time has passed; a step that is begun ends.

    A job that fails is told and left alone for some time; the others go on.
    """
    return _Runner(work, jobs, seconds, Pace(bytes_per_second), progress).run()


class _Runner:
    """One round."""

    def __init__(
        self,
        work: Work,
        jobs: Sequence[Job],
        seconds: float,
        pace: Pace,
        progress: Progress | None,
    ):
        self._work = work
        self._jobs = list(jobs)
        self._seconds = seconds
        self._pace = pace
        self._progress = progress
        self._began = clock.monotonic()
        self._spent: dict[str, float] = {}
        self._runs: list[JobRun] = []

    def run(self) -> UpkeepReport:
        while self._left() > 0:
            chosen = self._choose()
            if chosen is None:
                break
            done = self._do(chosen)
            if done is not None:
                self._runs.append(done)
            if done is None or done.is_finished or done.error:
                self._jobs.remove(chosen.job)
        return UpkeepReport(tuple(self._runs), clock.monotonic() - self._began)

    def _left(self) -> float:
        return self._seconds - (clock.monotonic() - self._began)

    def _time_for(self, job: Job) -> float:
        """How much time a job may have still."""
        return min(self._left(), job.share * self._seconds - self._spent.get(job.name, 0.0))

    def _choose(self) -> PlannedJob | None:
        """What brings most for a second of what is due and fits into the time."""
        moment = now()
        rows = self._work.graph.catalog.jobs.all()
        jobs = [job for job in self._jobs if self._time_for(job) > 0]
        for planned in plan_jobs(self._work, jobs, rows, moment):
            whole = planned.estimate is not None and planned.estimate.is_whole
            patience = max(self._time_for(planned.job), _PATIENCE_SECONDS)
            if planned.is_due(moment) and not (whole and planned.cost_seconds > patience):
                return planned
        return None

    def _do(self, planned: PlannedJob) -> JobRun | None:
        """Do a job for some time; None if somebody else took it first."""
        held = _Claim.take(self._work, planned)
        if held is None:
            return None
        job, ticks = planned.job, clock.monotonic()
        end = ticks + min(self._time_for(job), _SLICE_SECONDS)
        try:
            if planned.error is not None:
                raise planned.error
            is_finished = self._take_steps(job, held, end)
        except Exception as error:
            held.fail(error_text(error))
            is_finished = False
        except BaseException:
            held.end(is_finished=False)
            raise
        else:
            if held.problems:
                held.fail("; ".join(held.problems[:_ALARMING]))
            else:
                held.end(is_finished)
        spent = clock.monotonic() - ticks
        self._spent[job.name] = self._spent.get(job.name, 0.0) + spent
        return JobRun(job.name, held.did, job.made, spent, held.error, is_finished)

    def _take_steps(self, job: Job, held: _Claim, end: float) -> bool:
        """Whether there is nothing left to do, and the time was enough."""
        steps: Iterator[Step] = job.steps(self._work, held.memory)
        for step in steps:
            held.note(step)
            if self._progress is not None:
                self._progress(job.name, step.progress)
            self._pace.wait(self._left())
            if clock.monotonic() >= end:
                return step.is_last
        return True


class _Claim:
    """A job that this runner does, as its row says."""

    def __init__(self, work: Work, job: Job, row: JobRow):
        self._work, self._job, self._row = work, job, row
        self._ticks = self._heard = clock.monotonic()
        self._units = 0.0
        self.memory: Memory = memory_of(row)
        self.did = 0
        self.problems: list[str] = []
        self.error = ""

    @classmethod
    def take(cls, work: Work, planned: PlannedJob) -> _Claim | None:
        """Take a job; None if somebody else did meanwhile."""
        seen, moment = planned.row, now()
        known = seen if seen is not None else JobRow(planned.job.name)
        taken = replace(
            known,
            state=RUNNING,
            holder=f"{process_name()} {uuid4().hex[:12]}",
            began=moment,
            until=moment + int(LEASE_SECONDS * 1e6),
            progress="",
        )
        catalog = work.graph.catalog
        try:
            with catalog.write() as connection:
                is_ours = catalog.jobs.swap(connection, seen, taken)
        except Locked:
            return None
        return cls(work, planned.job, taken) if is_ours else None

    def note(self, step: Step) -> None:
        """A step was taken: it is remembered, and now and then written down."""
        self.memory = step.memory
        self.did += step.did
        self._units += step.units
        self.problems += step.problems
        if clock.monotonic() - self._heard >= _HEARTBEAT_SECONDS:
            self._heard = clock.monotonic()
            until = now() + int(LEASE_SECONDS * 1e6)
            self._write(replace(self._row, until=until, progress=step.progress))

    def end(self, is_finished: bool) -> None:
        """Let go of it: there is nothing left to do, or others may go on."""
        progress = "" if is_finished else self._row.progress
        row = replace(self._row, state=IDLE, due=0, failures=0, error="", progress=progress)
        is_mended = self._row.failures >= _ALARMING
        self._write(self._ended(row, "done"), self._resolve if is_mended else None)

    def fail(self, error: str) -> None:
        """It failed: it is tried again after a pause, which doubles each time."""
        self.error = error
        failures = self._row.failures + 1
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1))
        due = now() + int(pause * 1e6)
        row = replace(self._row, state=FAILED, due=due, failures=failures, error=error)
        self._write(self._ended(row, "failed"), self._alert if failures == _ALARMING else None)

    def _ended(self, row: JobRow, outcome: str) -> JobRow:
        """The row of a run that has ended, with what it took."""
        moment, spent = now(), clock.monotonic() - self._ticks
        run = {
            "time": row.began,
            "seconds": round(spent, 6),
            "outcome": outcome,
            "did": self.did,
            "error": self.error,
        }
        runs = [run, *row.details.get("runs", ())][:_KEPT_RUNS]
        details: dict[str, Any] = {**row.details, "runs": runs}
        if self._units:
            each = spent / self._units
            known = details.get("unit_seconds")
            details["unit_seconds"] = each if known is None else (each + float(known)) / 2
        return replace(row, ended=moment, until=moment, details=details)

    def _write(self, row: JobRow, also: Callable[[Any], object] | None = None) -> None:
        """Write the row down, unless somebody else has the job by now.

        If that cannot be done, the job is held until it is taken for lost: nothing else is.
        """
        row = replace(row, details={**row.details, "memory": dict(self.memory)})
        catalog = self._work.graph.catalog
        try:
            with catalog.write() as connection:
                if catalog.jobs.swap(connection, self._row, row):
                    if also is not None:
                        also(connection)
                    self._row = row
        except LivingDBError as error:
            _log.warning("upkeep: what became of the job %r: %s", self._job.name, error)

    @property
    def _about(self) -> str:
        return f"upkeep/{self._job.name}"

    def _alert(self, connection: Any) -> None:
        text = f"the job {self._job.name!r} failed {_ALARMING} times in a row: {self.error}"
        graph = self._work.graph
        raise_alert(graph, connection, self._about, "upkeep_failed", "error", text, now())

    def _resolve(self, connection: Any) -> None:
        graph = self._work.graph
        alerts = graph.catalog.alerts.unresolved_alerts(connection, self._about)
        if any(alert.event == "upkeep_failed" for alert in alerts):
            resolve_alerts(graph, connection, self._about, _NOBODY, "the job works again")
