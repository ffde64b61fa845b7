"""Which snapshots the policies of branches keep.

A branch's snapshots are those it stood on and all they come from.  Its *line* is where it stood and
the first parents of its head: of that, the newest so many are counted and history is thinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.graph.retention import DAY, Retention
from livingdb.maintenance.retention.history import History

__all__ = ["expired_branches", "forgetting_policies", "kept_by_policies"]


@dataclass(frozen=True)
class _Line:
    """A branch, or one that was dropped: what it is called, its head and where else it stood."""

    name: str
    head: int
    stood: frozenset[int]
    policy: Retention


def kept_by_policies(history: History) -> Iterator[tuple[int, str]]:
    """The snapshots that a policy keeps, and its words."""
    by_policy: dict[int, list[_Line]] = {}
    for line in (*_branch_lines(history), *_dropped_lines(history)):
        by_policy.setdefault(id(line.policy), []).append(line)
    for lines in by_policy.values():
        yield from _kept_by_one(history, lines[0].policy, lines)
    yield from _kept_leavings(history)


def expired_branches(history: History) -> list[int]:
    """The numbers of dropped branches whose time is over."""
    found = []
    for row in history.dropped:
        until = history.policy_of(row.id, row.name).dropped_until(row.time)
        if until is not None and until < history.moment:
            found.append(row.number)
    return found


def forgetting_policies(history: History) -> dict[int, str]:
    """For each snapshot, the words of a policy that did not keep it."""
    found: dict[int, str] = {}
    for line in (*_branch_lines(history), *_dropped_lines(history, are_expired=True)):
        told = f"the policy of {line.name!r}: {line.policy}"
        for number in _line_and_sides(history, line, found):
            found[number] = told
    return found


def _line_and_sides(history: History, line: _Line, known: dict[int, str]) -> Iterator[int]:
    """The snapshots of a branch that are not known yet, and that what is known does not have."""
    waiting = [line.head, *line.stood]
    while waiting:
        number = waiting.pop()
        if number not in known:
            yield number
            waiting += history.rows[number].parents


def _branch_lines(history: History) -> Iterator[_Line]:
    for branch in history.branches:
        stood = frozenset(stop.snapshot for stop in history.stops.get(branch.number, ()))
        policy = history.policy_of(branch.id, branch.name)
        yield _Line(branch.name, branch.head, stood, policy)


def _dropped_lines(history: History, are_expired: bool = False) -> Iterator[_Line]:
    """Dropped branches that are kept as if they were there, or all."""
    gone = set() if are_expired else set(expired_branches(history))
    for row in history.dropped:
        if row.number not in gone:
            policy = history.policy_of(row.id, row.name)
            yield _Line(row.name, row.head, frozenset(), policy)


def _kept_by_one(
    history: History, policy: Retention, lines: list[_Line]
) -> Iterator[tuple[int, str]]:
    """What one policy keeps of the branches that have it."""
    told = str(policy)
    for line in lines:
        yield line.head, f"the last one of {line.name!r}"
    reached = history.ancestors(start for line in lines for start in (line.head, *line.stood))
    if policy.keeps_everything:
        yield from ((number, told) for number in reached)
        return
    if policy.days is not None:
        since = history.moment - int(policy.days * DAY)
        yield from ((n, told) for n in reached if history.rows[n].time >= since)
    if policy.snapshots is not None:
        for line in lines:
            yield from ((n, told) for n in _newest(history, line, policy.snapshots))
    if policy.thin is not None:
        yield from ((n, told) for n in _thinned(history, policy, lines))


def _newest(history: History, line: _Line, count: int) -> Iterator[int]:
    """The newest snapshots of a line."""
    for at, row in enumerate(history.first_parents(line.head)):
        if at == count:
            return
        yield row.sequence


def _thinned(history: History, policy: Retention, lines: Iterable[_Line]) -> Iterator[int]:
    """The last snapshot of each hour, day, week or month of each line.

    Below where a line meets one that was gone through, it is the same line.
    """
    days = policy.thin_days
    since = None if days is None else history.moment - int(days * DAY)
    seen: set[int] = set()
    for line in lines:
        period: str | None = None
        for row in _whole_line(history, line):
            if row.sequence in seen:
                break
            seen.add(row.sequence)
            if since is not None and row.time < since:
                continue
            mine = _period(row.time, policy.thin or "")
            if mine != period:
                period = mine
                yield row.sequence


def _whole_line(history: History, line: _Line) -> Iterator[SnapshotRow]:
    """What a branch stood on beside its line, and then its line, each newest first."""
    firsts = history.first_parents(line.head)
    if not line.stood:
        yield from firsts
        return
    left = set(line.stood)
    mine = []
    for row in firsts:
        mine.append(row)
        left.discard(row.sequence)
    yield from (history.rows[number] for number in sorted(left, reverse=True))
    yield from mine


def _period(moment: int, thin: str) -> str:
    """The hour, day, week or month that a time is in, in UTC."""
    words = {"hourly": "%Y-%m-%d %H", "daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m"}
    return datetime.fromtimestamp(moment / 1e6, UTC).strftime(words[thin])


def _kept_leavings(history: History) -> Iterator[tuple[int, str]]:
    """Snapshots that no branch came by, as far as anybody remembers: as a dropped one's."""
    starts = [branch.head for branch in history.branches]
    starts += [stop.snapshot for stops in history.stops.values() for stop in stops]
    starts += [row.head for row in history.dropped] + [tag.snapshot for tag in history.tags]
    reached = history.ancestors(starts)
    for number, row in history.rows.items():
        if number not in reached:
            until = history.policy.dropped_until(row.time)
            if until is None or until >= history.moment:
                yield number, "left by branches that are no more, and not yet old enough to go"
