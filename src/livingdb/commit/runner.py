"""The runner: takes the syncs that are due, each after those it reads."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from livingdb.catalog.branches import EPOCH
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carry_view import Views
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.refresh import Outcome, refresh
from livingdb.commit.sync_order import upstream_syncs
from livingdb.errors import LivingDBError, Untrusted
from livingdb.graph.graph import Graph, now
from livingdb.graph.schedule import Schedule, parse_schedule
from livingdb.guard.sync_failure import TRANSIENT_ERRORS, record_failure
from livingdb.guard.sync_lag import sync_lag

__all__ = ["due_syncs", "propagate"]

_SEVERAL = 4
_TRIES = 3


def due_syncs(graph: Graph, time: float | None = None) -> list[SyncRow]:
    """The syncs to be run now, those that others read first.

    One that follows what is downstream is due if something that reads it is.
    """
    moment = clock.time() if time is None else time
    active = [sync for sync in graph.catalog.syncs.all() if sync.is_active]
    every = Views.of(active).every
    wanted: set[SyncId] = set()
    readers: dict[BranchId, list[SyncId]] = {}
    for sync, view in every:
        for branch in view.branches:
            readers.setdefault(branch, []).append(sync.id)
    found = []
    for sync, _ in reversed(every):
        when = parse_schedule(sync.frequency)
        if when.kind == "downstream":
            is_due = any(reader in wanted for reader in readers.get(sync.target, ()))
        elif when.kind in ("immediate", "on demand"):
            is_due = False
        else:
            is_due = _is_due(graph, sync, when, moment)
        if is_due:
            wanted.add(sync.id)
            found.append(sync)
    return found[::-1]


def _is_due(graph: Graph, sync: SyncRow, when: Schedule, moment: float) -> bool:
    target = graph.branches.by_id(sync.target)
    if target is None:
        return False
    head = graph.snapshots.at(target.head)
    last = _last_run_time(graph, sync, head)
    oldest = moment
    if when.kind == "lag":
        lag = sync_lag(graph, [sync], moment)
        oldest = moment - (0.0 if lag is None else lag.seconds)
    return when.is_due(moment, last, oldest)


def _last_run_time(graph: Graph, sync: SyncRow, head: SnapshotRow) -> float:
    """When the sync last did something, in seconds."""
    runs = graph.catalog.runs.of(sync.id, 1)
    return max([head.time, *(run.time for run in runs)]) / 1e6


@dataclass(frozen=True)
class _Runner:
    pipeline: Pipeline
    author: str
    engine: str | None

    def run(self, sync: SyncRow) -> Outcome:
        """Run one sync; what fails is recorded and told, not raised."""
        graph, name = self.pipeline.graph, sync.spec["name"]
        for attempt in range(_TRIES):
            epoch = graph.catalog.meta(EPOCH)
            began, ticks = now(), clock.perf_counter()
            try:
                asked = parse_schedule(sync.frequency).kind == "every"
                return refresh(self.pipeline, sync, self.author, self.engine, asked=asked)
            except (*TRANSIENT_ERRORS, Untrusted) as error:
                return Outcome(name, None, error=str(error))
            except LivingDBError as error:
                # Syncs changed meanwhile: that may be why, and nothing is wrong with this one.
                if attempt < _TRIES - 1 and graph.catalog.meta(EPOCH) != epoch:
                    continue
                spent = int((clock.perf_counter() - ticks) * 1e6)
                record_failure(graph, sync, error, began, spent)
                return Outcome(name, None, error=str(error))
        raise AssertionError


def propagate(
    pipeline: Pipeline,
    author: str,
    engine: str | None,
    time: float | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> list[Outcome]:
    """Run everything that is due; what was done, in that order.

    Those that do not read each other run side by side.
    """
    graph = pipeline.graph
    waiting = due_syncs(graph, time)
    upstream = upstream_syncs([sync for sync in graph.catalog.syncs.all() if sync.is_active])
    runner = _Runner(pipeline, author, engine)
    outcomes: list[Outcome] = []
    total = len(waiting)
    while waiting:
        names = {sync.id for sync in waiting}
        ready = [sync for sync in waiting if not names & upstream[sync.id] - {sync.id}]
        waiting = [sync for sync in waiting if sync not in ready]
        if progress is not None:
            for sync in ready:
                progress(len(outcomes), total, sync.spec["name"])
        outcomes += _run_all(runner, ready)
    if progress is not None:
        progress(total, total, "")
    return [outcome for outcome in outcomes if outcome.snapshot is not None or outcome.error]


def _run_all(runner: _Runner, syncs: Sequence[SyncRow]) -> list[Outcome]:
    if len(syncs) < 2:
        return [runner.run(sync) for sync in syncs]
    with ThreadPoolExecutor(min(_SEVERAL, len(syncs)), "livingdb-propagate") as pool:
        return list(pool.map(runner.run, syncs))
