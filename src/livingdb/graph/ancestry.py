"""Walking history: ancestors, common ancestors, lines of first parents.

A snapshot's number is greater than its parents', so going through numbers from the greatest
down never meets a snapshot before one of its descendants.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from livingdb.catalog.snapshots import SnapshotRow, Snapshots

__all__ = [
    "common_ancestors",
    "common_ancestors_of",
    "first_parents",
    "is_ancestor",
    "last_common_position",
    "log",
]

_OURS, _THEIRS, _STALE = 1, 2, 4
_BOTH = _OURS | _THEIRS


def log(snapshots: Snapshots, head: SnapshotRow) -> Iterator[SnapshotRow]:
    """The snapshot and all its ancestors, newest first."""
    waiting, seen = [-head.sequence], {head.sequence}
    while waiting:
        row = snapshots.at_with_prefetch(-heapq.heappop(waiting))
        yield row
        for parent in row.parents:
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(waiting, -parent)


def first_parents(snapshots: Snapshots, head: SnapshotRow) -> Iterator[SnapshotRow]:
    """The snapshot, its first parent, that one's first parent, and so on."""
    yield head
    while head.first is not None:
        head = snapshots.at_with_prefetch(head.first)
        yield head


def last_common_position(
    snapshots: Snapshots, one: SnapshotRow, other: SnapshotRow
) -> SnapshotRow | None:
    """The newest snapshot on both lines of first parents, by skips; None if there is none."""
    depth = min(one.depth, other.depth)
    one, other = snapshots.ancestor(one, depth), snapshots.ancestor(other, depth)
    while one.sequence != other.sequence:
        if one.first is None or other.first is None:
            return None
        steps = (one.first, other.first) if one.skip == other.skip else (one.skip, other.skip)
        if steps[0] is None or steps[1] is None:
            return None
        one, other = snapshots.at(steps[0]), snapshots.at(steps[1])
    return one


def is_ancestor(snapshots: Snapshots, old: SnapshotRow, new: SnapshotRow) -> bool:
    """Whether a snapshot is another one or an ancestor of it."""
    if old.sequence >= new.sequence:
        return old.sequence == new.sequence
    if old.depth <= new.depth and snapshots.ancestor(new, old.depth).sequence == old.sequence:
        return True
    waiting, seen = [-new.sequence], {new.sequence}
    while waiting:
        row = snapshots.at_with_prefetch(-heapq.heappop(waiting))
        for parent in row.parents:
            if parent == old.sequence:
                return True
            if parent > old.sequence and parent not in seen:
                seen.add(parent)
                heapq.heappush(waiting, -parent)
    return False


def common_ancestors(
    snapshots: Snapshots, ours: SnapshotRow, theirs: SnapshotRow
) -> list[SnapshotRow]:
    """The best common ancestors, newest first: those that are ancestors of no other one."""
    if is_ancestor(snapshots, theirs, ours):
        return [theirs]
    if is_ancestor(snapshots, ours, theirs):
        return [ours]
    return common_ancestors_of(snapshots, [ours], [theirs])


def common_ancestors_of(
    snapshots: Snapshots, ours: Sequence[SnapshotRow], theirs: Sequence[SnapshotRow]
) -> list[SnapshotRow]:
    """The same for what comes from any of ours and from any of theirs."""
    flags: dict[int, int] = {}
    for rows, mark in ((ours, _OURS), (theirs, _THEIRS)):
        for row in rows:
            flags[row.sequence] = flags.get(row.sequence, 0) | mark
    waiting = [-number for number in flags]
    heapq.heapify(waiting)
    open_count = len(waiting)
    found: list[int] = []
    while waiting and open_count:
        number = -heapq.heappop(waiting)
        mine = flags[number]
        if not mine & _STALE:
            open_count -= 1
        if mine & _BOTH == _BOTH and not mine & _STALE:
            found.append(number)
            mine |= _STALE
        for parent in snapshots.at_with_prefetch(number).parents:
            before = flags.get(parent)
            if before is None:
                heapq.heappush(waiting, -parent)
                open_count += not mine & _STALE
                flags[parent] = mine
            else:
                flags[parent] = before | mine
                if mine & _STALE and not before & _STALE:
                    open_count -= 1
    return [snapshots.at(number) for number in found]
