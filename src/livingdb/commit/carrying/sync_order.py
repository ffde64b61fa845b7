"""The order in which syncs carry a change: each after those that write what it reads.

Branches that two-way syncs join are one place.  One-way syncs lead from place to place and never
in a circle, so that every place has a rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import SyncRow

__all__ = ["rank_syncs", "upstream_syncs"]


def rank_syncs(syncs: Sequence[SyncRow]) -> dict[SyncId, int]:
    """For each sync a number: a sync that writes what another one reads has the smaller one."""
    in_order = sorted(syncs, key=lambda row: row.number)
    if all(sync.direction == "both" for sync in syncs):  # all are of places of their own
        return {sync.id: number for number, sync in enumerate(in_order)}
    place = _places(syncs)
    writers: dict[BranchId, list[SyncRow]] = {}
    for sync in syncs:
        for branch in _written(sync):
            writers.setdefault(place[branch], []).append(sync)
    order: list[SyncRow] = []
    seen: set[SyncId] = set()
    for sync in in_order:
        _visit(sync, place, writers, seen, order)
    return {sync.id: number for number, sync in enumerate(order)}


def upstream_syncs(syncs: Sequence[SyncRow]) -> dict[SyncId, set[SyncId]]:
    """For each sync, those whose work may reach what it reads."""
    place = _places(syncs)
    writers: dict[BranchId, set[SyncId]] = {}
    for sync in syncs:
        for branch in _written(sync):
            writers.setdefault(place[branch], set()).add(sync.id)
    found: dict[SyncId, set[SyncId]] = {}
    ranks = rank_syncs(syncs)
    for sync in sorted(syncs, key=lambda row: ranks[row.id]):
        near = set[SyncId]().union(*(writers.get(place[b], ()) for b in _read(sync)))
        found[sync.id] = near.union(*(found.get(other, ()) for other in near))
    return found


def _visit(
    first: SyncRow,
    place: dict[BranchId, BranchId],
    writers: dict[BranchId, list[SyncRow]],
    seen: set[SyncId],
    order: list[SyncRow],
) -> None:
    """Put a sync after those that write what it reads; chains may be long, so by hand."""
    stack = [(first, False)]
    while stack:
        sync, is_ready = stack.pop()
        if is_ready:
            order.append(sync)
            continue
        if sync.id in seen:
            continue
        seen.add(sync.id)
        stack.append((sync, True))
        home = {place[branch] for branch in _written(sync)}
        for branch in _read(sync):
            # Syncs of one place carry a change from branch to branch, in any order.
            if place[branch] not in home or sync.direction != "both":
                stack += [(other, False) for other in writers.get(place[branch], ())]


def _read(sync: SyncRow) -> tuple[BranchId, ...]:
    return (*sync.sources, sync.target) if sync.direction == "both" else sync.origins


def _written(sync: SyncRow) -> tuple[BranchId, ...]:
    return (*sync.sources, sync.target) if sync.direction == "both" else sync.written_branches


def _places(syncs: Sequence[SyncRow]) -> dict[BranchId, BranchId]:
    """For each branch, one that stands for all that two-way syncs join with it."""
    parent: dict[BranchId, BranchId] = {}

    def find(branch: BranchId) -> BranchId:
        while parent.setdefault(branch, branch) != branch:
            branch = parent[branch] = parent[parent[branch]]
        return branch

    for sync in syncs:
        ends = (*sync.sources, sync.target)
        for branch in ends:
            find(branch)
        if sync.direction == "both":
            for branch in ends[1:]:
                parent[find(branch)] = find(ends[0])
    return {branch: find(branch) for branch in parent}
