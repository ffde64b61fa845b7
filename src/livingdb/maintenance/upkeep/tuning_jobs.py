"""The job of a database that tunes itself: one change at a time, once an hour."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.graph.graph import now
from livingdb.graph.storage.observe import AUTO
from livingdb.maintenance.tuning.tune import tune
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = ["estimate_tuning", "tune_database"]

_HOUR = 3_600_000_000
_SECONDS = 5.0
"""What is tried at a time takes so long at most."""


def estimate_tuning(work: Work, memory: Memory) -> Estimate | None:
    """Once an hour, if the database tunes itself."""
    if work.graph.observer.mode != AUTO:
        return None
    due = int(memory.get("time", 0)) + _HOUR
    return Estimate("what would cost less, once an hour", benefit_seconds=10.0, due=due)


def tune_database(work: Work, memory: Memory) -> Iterator[Step]:
    """Undo what did not pay, and apply the best of what was tried and does."""
    moment = now()
    done = tune(work.graph, True, _SECONDS, moment)
    did = len(done.applied) + len(done.undone)
    told = ", ".join(str(row.details["words"]) for row in (*done.applied, *done.undone))
    yield Step({"time": moment}, did, told, is_last=True)
