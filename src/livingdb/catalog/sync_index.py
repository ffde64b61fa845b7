"""Syncs by the branches that they join, and by the queries of their specs."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from livingdb.catalog.ids import BranchId, SyncId

if TYPE_CHECKING:
    from livingdb.catalog.syncs import SyncRow

__all__ = ["SyncIndex"]

_QUERY = "query"
_number: Callable[[SyncRow], int] = attrgetter("number")


class SyncIndex:
    """All syncs, found without looking at each; those that are found are the oldest first.

    `epoch` is that of the catalog at which they are as they are here.
    """

    def __init__(self) -> None:
        self.epoch: str | None = None
        self._rows: dict[SyncId, tuple[bytes, SyncRow]] = {}
        self._by_branch: dict[BranchId, list[SyncRow]] = {}
        self._by_query: dict[object, list[SyncRow]] = {}

    def __contains__(self, sync: SyncId) -> bool:
        return sync in self._rows

    def row(self, sync: SyncId) -> SyncRow:
        """The sync of an id."""
        return self._rows[sync][1]

    def differing(self, marks: Iterable[tuple[SyncId, bytes]]) -> list[SyncId]:
        """Those of the syncs whose digests these are that are not here with the same digest."""
        rows = self._rows
        return [one for one, mark in marks if one not in rows or rows[one][0] != mark]

    def keep(self, syncs: Collection[SyncId]) -> None:
        """Forget all others."""
        for one in self._rows.keys() - set(syncs):
            self._remove(one)

    def replace(
        self, syncs: Iterable[SyncId], rows: Iterable[tuple[SyncId, bytes, SyncRow]]
    ) -> None:
        """Forget some, and take in what they are now, each with its digest."""
        for one in syncs:
            self._remove(one)
        for one, mark, row in rows:
            self._remove(one)
            self._rows[one] = mark, row
            for lists, key in self._places(row):
                insort(lists.setdefault(key, []), row, key=_number)

    def of_branches(self, branches: Iterable[BranchId]) -> list[SyncRow]:
        """Those that lead from or to some branches."""
        found = {row.id: row for one in branches for row in self._by_branch.get(one, ())}
        return sorted(found.values(), key=_number)

    def with_query(self, query: str, most: int) -> list[SyncRow]:
        """The first active ones whose spec has this query."""
        known = self._by_query.get(query, ())
        return list(islice((row for row in known if row.is_active), most))

    def _remove(self, sync: SyncId) -> None:
        known = self._rows.pop(sync, None)
        if known is None:
            return
        row = known[1]
        for lists, key in self._places(row):
            found = lists[key]
            del found[bisect_left(found, row.number, key=_number)]
            if not found:
                del lists[key]

    def _places(self, row: SyncRow) -> list[tuple[dict[Any, list[SyncRow]], object]]:
        """Where a sync is found: in which lists, and by what."""
        places: list[tuple[dict[Any, list[SyncRow]], object]]
        places = [(self._by_branch, end) for end in {*row.sources, row.target}]
        query = row.spec.get(_QUERY)
        return [*places, (self._by_query, query)] if query else places
