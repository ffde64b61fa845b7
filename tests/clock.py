"""A clock that stands still, so that what is told of times does not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from livingdb.commit.deriving import refresh, runner
from livingdb.graph import graph

__all__ = ["NOON", "Clock", "stopped"]

NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
"""A moment long ago."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Clock:
    """Shows one moment until it is told to go on; nothing takes any time by it."""

    moment: datetime

    def go_on(self, seconds: float = 1.0) -> datetime:
        """Let some time pass; what it is then."""
        self.moment += timedelta(seconds=seconds)
        return self.moment

    def time(self) -> float:
        """As the module `time` has it."""
        return self.moment.timestamp()

    def time_ns(self) -> int:
        """As the module `time` has it."""
        return (self.moment - _EPOCH) // timedelta(microseconds=1) * 1_000

    def perf_counter(self) -> float:
        """As the module `time` has it."""
        return self.moment.timestamp()


@contextmanager
def stopped(moment: datetime = NOON) -> Iterator[Clock]:
    """A clock that all that is written and measured goes by, in this process."""
    clock = Clock(moment)
    with pytest.MonkeyPatch.context() as patch:
        for module in (graph, refresh, runner):
            patch.setattr(module, "clock", clock)
        yield clock
