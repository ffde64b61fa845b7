"""The runner: takes the syncs that are due, each after those it reads."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy import Connection

from livingdb.catalog.branches import EPOCH
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_view import Views
from livingdb.commit.carrying.sync_order import upstream_syncs
from livingdb.commit.deriving.migrate_versions import migrate_versions
from livingdb.commit.deriving.refresh import Outcome, refresh
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.lag import Lag
from livingdb.derivation.view import KIND
from livingdb.errors import LivingDBError, MaskKeyMissing, Untrusted
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.graph import Graph, now
from livingdb.graph.schedule import HALF, Schedule, next_time, parse_schedule
from livingdb.guard.sync_failure import TRANSIENT_ERRORS, record_failure
from livingdb.guard.sync_lag import missing_key, sync_lag
from livingdb.guard.sync_state import sync_chain

__all__ = ["Turn", "due_syncs", "propagate", "refresh_shares", "sync_turns"]

_SEVERAL = 4
_TRIES = 3
_MIGRATION_SECONDS = 1.0


def due_syncs(graph: Graph, time: float | None = None) -> list[SyncRow]:
    """The syncs to be run now, those that others read first.

    One that follows what is downstream is due if something that reads it is.
    """
    moment = clock.time() if time is None else time
    names = graph.sync_chains().names
    active = [sync for sync in graph.catalog.syncs.all() if sync.is_active]
    every = Views.of(active).every
    shares = refresh_shares(graph)
    wanted: set[SyncId] = set()
    readers: dict[BranchId, list[SyncId]] = {}
    for sync, view in every:
        for branch in view.branches:
            readers.setdefault(branch, []).append(sync.id)
    found = []
    for sync, view in reversed(every):
        when = parse_schedule(sync.frequency)
        if when.kind == "downstream":
            is_due = any(reader in wanted for reader in readers.get(sync.target, ()))
        elif when.kind == "immediate" and view.what == "clone":
            is_due = bool(sync_lag(graph, [sync], moment))
        elif when.kind in ("immediate", "on demand") or sync.target not in names:
            is_due = False
        else:
            is_due = _is_due(graph, sync, when, moment, shares.get(sync.id, HALF))
        if is_due:
            wanted.add(sync.id)
            found.append(sync)
    return found[::-1]


def refresh_shares(graph: Graph) -> dict[SyncId, float]:
    """After which share of their lags some syncs are due, as tuning chose."""
    applied = (row for row in graph.catalog.tuning.applied() if row.action == "refresh")
    return {row.subject: float(row.details["action"]["share"]) for row in applied}


def _is_due(graph: Graph, sync: SyncRow, when: Schedule, moment: float, share: float) -> bool:
    last = oldest = moment
    if when.kind == "every":
        found = _last_run_time(graph, sync)
        if found is None:
            return False
        last = found
    elif when.kind == "lag":
        lag = sync_lag(graph, [sync], moment)
        oldest = moment - (0.0 if lag is None else lag.seconds)
    return when.is_due(moment, last, oldest, share)


def _last_run_time(graph: Graph, sync: SyncRow) -> float | None:
    """When the sync last did something, in seconds; None if its target is gone."""
    target = graph.branches.by_id(sync.target)
    if target is None:
        return None
    runs = graph.catalog.runs.of(sync.id, 1)
    head = graph.snapshots.at(target.head)
    return max([head.time, *(run.time for run in runs)]) / 1e6


@dataclass(frozen=True)
class Turn:
    """A sync that the runner has something to do for, and from when on, in seconds."""

    sync: SyncRow
    time: float


def sync_turns(
    graph: Graph,
    time: float | None = None,
    trust: Sequence[str] = (),
    lags: Mapping[SyncId, Lag | None] | None = None,
) -> list[Turn]:
    """The syncs that the runner carries something along, those that are due now first.

    Syncs that are up to date, or that wait for a key which this process does not have, are not
    among them, but for those that run by the clock.  `lags` are how far some are behind then, if
    the caller has asked already.
    """
    moment = clock.time() if time is None else time
    due = {sync.id for sync in due_syncs(graph, moment)}
    shares = refresh_shares(graph)
    turns = [Turn(sync, moment) for sync in _waiting_for_keys(graph) if _has_key(sync, trust)]
    for sync in graph.catalog.syncs.all():
        if sync.is_active and sync.kind == KIND:
            share = None if sync.id in due else shares.get(sync.id, HALF)
            when = _turn_time(graph, sync, share, moment, trust, lags or {})
            if when is not None:
                turns.append(Turn(sync, when))
    return sorted(turns, key=lambda turn: (turn.time, turn.sync.number))


def _has_key(sync: SyncRow, trust: Sequence[str]) -> bool:
    return not missing_key([sync.spec["change"]], trust)


def _turn_time(
    graph: Graph,
    sync: SyncRow,
    share: float | None,
    moment: float,
    trust: Sequence[str],
    lags: Mapping[SyncId, Lag | None],
) -> float | None:
    """When the runner next does something for a sync; None: there is nothing to be done.

    `share` is how much of its lag is to pass; None: it is due now.
    """
    when, is_due = parse_schedule(sync.frequency), share is None
    if when.kind == "every":
        return moment if is_due else _next_time(graph, sync, when)
    if when.kind == "on demand" or not (is_due or when.kind == "lag"):
        return None
    known = sync.id in lags
    lag = lags[sync.id] if known else sync_lag(graph, [sync], moment, trust)
    if not lag or lag.reason:
        return None
    return moment if share is None else moment - lag.seconds + when.seconds * share


def _next_time(graph: Graph, sync: SyncRow, when: Schedule) -> float | None:
    """When a sync that runs by the clock is due next; None: never."""
    last = _last_run_time(graph, sync)
    if last is None:
        return None
    found = next_time(when.cron, last) if when.cron else last + when.seconds
    return found if found < float("inf") else None


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
            except (*TRANSIENT_ERRORS, MaskKeyMissing, Untrusted) as error:
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
    migration_seconds: float = _MIGRATION_SECONDS,
) -> list[Outcome]:
    """Run everything that is due; what was done, in that order.

    Those that do not read each other run side by side.  Where nothing is due, versions that are
    read through many lenses, or often, are migrated meanwhile, for a bounded time.
    """
    graph = pipeline.graph
    waiting = due_syncs(graph, time)
    upstream = upstream_syncs([sync for sync in graph.catalog.syncs.all() if sync.is_active])
    runner = _Runner(pipeline, author, engine)
    outcomes = [_catch_up(pipeline, sync) for sync in _waiting_for_keys(graph)]
    total = len(waiting)
    while waiting:
        names = {sync.id for sync in waiting}
        ready = [sync for sync in waiting if not names & upstream[sync.id] - {sync.id}]
        waiting = [sync for sync in waiting if sync not in ready]
        if progress is not None:
            for sync in ready:
                progress(len(outcomes), total, sync.spec["name"])
        outcomes += _run_all(runner, ready)
    done = [outcome for outcome in outcomes if outcome.snapshot is not None or outcome.error]
    if progress is not None:
        progress(total, total, "")
    return done or migrate_versions(graph, migration_seconds)


def _waiting_for_keys(graph: Graph) -> list[SyncRow]:
    """The schema syncs that wait for the key of a mask."""
    return [s for s in graph.catalog.syncs.all() if s.is_active and s.behind is not None]


def _catch_up(pipeline: Pipeline, sync: SyncRow) -> Outcome:
    """Carry what a schema sync waits with, if this process has the key."""
    graph, ticks = pipeline.graph, clock.perf_counter()
    target = sync_chain(graph, sync)[-1].target
    name = graph.branches_by_ids([target])[target].name
    missing = missing_key([sync.spec["change"]], pipeline.trust)
    if missing:
        return Outcome(name, None, error=missing)

    def propose(attempt: Attempt) -> Proposal:
        (source,) = graph.branches.by_ids(sync.sources).values()

        def check_place(connection: Connection) -> None:
            if not graph.branches.is_at(connection, source):
                raise HeadMoved

        head = graph.snapshots.at(source.head)
        return Proposal(actions=[check_place], overdue=[source], at=head)

    pipeline.run(sync.name, propose)
    moved = graph.branches_by_ids([target])[target]
    row, spent = graph.snapshots.at(moved.head), clock.perf_counter() - ticks
    return Outcome(name, row, "lens", None, 0, "embedded", spent)


def _run_all(runner: _Runner, syncs: Sequence[SyncRow]) -> list[Outcome]:
    if len(syncs) < 2:
        return [runner.run(sync) for sync in syncs]
    with ThreadPoolExecutor(min(_SEVERAL, len(syncs)), "livingdb-propagate") as pool:
        return list(pool.map(runner.run, syncs))
