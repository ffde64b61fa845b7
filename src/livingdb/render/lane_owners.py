"""Which branch a snapshot is drawn on.

A snapshot may be on many branches; it belongs to the one that was first there.  What no branch's
log knows belongs to a branch whose history it is in; the rest was made on branches that were
dropped, and each line of first parents of it is a lane of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow, Movement
from livingdb.catalog.snapshots import SnapshotRow

__all__ = ["LaneOwners", "assign_lanes"]


@dataclass(frozen=True)
class LaneOwners:
    """For each snapshot's number its lane; lanes from `dropped` on are of dropped branches.

    `lasts` has the newest snapshot of each of those.
    """

    lanes: Mapping[int, int]
    dropped: int
    lasts: tuple[int, ...]


def assign_lanes(
    rows: Mapping[int, SnapshotRow],
    branches: Sequence[BranchRow],
    logs: Mapping[int, Iterable[Movement]],
) -> LaneOwners:
    """The lane of each snapshot: the place of its branch, or one after all of them."""
    lanes = _first_lanes(rows, branches, logs)
    for lane, branch in enumerate(branches):
        _fill_lane(rows, lanes, branch.head, lane)
    lasts: list[int] = []
    for number in sorted(rows, reverse=True):
        if number not in lanes:
            _fill_lane(rows, lanes, number, len(branches) + len(lasts))
            lasts.append(number)
    return LaneOwners(lanes, len(branches), tuple(lasts))


def _first_lanes(
    rows: Mapping[int, SnapshotRow],
    branches: Sequence[BranchRow],
    logs: Mapping[int, Iterable[Movement]],
) -> dict[int, int]:
    first: dict[int, tuple[int, int, int]] = {}
    for lane, branch in enumerate(branches):
        for movement in logs[branch.id]:
            if movement.snapshot in rows:
                claim = (movement.time, branch.id, lane)
                first[movement.snapshot] = min(first.get(movement.snapshot, claim), claim)
    return {number: lane for number, (_, _, lane) in first.items()}


def _fill_lane(
    rows: Mapping[int, SnapshotRow], lanes: dict[int, int], number: int | None, lane: int
) -> None:
    """Give a lane a snapshot and what it leads back to, until another lane's begins."""
    while number is not None and number in rows and lanes.get(number, lane) == lane:
        lanes[number] = lane
        number = rows[number].first
