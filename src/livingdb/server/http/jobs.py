"""Jobs: long work that goes on when its request was answered, with progress and a way to end it.

A job runs in a thread of the server, in the name of who began it, whatever becomes of their
connection; more than a few of one user's wait for each other, and for nobody else's.  Once it is
cancelled it ends where it next tells how far it is, with its next query or with its commit; until
then, while what it runs cannot be interrupted, it is `cancelling`.  Jobs are kept in memory: a
server that stops cancels them, and one that starts knows none.  What they had done by then is done
or not, as if a command had been interrupted.
"""

from __future__ import annotations

import contextvars
import json
import secrets
import time as clock
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from livingdb.errors import LimitExceeded, LivingDBError, NotFound
from livingdb.interruption import Interruption, interruptible
from livingdb.server.http.json_values import plain_value
from livingdb.server.logs import error_facts, tell
from livingdb.server.settings import Limits

__all__ = [
    "CANCELLED",
    "CANCELLING",
    "DONE",
    "FAILED",
    "RUNNING",
    "WAITING",
    "Job",
    "JobFailed",
    "Jobs",
    "JsonText",
    "Progress",
    "Work",
]

WAITING, RUNNING, CANCELLING = "waiting", "running", "cancelling"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
_AT_A_TIME = 2
"""Jobs of one user; more of them wait."""
_KEPT = 1000
_KEPT_BYTES = 32 << 20
"""Of large results of one user."""
_CANCELLED = "the job was cancelled"

Progress = Callable[..., None]
Work = Callable[[Progress], Any]


@dataclass(frozen=True)
class JsonText:
    """A result as it will be sent, which takes no more memory than that."""

    text: bytes


class JobFailed(Exception):
    """What a job asked for was refused, in the words of an answer."""

    def __init__(self, code: str, message: str, details: dict[str, Any]):
        super().__init__(message)
        self.told = {"code": code, "message": message, "details": details}


class _Cancelled(Exception):
    """Somebody ended the job."""


@dataclass
class Job:
    """Work under way, or what became of it."""

    kind: str
    owner: str
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    progress: str = ""
    done: int | None = None
    total: int | None = None
    kept: Any = None
    error: dict[str, Any] | None = None
    asked_to_end: Event = field(default_factory=Event, repr=False)
    over: Event = field(default_factory=Event, repr=False)
    interruption: Interruption = field(default_factory=Interruption, repr=False)
    stage: str = field(default=WAITING, repr=False)

    @property
    def result(self) -> Any:
        """What it gave; None if it has not ended well."""
        return json.loads(self.kept.text) if isinstance(self.kept, JsonText) else self.kept

    @property
    def kept_bytes(self) -> int:
        """Of a result that may be large."""
        return len(self.kept.text) if isinstance(self.kept, JsonText) else 0

    @property
    def state(self) -> str:
        """What has become of it: it is cancelling from when it was asked to end until it has."""
        is_ending = self.stage in (WAITING, RUNNING) and self.asked_to_end.is_set()
        return CANCELLING if is_ending else self.stage

    def report(self, *told: Any) -> None:
        """How far it is, in whatever words the work has; ends it if it was cancelled."""
        if self.asked_to_end.is_set():
            raise _Cancelled
        numbers = [one for one in told if isinstance(one, int) and not isinstance(one, bool)]
        words = [str(one) for one in told if isinstance(one, str) and one]
        if len(numbers) >= 2:
            self.done, self.total = numbers[:2]
        self.progress = " ".join(words)[:200] or self.progress

    def cancel(self) -> None:
        """Ask it to end."""
        self.asked_to_end.set()
        self.interruption.stop(_CANCELLED)


@dataclass
class _Queue:
    """The jobs of one user that wait, and the threads in which others run."""

    waiting: deque[Callable[[], None]] = field(default_factory=deque)
    threads: int = 0


class Jobs:
    """The jobs of one server."""

    def __init__(self, limits: Limits, changed: Callable[[Job], None] = lambda job: None):
        self._limits = limits
        self._changed = changed
        self._lock = Lock()
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, _Queue] = {}

    def count(self, *states: str) -> int:
        """How many are in one of these states."""
        with self._lock:
            return sum(job.state in states for job in self._jobs.values())

    def start(self, kind: str, owner: str, work: Work) -> Job:
        """Begin work in the name of who asks, as soon as there is a thread for it.

        `owner` is the key of who asks; a name may be somebody else's by the time it is done.
        """
        job = Job(kind, owner)
        with self._lock:
            mine = [j for j in self._jobs.values() if j.owner == owner and not j.over.is_set()]
            if len(mine) >= self._limits.jobs:
                raise LimitExceeded(f"you have {len(mine)} jobs already: wait for one")
            self._drop_old()
            self._jobs[job.id] = job
        self._changed(job)
        context = contextvars.copy_context()
        with self._lock:
            queue = self._queues.setdefault(owner, _Queue())
            queue.waiting.append(partial(context.run, self._run, job, work))
            if queue.threads < _AT_A_TIME:
                queue.threads += 1
                Thread(target=self._work, args=(owner,), name="livingdb-job").start()
        return job

    def _work(self, owner: str) -> None:
        """Run the jobs of one user, one after the other, until none waits."""
        while True:
            with self._lock:
                queue = self._queues[owner]
                if not queue.waiting:
                    queue.threads -= 1
                    if not queue.threads:
                        del self._queues[owner]
                    return
                run = queue.waiting.popleft()
            run()

    def all(self, owner: str) -> list[Job]:
        """Those of one user, newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.owner == owner]

    def find(self, number: str, owner: str) -> Job:
        """A job of a user; `NotFound` for those of others, too."""
        with self._lock:
            found = self._jobs.get(number)
        if found is None or found.owner != owner:
            raise NotFound(f"there is no job {number!r}")
        return found

    def cancel(self, job: Job) -> None:
        """Ask a job to end, and tell those who listen."""
        job.cancel()
        if not job.over.is_set():
            self._changed(job)

    def close(self, seconds: float) -> None:
        """Cancel all of them, and wait so long for those that run."""
        with self._lock:
            left = [job for job in self._jobs.values() if not job.over.is_set()]
        for job in left:
            job.cancel()
        end = clock.monotonic() + seconds
        for job in left:
            job.over.wait(max(0.0, end - clock.monotonic()))

    def _run(self, job: Job, work: Work) -> None:
        try:
            with interruptible(job.interruption):
                job.report()
                job.stage = RUNNING
                self._changed(job)
                given = work(job.report)
                job.kept = given if isinstance(given, JsonText) else plain_value(given)
            job.stage = DONE  # also of what was asked to end when all of it was done
        except _Cancelled:
            job.stage = CANCELLED
        except (LivingDBError, JobFailed) as error:
            job.error = (
                error.told
                if isinstance(error, JobFailed)
                else {"code": error.code, "message": str(error)}
            )
            job.stage = CANCELLED if job.asked_to_end.is_set() else FAILED
        except Exception as error:
            tell("job failed", 40, id=job.id, kind=job.kind, **error_facts(error))
            said = f"the server failed; its log has more under {job.id}"
            job.error = {"code": "internal", "message": said}
            job.stage = FAILED
        finally:
            job.ended = datetime.now(UTC)
            with self._lock:
                self._drop_large(job)
            job.over.set()
            self._changed(job)

    def _drop_large(self, last: Job) -> None:
        """Forget the oldest large results of a user, until the others take no more than a share."""
        mine = (job for job in self._jobs.values() if job.owner == last.owner)
        ended = [job for job in mine if job is last or job.over.is_set()]
        left = sum(job.kept_bytes for job in ended)
        for job in ended:
            if left <= _KEPT_BYTES:
                return
            if job.kept_bytes:
                left -= job.kept_bytes
                del self._jobs[job.id]

    def _drop_old(self) -> None:
        """Forget what ended longest ago, if there are many."""
        ended = [number for number, job in self._jobs.items() if job.over.is_set()]
        for number in ended[: max(0, len(self._jobs) - _KEPT)]:
            del self._jobs[number]
