"""Parts of the catalog as one user sees them: rows about what is not seen are not there.

What writes is inherited: who may write is checked where a change is proposed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from livingdb.access.roles import Role
from livingdb.access.sight import Sight
from livingdb.catalog.alerts import AlertRow, Alerts, Watches, WatchRow
from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import Branches, BranchRow
from livingdb.catalog.former_names import FormerNames
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.jobs import JobRow, Jobs
from livingdb.catalog.merge_requests import MergeRequestRow, MergeRequests
from livingdb.catalog.movements import Movements
from livingdb.catalog.outbox import Outbox, OutboxRow
from livingdb.catalog.snapshots import SnapshotRow, Snapshots
from livingdb.catalog.syncs import SyncRow, Syncs
from livingdb.catalog.tags import TagRow, Tags
from livingdb.catalog.tuning import TuningRow, TuningRows
from livingdb.chunks.address import Address
from livingdb.errors import NotFound

if TYPE_CHECKING:
    from livingdb.access.seen_graph import SeenGraph

__all__ = [
    "SeenAlerts",
    "SeenBranches",
    "SeenFormerNames",
    "SeenJobs",
    "SeenMergeRequests",
    "SeenMovements",
    "SeenOutbox",
    "SeenSnapshots",
    "SeenSyncs",
    "SeenTags",
    "SeenTuning",
    "SeenWatches",
]

_PART = 256
"""So many are looked at in one go where those that are not seen are left out."""


class SeenBranches(Branches):
    """Branches that are seen, of those that there are."""

    def __init__(self, every: Branches, tags: SeenTags, sight: Sight):
        super().__init__(every._queries, tags)
        self._every = every
        self._seen_tags = tags
        self._sight = sight

    def follow(self) -> None:
        self._every.follow()

    def has_steps(self, connection: Connection | None = None) -> bool:
        return self._every.has_steps(connection)

    def _shown(self, rows: Iterable[BranchRow]) -> list[BranchRow]:
        """Those of some branches that are seen; what they came from is told by names seen alone."""
        return [
            row
            if row.origin is None or self._sight.user.may(Role.READER, row.origin)
            else replace(row, origin=None)
            for row in self._sight.seen(rows)
        ]

    def find(self, name: str) -> BranchRow | None:
        found = self._every.find(name)
        return None if found is None else next(iter(self._shown([found])), None)

    def branch_or_tag(self, name: str) -> tuple[BranchRow | TagRow | None, str]:
        found, epoch = self._every.branch_or_tag(name)
        if isinstance(found, BranchRow):
            return next(iter(self._shown([found])), None), epoch
        return (None if found is None else self._seen_tags.shown(found)), epoch

    def all(self) -> list[BranchRow]:
        return self._shown(self._every.all())

    def names_of(self, ids: Collection[BranchId]) -> dict[BranchId, str]:
        return {one: row.name for one, row in self.by_ids(sorted(ids)).items()}

    def _page(self, after: str, size: int) -> list[BranchRow]:
        found: list[BranchRow] = []
        for row in self._every.pages(after, size):
            found += self._shown([row])
            if len(found) == size:
                break
        return found

    def by_head(self, head: int, number: int, most: int) -> list[BranchRow]:
        found: list[BranchRow] = []
        while rows := self._every.by_head(head, number, most):
            found += self._shown(rows)
            if len(found) >= most or len(rows) < most:
                break
            head, number = rows[-1].head, rows[-1].number
        return found[:most]

    def by_ids(self, ids: Collection[BranchId]) -> dict[BranchId, BranchRow]:
        rows = self._shown(self._every.by_ids(ids).values())
        return {row.id: row for row in rows}

    def count(self) -> int:
        return len(self.all())


class SeenTags(Tags):
    """Tags of snapshots that are seen."""

    def __init__(self, every: Tags, sight: Sight):
        super().__init__(every._queries)
        self._every = every
        self._sight = sight

    def find(self, name: str) -> TagRow | None:
        found = self._every.find(name)
        return None if found is None else self.shown(found)

    def all(self) -> list[TagRow]:
        rows = self._every.all()
        seen = self._sight.seen_numbers({row.snapshot for row in rows}, is_named=True)
        return [row for row in rows if row.snapshot in seen]

    def shown(self, tag: TagRow) -> TagRow | None:
        """A tag, if it is seen."""
        return tag if self._sight.seen_numbers([tag.snapshot], is_named=True) else None


class SeenMovements(Movements):
    """How branches moved: who asks for the log of one has seen it."""

    def __init__(self, every: Movements, branches: SeenBranches):
        vars(self).update(vars(every))
        self._seen = branches

    def first(self) -> dict[int, Movement]:
        seen = {row.number for row in self._seen.all()}
        return {number: move for number, move in super().first().items() if number in seen}


class SeenSnapshots(Snapshots):
    """Snapshots that are seen, of those that there are."""

    def __init__(self, every: Snapshots, sight: Sight, graph: SeenGraph):
        super().__init__(every._queries)
        self._every = every
        self._sight = sight
        self._graph = graph

    def find(self, address: Address) -> SnapshotRow | None:
        found = self._every.find(address)
        return None if found is None else next(iter(self._named([found])), None)

    def at(self, sequence: int) -> SnapshotRow:
        return self._shown(self._check(self._every.at(sequence)))

    def at_with_prefetch(self, sequence: int) -> SnapshotRow:
        return self._shown(self._check(self._every.at_with_prefetch(sequence)))

    def get_many(self, sequences: Iterable[int]) -> dict[int, SnapshotRow]:
        wanted = list(sequences)
        if len(self._sight.seen_numbers(wanted)) < len(set(wanted)):
            raise _hidden_error()
        return {number: self._shown(row) for number, row in self._every.get_many(wanted).items()}

    def window(self, low: int, high: int) -> dict[int, SnapshotRow]:
        rows = self._every.window(low, high)
        seen = self._sight.seen_numbers(rows)
        return {number: self._shown(row) for number, row in rows.items() if number in seen}

    def of_kind(self, kind: str, low: int, high: int) -> list[SnapshotRow]:
        rows = self._every.of_kind(kind, low, high)
        seen = self._sight.seen_numbers(row.sequence for row in rows)
        return [self._shown(row) for row in rows if row.sequence in seen]

    def with_prefix(self, prefix: str, most: int | None = 2) -> list[SnapshotRow]:
        return self._named(self._every.with_prefix(prefix, most=None))[:most]

    def _named(self, rows: Iterable[SnapshotRow]) -> list[SnapshotRow]:
        """Those of some snapshots that are seen, which the user named by their addresses."""
        found = list(rows)
        seen = self._sight.seen_numbers((row.sequence for row in found), is_named=True)
        return [self._shown(row) for row in found if row.sequence in seen]

    def _check(self, row: SnapshotRow) -> SnapshotRow:
        if not self._sight.seen_numbers([row.sequence]):
            raise _hidden_error()
        return self._sight.note(row)

    def _shown(self, row: SnapshotRow) -> SnapshotRow:
        """A snapshot without what was said of another that it follows and that is not seen."""
        if self._graph.follows_unseen(row):
            return row._replace(author="", message="")
        return row


def _hidden_error() -> NotFound:
    return NotFound("there is no such snapshot")


class SeenSyncs(Syncs):
    """Syncs of which all branches are seen."""

    def __init__(self, every: Syncs, sight: Sight):
        super().__init__(every._queries)
        self._every = every
        self._sight = sight
        self._seen: tuple[object, list[SyncRow]] = None, []

    def all(self) -> list[SyncRow]:
        rows = self._every.all()
        if self._seen[0] is not rows:
            self._seen = rows, [row for row in rows if self._sight.sees_ends(row)]
        return self._seen[1]

    def by_ids(self, ids: Collection[SyncId]) -> list[SyncRow]:
        return [row for row in self._every.by_ids(ids) if self._sight.sees_ends(row)]

    def of_branches(self, branches: Iterable[BranchId], epoch: str = "") -> list[SyncRow]:
        rows = self._every.of_branches(branches, epoch)
        return [row for row in rows if self._sight.sees_ends(row)]

    def with_query(self, query: str, most: int, epoch: str = "") -> list[SyncRow]:
        rows = self._every.with_query(query, most, epoch)
        return [row for row in rows if self._sight.sees_ends(row)]


class SeenAlerts(Alerts):
    """Alerts about what is seen: a sync, or a branch by its name."""

    def __init__(self, every: Alerts, graph: SeenGraph):
        super().__init__(every._queries)
        self._every = every
        self._graph = graph

    def all(
        self,
        state: str | None = None,
        severities: Collection[str] | None = None,
        sync: str | None = None,
    ) -> list[AlertRow]:
        names = self._graph.told_names()
        return [row for row in self._every.all(state, severities, sync) if row.sync in names]

    def by_id(self, number: int, connection: Connection | None = None) -> AlertRow | None:
        row = self._every.by_id(number, connection)
        return row if row is not None and row.sync in self._graph.told_names() else None


class SeenOutbox(Outbox):
    """What is to be sent of alerts that are seen."""

    def __init__(self, every: Outbox, alerts: SeenAlerts):
        super().__init__(every._queries)
        self._every = every
        self._alerts = alerts

    def of(self, alert: int) -> list[OutboxRow]:
        return [] if self._alerts.by_id(alert) is None else self._every.of(alert)

    def given_up(self) -> list[OutboxRow]:
        return self._seen(self._every.given_up())

    def all(self) -> list[OutboxRow]:
        return self._seen(self._every.all())

    def _seen(self, rows: list[OutboxRow]) -> list[OutboxRow]:
        seen = {row.id for row in self._alerts.all()}
        return [row for row in rows if row.alert in seen]


class SeenWatches(Watches):
    """No watches: they look at the database as a whole."""

    def __init__(self, every: Watches):
        super().__init__(every._queries)

    def all(self) -> list[WatchRow]:
        return []

    def sinks(self, connection: Connection | None = None) -> list[dict[str, object]]:
        return super().sinks(connection) if connection is not None else []


class SeenJobs(Jobs):
    """No jobs: they are about the database as a whole."""

    def __init__(self, every: Jobs):
        super().__init__(every._queries)

    def all(self) -> dict[str, JobRow]:
        return {}


class SeenTuning(TuningRows):
    """No advice: it is about the database as a whole."""

    def __init__(self, every: TuningRows):
        super().__init__(every._queries)

    def all(self) -> list[TuningRow]:
        return []


class SeenMergeRequests(MergeRequests):
    """Merge requests of which both branches are seen."""

    def __init__(self, every: MergeRequests, branches: SeenBranches):
        super().__init__(every._queries)
        self._every = every
        self._branches = branches

    def find(self, number: int, connection: Connection | None = None) -> MergeRequestRow | None:
        row = self._every.find(number, connection)
        return next(iter(self._seen([] if row is None else [row])), None)

    def all(
        self, state: str | None = None, limit: int | None = None, before: int | None = None
    ) -> list[MergeRequestRow]:
        if limit is None:
            return self._seen(self._every.all(state, None, before))
        found: list[MergeRequestRow] = []
        while len(found) < limit:
            rows = self._every.all(state, _PART, before)
            found += self._seen(rows)
            if len(rows) < _PART:
                break
            before = rows[-1].number
        return found[:limit]

    def _seen(self, rows: list[MergeRequestRow]) -> list[MergeRequestRow]:
        ends = {end for row in rows for end in (row.source, row.target)}
        seen = self._branches.by_ids(sorted(ends))
        return [row for row in rows if row.source in seen and row.target in seen]


class SeenFormerNames(FormerNames):
    """What branches that are seen were called before."""

    def __init__(self, every: FormerNames, branches: SeenBranches):
        super().__init__(every._queries)
        self._every = every
        self._branches = branches

    def renamed(self, name: str) -> BranchId | None:
        found = self._every.renamed(name)
        return found if found is not None and self._branches.by_ids([found]) else None
