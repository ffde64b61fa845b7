"""Jobs about syncs: carrying what is due, and sending alerts."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.commit.check_watches import check_watches
from livingdb.commit.deriving.runner import propagate, sync_turns
from livingdb.graph.graph import now
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = ["deliver_alerts", "estimate_alerts", "estimate_syncs", "propagate_syncs"]

_FRESH_SECONDS = 60.0
"""What it is worth that a derived object is up to date."""
_TOLD_SECONDS = 30.0
_PATIENCE_SECONDS = 5.0
"""For how long a step waits for sinks; they go on without it."""


def estimate_syncs(work: Work, memory: Memory) -> Estimate | None:
    """The syncs that are due now, or else the next one."""
    moment = now() / 1e6
    turns = sync_turns(work.graph, moment, work.pipeline.trust)
    if not turns:
        return None
    due = [turn for turn in turns if turn.time <= moment]
    if due:
        names = ", ".join(turn.sync.spec.get("name", turn.sync.name) for turn in due[:5])
        more = f" and {len(due) - 5} more" if len(due) > 5 else ""
        return Estimate(f"{names}{more}", len(due), _FRESH_SECONDS * len(due))
    first = min(turns, key=lambda turn: turn.time)
    return Estimate(first.sync.spec.get("name", first.sync.name), due=int(first.time * 1e6))


def propagate_syncs(work: Work, memory: Memory) -> Iterator[Step]:
    """Carry all that is due, and look at what is watched.

    What fails is written down with its sync, and is no failure of the runner.
    """
    outcomes = propagate(work.pipeline, work.author, work.engine, migration_seconds=0.0)
    if work.graph.catalog.watches.all():
        check_watches(work.graph)
    work.dispatcher.wake_if_needed()
    made = [outcome for outcome in outcomes if outcome.snapshot is not None]
    yield Step({}, len(made), units=max(1, len(outcomes)), is_last=True)


def estimate_alerts(work: Work, memory: Memory) -> Estimate | None:
    """The alerts that wait for sinks which this process may use."""
    waiting = work.dispatcher.sendable_sinks()
    if not waiting:
        return None
    moment = now()
    due = sum(first <= moment for first in waiting.values())
    if due:
        return Estimate(f"alerts wait for {due} sinks", due, _TOLD_SECONDS * due)
    return Estimate("alerts that were not taken are sent again", due=min(waiting.values()))


def deliver_alerts(work: Work, memory: Memory) -> Iterator[Step]:
    """Send what is due."""
    done = work.dispatcher.deliver(_PATIENCE_SECONDS)
    yield Step({}, len(done), units=max(1, len(done)), is_last=True)
