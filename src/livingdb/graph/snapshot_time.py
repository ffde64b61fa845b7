"""The time of a snapshot: what the clock said, in order with what it follows where they are close.

Clocks of several machines differ by a little, and one clock may be set back.  Within a minute a
snapshot is given a time just after its parents'; further off it has the time that the clock said,
although a parent's is later, and whoever commits it raises an alert.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MOST_RAISED_MICROSECONDS", "is_out_of_order", "snapshot_time"]

MOST_RAISED_MICROSECONDS = 60_000_000


def snapshot_time(clock: int, before: Iterable[int]) -> int:
    """The time of what is made now, after what has these times; all in microseconds."""
    near = (time + 1 for time in before if time - clock <= MOST_RAISED_MICROSECONDS)
    return max([clock, *near])


def is_out_of_order(time: int, before: Iterable[int]) -> bool:
    """Whether a time is not after those of what came before."""
    return any(time <= other for other in before)
