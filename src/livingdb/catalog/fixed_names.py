"""Names as they were at one moment: branches, tags and syncs that do not move for a reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from operator import attrgetter

from sqlalchemy import Connection

from livingdb.catalog.branches import Branches, BranchRow, behind_error
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.syncs import SyncRow, Syncs
from livingdb.catalog.tags import TagRow, Tags

__all__ = ["FixedBranches", "FixedSyncs", "FixedTags"]


class FixedBranches(Branches):
    """Branches where they were, and their logs until then."""

    def __init__(
        self,
        queries: Queries,
        tags: FixedTags,
        rows: Iterable[BranchRow],
        courses: Mapping[str, str] | None = None,
    ):
        super().__init__(queries, tags)
        self.courses = dict(courses or {})
        """The courses on which branches had steps to follow, and what they say."""
        self._know(rows)

    def _know(self, rows: Iterable[BranchRow]) -> None:
        self._rows = {row.name: row for row in sorted(rows, key=lambda row: row.name)}
        self._ids = {row.id: row for row in self._rows.values()}

    def has_steps(self, connection: Connection | None = None) -> bool:
        """See `Branches.has_steps`."""
        return bool(self.courses)

    def refusing(self, behind: Collection[BranchId]) -> FixedBranches:
        """The same, of which some are named but not shown: they have steps to follow."""
        found = copy(self)
        found._know(replace(row, is_behind=row.id in behind) for row in self._rows.values())
        return found

    def _shown(self, row: BranchRow | None) -> BranchRow | None:
        if row is not None and row.is_behind:
            raise behind_error(row)
        return row

    def find(self, name: str) -> BranchRow | None:
        """See `Branches.find`."""
        return self._shown(self._rows.get(name))

    def branch_or_tag(self, name: str) -> tuple[BranchRow | TagRow | None, str]:
        """See `Branches.branch_or_tag`."""
        epoch = next(iter(self._rows.values())).epoch
        return self.find(name) or self._tags.find(name), epoch

    def all(self) -> list[BranchRow]:
        """See `Branches.all`."""
        return list(self._rows.values())

    def names(self) -> dict[BranchId, str]:
        """See `Branches.names`."""
        return {row.id: row.name for row in self._rows.values()}

    def names_of(self, ids: Collection[BranchId]) -> dict[BranchId, str]:
        """See `Branches.names_of`."""
        return {one: self._ids[one].name for one in ids if one in self._ids}

    def _page(self, after: str, size: int) -> list[BranchRow]:
        return list(islice((row for row in self._rows.values() if row.name > after), size))

    def by_ids(self, ids: Collection[BranchId]) -> dict[BranchId, BranchRow]:
        """See `Branches.by_ids`."""
        found = {one: self._ids[one] for one in ids if one in self._ids}
        if len(found) == 1:
            self._shown(*found.values())
        return found

    def count(self) -> int:
        """See `Branches.count`."""
        return len(self._rows)

    def last_position(self, branch: BranchRow) -> int:
        """Where it was then, whatever the clocks said since."""
        return branch.position


class FixedTags(Tags):
    """Tags where they were."""

    def __init__(self, queries: Queries, rows: Iterable[TagRow]):
        super().__init__(queries)
        self._rows = {row.name: row for row in rows}

    def find(self, name: str) -> TagRow | None:
        """See `Tags.find`."""
        return self._rows.get(name)

    def all(self) -> list[TagRow]:
        """See `Tags.all`."""
        return list(self._rows.values())


class FixedSyncs(Syncs):
    """Syncs as they were."""

    def __init__(self, queries: Queries, rows: Iterable[SyncRow]):
        super().__init__(queries)
        self._rows = list(rows)

    def all(self) -> Sequence[SyncRow]:
        """See `Syncs.all`."""
        return self._rows

    def by_ids(self, ids: Collection[SyncId]) -> list[SyncRow]:
        """See `Syncs.by_ids`."""
        return [row for row in self._rows if row.id in ids]

    def of_branches(self, branches: Iterable[BranchId], epoch: str = "") -> list[SyncRow]:
        """See `Syncs.of_branches`."""
        ends = set(branches)
        found = [row for row in self._rows if not ends.isdisjoint((*row.sources, row.target))]
        return sorted(found, key=attrgetter("number"))

    def with_query(self, query: str, most: int, epoch: str = "") -> list[SyncRow]:
        """See `Syncs.with_query`."""
        found = [row for row in self._rows if row.is_active and row.spec.get("query") == query]
        return sorted(found, key=attrgetter("number"))[:most]
