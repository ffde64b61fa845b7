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
from livingdb.commit.carry_views import Views
from livingdb.commit.derive import Outcome, is_behind, refresh
from livingdb.derivation.lag import Lag
from livingdb.derivation.source_positions import source_heads, source_positions
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError, Untrusted
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph, now
from livingdb.graph.schedule import Schedule, parse_schedule
from livingdb.guard.sync_failure import TRANSIENT_ERRORS, record_failure
from livingdb.guard.sync_state import last_pair

__all__ = ["due_syncs", "lag_of", "propagate"]

_SEVERAL = 4
_TRIES = 3
_FAR = 10_000


def lag_of(graph: Graph, sync: SyncRow, time: float | None = None) -> Lag:
    """How far a derived object is behind what it reads, now or at a time in seconds."""
    moment = now() if time is None else int(time * 1e6)
    if sync.is_active and sync.frequency == "immediate":
        return Lag(0)
    if sync.kind != KIND:
        return _schema_lag(graph, sync, moment)
    view = View.from_json(sync.spec)
    at, _ = source_heads(graph, view)
    target = graph.branches.by_id(sync.target)
    assert target is not None
    head = graph.snapshots.at(target.head)
    if not is_behind(graph, view, head, at):
        return Lag(0)
    then = source_positions(graph, head)
    count, oldest = 0, moment
    for branch, address in at.items():
        seen = graph.snapshots.find(then[branch]) if branch in then else None
        row = graph.snapshots.find(address)
        assert row is not None
        missed = _missed_snapshots(graph, row, seen)
        count += len(missed)
        oldest = min([oldest, *(item.time for item in missed)])
    return Lag(max(count, 1), max(0.0, (moment - oldest) / 1e6))


def _schema_lag(graph: Graph, sync: SyncRow, moment: int) -> Lag:
    """How far the target of a schema sync that stopped is behind."""
    pair = last_pair(graph, sync)
    (number,) = sync.origins
    branch = graph.branches.by_id(number)
    assert branch is not None
    missed = _missed_snapshots(
        graph, graph.snapshots.at(branch.head), graph.snapshots.find(pair[number])
    )
    oldest = min([moment, *(row.time for row in missed)])
    return Lag(len(missed), max(0.0, (moment - oldest) / 1e6))


def _missed_snapshots(
    graph: Graph, head: SnapshotRow, seen: SnapshotRow | None
) -> list[SnapshotRow]:
    """The snapshots of a branch after one, or all if that is not behind its head."""
    missed: list[SnapshotRow] = []
    for row in first_parents(graph.snapshots, head):
        if (seen is not None and row.sequence == seen.sequence) or len(missed) >= _FAR:
            break
        missed.append(row)
    return missed


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
        oldest = moment - lag_of(graph, sync, moment).seconds
    return when.is_due(moment, last, oldest)


def _last_run_time(graph: Graph, sync: SyncRow, head: SnapshotRow) -> float:
    """When the sync last did something, in seconds."""
    runs = graph.catalog.runs.of(sync.id, 1)
    return max([head.time, *(run.time for run in runs)]) / 1e6


@dataclass(frozen=True)
class _Runner:
    graph: Graph
    author: str
    engine: str | None
    trust: Sequence[str]

    def run(self, sync: SyncRow) -> Outcome:
        """Run one sync; what fails is recorded and told, not raised."""
        name = sync.spec["name"]
        for attempt in range(_TRIES):
            epoch = self.graph.catalog.meta(EPOCH)
            began, ticks = now(), clock.perf_counter()
            try:
                asked = parse_schedule(sync.frequency).kind == "every"
                return refresh(self.graph, sync, self.author, self.engine, self.trust, asked=asked)
            except (*TRANSIENT_ERRORS, Untrusted) as error:
                return Outcome(name, None, error=str(error))
            except LivingDBError as error:
                # Syncs changed meanwhile: that may be why, and nothing is wrong with this one.
                if attempt < _TRIES - 1 and self.graph.catalog.meta(EPOCH) != epoch:
                    continue
                spent = int((clock.perf_counter() - ticks) * 1e6)
                record_failure(self.graph, sync, error, began, spent)
                return Outcome(name, None, error=str(error))
        raise AssertionError


def propagate(
    graph: Graph,
    author: str,
    engine: str | None,
    trust: Sequence[str],
    time: float | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> list[Outcome]:
    """Run everything that is due; what was done, in that order.

    Those that do not read each other run side by side.
    """
    waiting = due_syncs(graph, time)
    runner = _Runner(graph, author, engine, trust)
    outcomes: list[Outcome] = []
    total, failures = len(waiting), set[BranchId]()
    while waiting:
        targets = {sync.target for sync in waiting}
        ready = [sync for sync in waiting if not targets & {*sync.sources} - {sync.target}]
        waiting = [sync for sync in waiting if sync not in ready]
        ready = [sync for sync in ready if not failures & {*sync.sources}]
        if progress is not None:
            for sync in ready:
                progress(len(outcomes), total, sync.spec["name"])
        for sync, outcome in zip(ready, _run_all(runner, ready), strict=True):
            if outcome.error is not None:
                failures.add(sync.target)
            outcomes.append(outcome)
    if progress is not None:
        progress(total, total, "")
    return [outcome for outcome in outcomes if outcome.snapshot is not None or outcome.error]


def _run_all(runner: _Runner, syncs: Sequence[SyncRow]) -> list[Outcome]:
    if len(syncs) < 2:
        return [runner.run(sync) for sync in syncs]
    with ThreadPoolExecutor(min(_SEVERAL, len(syncs)), "livingdb-propagate") as pool:
        return list(pool.map(runner.run, syncs))
