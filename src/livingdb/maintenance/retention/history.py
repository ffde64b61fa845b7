"""History as retention sees it: all snapshots and names of a database at one moment, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from livingdb.catalog import schema
from livingdb.catalog.branch_log import CHECKPOINT, lines
from livingdb.catalog.branches import EPOCH, BranchRow
from livingdb.catalog.dropped_branches import DroppedBranchRow
from livingdb.catalog.forgotten import ForgottenRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.leases import LeaseRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.syncs import SyncRow
from livingdb.catalog.tags import TagRow
from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.derivation.view import KIND as VIEW
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.retention import Retention

__all__ = ["History", "Stop"]


class Stop(NamedTuple):
    """Where a branch stood, and until when; None: it still does."""

    snapshot: int
    until: int | None


@dataclass(frozen=True)
class History:
    """The snapshots by number, in ascending order, and what names them."""

    graph: Graph
    policy: Retention
    moment: int
    epoch: str | None
    rows: dict[int, SnapshotRow]
    branches: list[BranchRow]
    stops: dict[int, list[Stop]]
    """Where each branch stood, by its number, the oldest first."""
    tags: list[TagRow]
    dropped: list[DroppedBranchRow]
    syncs: Sequence[SyncRow]
    leases: list[LeaseRow]
    forgotten: dict[int, ForgottenRow]
    touches: dict[int, dict[str, Address | None]]
    """The tables that each snapshot changed, and to which versions (None: dropped)."""
    versions: dict[Address, VersionRow]
    trees: set[Address]
    """The versions that are materialized."""
    hollow: set[Address]

    @classmethod
    def read(cls, graph: Graph, policy: Retention, moment: int) -> History:
        """History as it is now."""
        graph.branches.follow()
        with graph.in_one_transaction() as now:
            catalog = now.catalog
            return cls(
                graph,
                policy,
                moment,
                catalog.meta(EPOCH),
                {row.sequence: row for row in catalog.snapshots.after(0)},
                catalog.branches.all(),
                _stops(now),
                catalog.tags.all(),
                catalog.dropped_branches.all(),
                catalog.syncs.all(),
                catalog.leases.all(),
                catalog.forgotten.snapshots(),
                _touches(now),
                {row.address: row for row in catalog.versions.all()},
                {tree.version for tree in catalog.versions.materializations()},
                catalog.forgotten.versions(),
            )

    @cached_property
    def by_address(self) -> dict[Address, int]:
        """The numbers of snapshots by their addresses."""
        return {row.address: number for number, row in self.rows.items()}

    @property
    def newest(self) -> int:
        """The greatest number."""
        return next(reversed(self.rows), 0)

    def first_parents(self, sequence: int) -> Iterator[SnapshotRow]:
        """A snapshot, its first parent, and so on."""
        at: int | None = sequence
        while at is not None:
            row = self.rows[at]
            yield row
            at = row.first

    def ancestors(self, starts: Iterable[int]) -> set[int]:
        """Some snapshots and all that they come from."""
        found = set(starts)
        waiting = list(found)
        while waiting:
            for parent in self.rows[waiting.pop()].parents:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    def policy_of(self, branch: BranchId, name: str) -> Retention:
        """The policy of a branch; a derived object without one has that of its source."""
        own = self.policy.of_branch(name)
        names = self._names
        seen = {branch}
        while own is None and branch in self._sources:
            branch = self._sources[branch]
            if branch in seen or branch not in names:
                break
            seen.add(branch)
            own = self.policy.of_branch(names[branch])
        return self.policy if own is None else own

    @cached_property
    def _names(self) -> dict[BranchId, str]:
        return {row.id: row.name for row in self.branches}

    @cached_property
    def _sources(self) -> dict[BranchId, BranchId]:
        """For derived objects, and for what is hidden between syncs, where they come from."""
        names = self._names
        return {
            sync.target: sync.sources[0]
            for sync in self.syncs
            if sync.sources and (sync.kind == VIEW or is_hidden(names.get(sync.target, "")))
        }


def _touches(graph: Graph) -> dict[int, dict[str, Address | None]]:
    found: dict[int, dict[str, Address | None]] = {}
    for name, sequence, version in graph.catalog.touches.all():
        found.setdefault(sequence, {})[name] = version
    return found


_log = schema.branch_log.c
_EVERY_LINE = PreparedStatement(
    lines.every.where(_log.operation != CHECKPOINT).order_by(_log.branch, _log.position)
)


def _stops(graph: Graph) -> dict[int, list[Stop]]:
    """Where every branch stood, by number."""
    found: dict[int, list[Stop]] = {}
    logged = lines.read_all(graph.catalog.queries.run_prepared(_EVERY_LINE, {}))
    for branch, _, snapshot, time, *_ in logged:
        known = found.setdefault(branch, [])
        if known:
            known[-1] = Stop(known[-1].snapshot, time)
        known.append(Stop(snapshot, None))
    return found
