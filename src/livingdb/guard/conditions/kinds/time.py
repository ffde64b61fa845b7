"""When changes may come: how late, how old, how often, and at what times not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.errors import InvalidData
from livingdb.graph.schedule import parse_schedule
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.kinds.time_windows import Window, parse_window, render_moment
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "Age",
    "ChangeRate",
    "Freeze",
    "Lag",
    "freeze",
    "max_age",
    "max_change_rate",
    "max_lag",
    "period",
]

_MICROSECONDS = 1_000_000


def period(given: Any) -> float | int:
    """A time in seconds: '10 minutes', '1 hour', or a number of seconds."""
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number and 0 < given < math.inf:
        found: float | int = given
        return found
    try:
        if isinstance(given, str):
            seconds = parse_schedule(f"every {given}").seconds
            return int(seconds) if seconds == int(seconds) else seconds
    except InvalidData:
        pass
    raise InvalidData(f"how long is {given!r}? Say '10 minutes', '1 hour', '2 days', …")


@register
@dataclass(frozen=True)
class Lag(Metric):
    """For how many seconds what the source has now was not in the target."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "lag"

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`; nothing of a target that is made just now."""
        if pending.head is None:
            return None
        oldest = pending.time
        for branch, address in pending.at.items():
            first = _first_missed_snapshot(pending, address, pending.before.get(branch))
            if first is not None:
                oldest = min(oldest, first.time)
        return (pending.time - oldest) / _MICROSECONDS

    def render_value(self, value: float) -> str:
        """See `Metric.render_value`."""
        return f"{value:,.1f} seconds"


def _first_missed_snapshot(
    pending: PendingChange, address: Address, before: Address | None
) -> SnapshotRow | None:
    """The first snapshot of a branch that the target has not seen; None if it comes just now."""
    snapshots = pending.graph.snapshots
    row = snapshots.find(address)
    seen = None if before is None else snapshots.find(before)
    if row is None or seen is None or row.sequence == seen.sequence:
        return None
    if row.depth > seen.depth:
        first = snapshots.ancestor(row, seen.depth + 1)
        if first.first == seen.sequence:
            return first
    return row


@register
@dataclass(frozen=True)
class Age(Metric):
    """The seconds since the target last changed, or since the newest change of the source."""

    OF_CHANGE: ClassVar[bool] = True

    of: str = "target"

    NAME: ClassVar[str] = "age"

    def __post_init__(self) -> None:
        if self.of not in ("target", "source"):
            raise InvalidData(f"of={self.of!r}: choose 'target' or 'source'")

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`; nothing of a target that is made just now."""
        if self.of == "target":
            return None if pending.head is None else self._seconds_since(pending, pending.head.time)
        found = [pending.graph.snapshots.find(address) for address in pending.at.values()]
        # What is not there yet is committed with this very change.
        newest = max((pending.time if row is None else row.time for row in found), default=None)
        return None if newest is None else self._seconds_since(pending, newest)

    def _seconds_since(self, pending: PendingChange, time: int) -> float:
        return max(0, pending.time - time) / _MICROSECONDS

    def render_value(self, value: float) -> str:
        """See `Metric.render_value`."""
        return f"{value:,.1f} seconds"


@register
@dataclass(frozen=True)
class ChangeRate(Metric):
    """How many times the target changes within a period, this change among them."""

    OF_CHANGE: ClassVar[bool] = True

    per: str = "1 hour"

    NAME: ClassVar[str] = "change_rate"

    def __post_init__(self) -> None:
        period(self.per)

    def measure(self, pending: PendingChange) -> int:
        """See `Metric.measure`; its log says when it moved."""
        branch = _changing_branch(pending)
        if branch is None:
            return 1
        since = pending.time - int(period(self.per) * _MICROSECONDS)
        last = pending.graph.movements.at(branch, since)
        return branch.position - (-1 if last is None else last.position) + 1


def _changing_branch(pending: PendingChange) -> BranchRow | None:
    """The branch that changes: of a sync that goes both ways, either one."""
    head = pending.head
    if head is None:
        return None
    ends = (pending.sync.target, *pending.sync.sources)
    rows = pending.graph.branches.by_ids(ends)
    there = [rows[number] for number in ends if number in rows]
    return next((row for row in there if row.head == head.sequence), None)


@register
@dataclass(frozen=True)
class Freeze(Condition):
    """No change crosses within a window of time.

    Weekly 'fri 18:00' to 'mon 06:00', daily '22:00' to '06:00', or once '2026-12-24' to
    '2027-01-02', whose last day belongs to it; by the clocks of a zone.
    """

    OF_CHANGE: ClassVar[bool] = True

    start: str
    end: str
    zone: str = field(default="UTC", kw_only=True)

    NAME: ClassVar[str] = "freeze"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.window()

    def window(self) -> Window:
        """The window, ready to be asked."""
        return parse_window(self.start, self.end, self.zone)

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        until = self.window().until(pending.time)
        if until is None:
            return Verdict()
        return Verdict(f"no change crosses until {render_moment(until, self.zone)}")


@register_constructor
def max_lag(time: str | float, **how: Any) -> Bound:
    """What comes has not waited longer than such a time: max_lag('10 minutes')."""
    return Bound(Lag(), at_most=period(time), **how)


@register_constructor
def max_age(time: str | float, of: str = "target", **how: Any) -> Bound:
    """The target (or its source) changed within such a time: max_age('1 day')."""
    return Bound(Age(of), at_most=period(time), **how)


@register_constructor
def max_change_rate(changes: int, per: str = "1 hour", **how: Any) -> Bound:
    """The target changes at most so many times within a period."""
    return Bound(ChangeRate(per), at_most=changes, **how)


@register_constructor
def freeze(start: str, end: str, zone: str = "UTC", **how: Any) -> Freeze:
    """No change crosses in a window: freeze('fri 18:00', 'mon 06:00', zone='Europe/Oslo')."""
    return Freeze(start, end, zone=zone, **how)
