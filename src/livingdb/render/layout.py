"""Where things go: columns in order of time, lanes in an order with few crossings."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["columns_of", "lane_order", "slots_of"]


def columns_of(lanes: Sequence[int], before: Sequence[Iterable[int]]) -> list[int]:
    """The column of each item, oldest first: `before` are the places of those it comes after.

    Columns never go back in time; items that do not depend on each other share one, if their
    lanes differ.
    """
    columns: list[int] = []
    taken: set[int] = set()
    current = 0
    for lane, earlier in zip(lanes, before, strict=True):
        if lane in taken or any(columns[item] >= current for item in earlier):
            current += 1
            taken.clear()
        taken.add(lane)
        columns.append(current)
    return columns


def lane_order(parents: Sequence[int | None], starts: Sequence[int]) -> list[int]:
    """All lanes from the top down: each above those that come from it, the youngest nearest.

    `parents` has the lane each one comes from, `starts` where in time it begins: later than the
    one it comes from.  An arrow to an older lane
    then passes only lanes that begin later, to its right.
    """
    children: dict[int | None, list[int]] = {}
    for lane, parent in enumerate(parents):
        children.setdefault(parent, []).append(lane)
    waiting = sorted(children.get(None, []), key=lambda lane: -starts[lane])
    order: list[int] = []
    while waiting:
        lane = waiting.pop()
        order.append(lane)
        waiting.extend(sorted(children.get(lane, []), key=lambda child: starts[child]))
    return order


def slots_of(spans: Mapping[int, tuple[int, int]], gap: int = 0) -> dict[int, int]:
    """A slot for each lane so that those alive at one time differ: few slots, the oldest first.

    `spans` are the first and the last row of each lane; `gap` rows stay free between two.
    """
    free: list[int] = []
    ending: list[tuple[int, int]] = []
    slots: dict[int, int] = {}
    count = 0
    for lane in sorted(spans, key=lambda item: (spans[item][0], item)):
        first, last = spans[lane]
        while ending and ending[0][0] + gap < first:
            heapq.heappush(free, heapq.heappop(ending)[1])
        if free:
            slots[lane] = heapq.heappop(free)
        else:
            slots[lane], count = count, count + 1
        heapq.heappush(ending, (last, slots[lane]))
    return slots
