"""Timing side by side, and the form of a result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    """One figure: what was measured, beside what, and the bound it should stay under.

    `value` is in `unit`; with a `peer`, `ratio` is value / peer_value and `bound` is for the
    ratio, else for the value.
    """

    suite: str
    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    bound: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the peer's value this is."""
        return None if not self.peer_value else self.value / self.peer_value

    @property
    def reached(self) -> bool | None:
        """Whether the bound holds; None if there is none."""
        if self.bound is None:
            return None
        return (self.value if self.ratio is None else self.ratio) <= self.bound

    def to_json(self) -> dict[str, object]:
        """The result as plain values."""
        return {**asdict(self), "ratio": self.ratio, "reached": self.reached}


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def cpu_seconds(function: Callable[[], object]) -> float:
    """How long this process works in one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def wall_and_cpu_seconds(function: Callable[[], object]) -> tuple[float, float]:
    """How long one call takes, and how long this process works in it."""
    started, worked = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - started, time.process_time() - worked


def side_by_side(
    first: Callable[[], object], second: Callable[[], object], rounds: int = 7
) -> tuple[float, float]:
    """Median seconds of two calls that take turns, after one round that does not count."""
    first(), second()
    times = [(seconds(first), seconds(second)) for _ in range(rounds)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)
