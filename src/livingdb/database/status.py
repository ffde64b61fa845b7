"""How a database stands: what is behind, due and failed, and what would be done next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from livingdb.alerts.outbox import label_of
from livingdb.catalog.alerts import OPEN
from livingdb.catalog.ids import SyncId
from livingdb.catalog.jobs import FAILED, JobRow
from livingdb.catalog.syncs import ERROR, HELD
from livingdb.database.sync import Sync, every_sync
from livingdb.derivation.lag import Lag
from livingdb.errors import InvalidData, LivingDBError
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.maintenance.upkeep.plan import PlannedJob

__all__ = ["Behind", "Status", "StatusItem", "check_limits", "find_status"]

_SHOWN = 20
_QUIET = "info"
"""Alerts that are no worse than this are no failures."""


@dataclass(frozen=True)
class Behind:
    """A sync whose target has not seen so many snapshots of its sources, for so many seconds.

    Both are None where what it reads was dropped; `why` says what it waits for, if that is more
    than its time, which `when` says.
    """

    name: str
    state: str
    when: str
    snapshots: int | None
    seconds: float | None
    why: str

    def __str__(self) -> str:
        if self.snapshots is None or self.seconds is None:
            return f"{self.name}: {self.why or 'what it reads is gone'}"
        unit = "snapshot" if self.snapshots == 1 else "snapshots"
        told = f"{self.name}: {self.snapshots:,} {unit}, {self.seconds:,.0f} s, {self.when}"
        return f"{told}: {self.why}" if self.why else told


@dataclass(frozen=True)
class StatusItem:
    """A sync, a job of the runner, an alert or its delivery; `time` is when, in UTC."""

    kind: str
    name: str
    message: str
    time: datetime | None = None

    def __str__(self) -> str:
        when = "" if self.time is None else f" ({self.time:%Y-%m-%d %H:%M:%S})"
        return f"{self.kind} {self.name}{when}: {self.message}".removesuffix(": ")


@dataclass
class Status:
    """How a database stands.

    behind   syncs whose targets have not seen all of their sources
    due      syncs and jobs that can be begun now
    running  jobs that somebody is doing
    failed   jobs, syncs that are held or in error, open alerts, deliveries that were given up,
             and what could not be asked
    next     what the runner would do, in that order, and when
    """

    behind: list[Behind] = field(default_factory=list)
    due: list[StatusItem] = field(default_factory=list)
    running: list[StatusItem] = field(default_factory=list)
    failed: list[StatusItem] = field(default_factory=list)
    next: list[StatusItem] = field(default_factory=list)
    branches: int = 0
    snapshots: int = 0
    packs: int = 0
    journal_bytes: int = 0
    last_upkeep: datetime | None = None
    last_check: datetime | None = None
    """When the runner had last looked at everything."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        parts: list[tuple[str, Sequence[object]]] = [
            ("failed", self.failed),
            ("behind", self.behind),
            ("running", self.running),
            ("due", [replace(item, time=None) for item in self.due]),
            ("next", [item for item in self.next if item not in self.due]),
        ]
        told = [_section(title, items) for title, items in parts if items]
        if not (self.failed or self.behind or self.due):
            told.insert(0, "nothing failed, is behind or is due")
        looked = "never" if self.last_check is None else f"{self.last_check:%Y-%m-%d %H:%M:%S}"
        told.append(
            f"{self.branches:,} branches, {self.snapshots:,} snapshots, {self.packs:,} packs, "
            f"{self.journal_bytes:,} bytes in the journal; all looked at: {looked}"
        )
        return "\n".join(told)


def _section(title: str, items: Sequence[object]) -> str:
    lines = [f"  {item}" for item in items]
    more = [f"  and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return "\n".join([title, *lines[:_SHOWN], *more])


def _is_time(seconds: object) -> bool:
    """Whether something is seconds that a clock counts, or for ever."""
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        return False
    return isinstance(seconds, float) or seconds <= sys.float_info.max


def check_limits(seconds: float, bytes_per_second: float | None) -> None:
    """`InvalidData` for limits of the runner that say nothing."""
    if not _is_time(seconds):
        told = repr(seconds)[:40]
        raise InvalidData(f"seconds={told}: the runner takes a time that is more than nothing")
    if bytes_per_second is not None and not bytes_per_second > 0:
        raise InvalidData(f"bytes_per_second={bytes_per_second!r}: more than nothing, or None")


def find_status(database: Database) -> Status:
    """Ask everything; what cannot be answered is among what failed."""
    return _Look(database).run()


class _Look:
    """One look at a database."""

    def __init__(self, database: Database):
        self._database = database
        self._graph: Graph = database._graph
        self._moment = now()
        self._status = Status()
        self._lags: dict[SyncId, Lag | None] = {}

    def run(self) -> Status:
        parts: dict[str, Callable[[], None]] = {
            "syncs": self._look_at_syncs,
            "alerts": self._look_at_alerts,
            "jobs": self._look_at_jobs,
            "figures": self._count,
        }
        for name, part in parts.items():
            with self._ask(name):
                part()
        self._status.next.sort(key=lambda item: item.time or datetime.min.replace(tzinfo=UTC))
        return self._status

    @contextmanager
    def _ask(self, name: str) -> Iterator[None]:
        """What cannot be answered is told, and keeps nothing else from being answered."""
        try:
            yield
        except LivingDBError as error:
            self._status.failed.append(StatusItem("status", name, str(error)))

    def _look_at_syncs(self) -> None:
        for sync in every_sync(self._database):
            with self._ask(sync.name):
                self._look_at_sync(sync)

    def _look_at_sync(self, sync: Sync) -> None:
        if sync.state in (HELD, ERROR):
            said = f"{sync.state}: {sync.reason}"
            self._status.failed.append(StatusItem("sync", sync.name, said))
        lag = self._lags[sync._chain[0].id] = sync.lag
        if lag is None or lag:
            count, seconds = (None, None) if lag is None else (int(lag), round(lag.seconds, 3))
            why = sync.reason or ("" if lag is None else lag.reason)
            self._status.behind.append(
                Behind(sync.name, sync.state, sync.when, count, seconds, why)
            )

    def _look_at_alerts(self) -> None:
        catalog, failed = self._graph.catalog, self._status.failed
        for alert in catalog.alerts.all(OPEN):
            if alert.severity != _QUIET:
                said = f"{alert.event}: {alert.message}"
                failed.append(StatusItem("alert", alert.sync, said, to_datetime(alert.time)))
        for row in catalog.outbox.given_up():
            said = f"alert {row.alert} was not taken: {row.error}"
            failed.append(StatusItem("delivery", label_of(row.sink), said))

    def _look_at_jobs(self) -> None:
        from livingdb.maintenance.upkeep.jobs import JOBS, PROPAGATE
        from livingdb.maintenance.upkeep.plan import plan_jobs

        rows = self._graph.catalog.jobs.all()
        self._look_at_rows(rows)
        with self._ask("due syncs"):
            self._look_at_turns()
        jobs = [job for job in JOBS if job is not PROPAGATE]
        for planned in plan_jobs(self._database._upkeep_work(), jobs, rows, self._moment):
            self._look_at_job(planned)

    def _look_at_rows(self, rows: dict[str, JobRow]) -> None:
        """What became of the jobs when they were last done."""
        for row in rows.values():
            if row.state == FAILED:
                item = StatusItem("job", row.name, row.error, to_datetime(row.ended))
                self._status.failed.append(item)
        ended = max((row.ended for row in rows.values()), default=0)
        self._status.last_upkeep = to_datetime(ended) if ended else None
        checked = rows["check"].details.get("memory", {}).get("ended") if "check" in rows else 0
        self._status.last_check = to_datetime(checked) if checked else None

    def _look_at_turns(self) -> None:
        """The syncs that the runner carries something along, now or later."""
        from livingdb.commit.deriving.runner import sync_turns

        moment = self._moment / 1e6
        for turn in sync_turns(self._graph, moment, self._database.trust, self._lags):
            when = datetime.fromtimestamp(turn.time, UTC)
            name = str(turn.sync.spec.get("name", turn.sync.name))
            item = StatusItem("sync", name, turn.sync.frequency, when)
            self._add(item, turn.time <= moment)

    def _look_at_job(self, planned: PlannedJob) -> None:
        name, row = planned.job.name, planned.row
        if planned.is_taken and row is not None:
            who = row.holder.partition(":")[0]
            said = f"on {who}: {row.progress}".removesuffix(": ")
            self._status.running.append(StatusItem("job", name, said, to_datetime(row.began)))
        elif planned.error is not None:
            self._status.failed.append(StatusItem("job", name, str(planned.error)))
        elif planned.estimate is not None:
            when = to_datetime(max(planned.due, self._moment))
            item = StatusItem("job", name, planned.estimate.reason, when)
            self._add(item, planned.due <= self._moment)

    def _add(self, item: StatusItem, is_due: bool) -> None:
        self._status.next.append(item)
        if is_due:
            self._status.due.append(item)

    def _count(self) -> None:
        graph, status = self._graph, self._status
        status.branches = graph.branches.count()
        status.snapshots = graph.snapshots.newest_number()
        status.packs = len(graph.catalog.packs.names())
        status.journal_bytes = graph.store.journal.size_bytes()
