"""A job of the runner: what it would bring and cost, and the steps in which it is done.

A step is bounded and leaves everything as readers see it; a job can be left after any step and
begun again, by whoever comes first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livingdb.alerts.dispatcher import Dispatcher
from livingdb.commit.pipeline import Pipeline
from livingdb.errors import (
    Corruption,
    Forgotten,
    LivingDBError,
    Locked,
    MaskKeyMissing,
    NotFound,
    StorageFailure,
    Unsupported,
    Untrusted,
)
from livingdb.graph.graph import Graph

__all__ = ["Estimate", "Job", "Memory", "Step", "Work", "error_text"]

_log = logging.getLogger("livingdb")

Memory = Mapping[str, Any]
"""What a job remembers from one time to the next, as plain values: where it stopped."""

_TOLD = (
    Corruption,
    Forgotten,
    Locked,
    MaskKeyMissing,
    NotFound,
    StorageFailure,
    Unsupported,
    Untrusted,
)
"""Errors whose words have no values of rows."""


@dataclass(frozen=True)
class Work:
    """What jobs work with: one open database, and in whose name."""

    pipeline: Pipeline
    dispatcher: Dispatcher
    author: str
    engine: str | None

    @property
    def graph(self) -> Graph:
        """The graph of the database."""
        return self.pipeline.graph


@dataclass(frozen=True)
class Estimate:
    """What a job would do: so many units, from `due` on (microseconds; 0 is now).

    `benefit_seconds` is what those who read and write are spared by tomorrow, roughly.  What
    `is_whole` has one step only, and is begun only if there is time for it.
    """

    reason: str
    units: float = 1.0
    benefit_seconds: float = 1.0
    due: int = 0
    is_whole: bool = False


@dataclass(frozen=True)
class Step:
    """What a step did: so many things of the job's kind, in so many units of its estimate.

    `memory` is what to remember if the job is left after it, and `problems` are what was passed
    over because it failed.  After what `is_last` there is nothing left to do.
    """

    memory: Memory
    did: int = 0
    progress: str = ""
    problems: Sequence[str] = ()
    units: float = 1.0
    is_last: bool = False


@dataclass(frozen=True)
class Job:
    """One job.

    name          by which everybody knows it
    made          what it makes, in words: "trees folded"
    estimate      what there is to do; None: nothing, and nothing later.  It asks little
    steps         does it, step by step
    unit_seconds  what a unit costs as long as nobody has measured it
    share         how much of the runner's time it gets at most
    """

    name: str
    made: str
    estimate: Callable[[Work, Memory], Estimate | None]
    steps: Callable[[Work, Memory], Iterator[Step]]
    unit_seconds: float = 0.01
    share: float = field(default=1.0, kw_only=True)


def error_text(error: Exception) -> str:
    """What is written down of an error: no values of rows, and no secrets.

    The log of this process has all of it.
    """
    if isinstance(error, _TOLD):
        return str(error)
    _log.warning("upkeep: %s", error, exc_info=None if isinstance(error, LivingDBError) else error)
    return f"{type(error).__name__}; the log of the process that met it says more"
