"""A graph with snapshots on it that are made and not stored yet.

What is made upon them is made as if they were there; then all of them are stored at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.fixed_names import FixedBranches, FixedTags
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow, Snapshots
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.syncs import ActiveSyncs
from livingdb.chunks.address import Address
from livingdb.graph.draft import Draft
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.graph.storage.staging import Scratch
from livingdb.graph.sync_chains import SyncChains

__all__ = ["PendingGraph"]

_FIRST_NUMBER = 1 << 62
"""Greater than the number of every snapshot that is stored."""


class PendingGraph(Graph):
    """A graph whose branches, as far as they are named, stand on what was added last.

    Of the other branches it knows nothing.
    """

    def __init__(self, graph: Graph, rows: Iterable[BranchRow]):
        vars(self).update(vars(graph))
        self._whole = graph
        self._seen = {row.id: row for row in rows}
        queries = graph.catalog.queries
        self.branches = self._heads = _Heads(queries, FixedTags(queries, ()), self._seen.values())
        self.snapshots = self._rows = _Rows(queries, graph.snapshots)
        self._made: dict[Address, SnapshotRecord] = {}
        self._drafts: list[Draft] = []
        self._moment = 0

    def record(self, address: Address) -> SnapshotRecord:
        """See `Graph.record`."""
        return self._made.get(address) or self._whole.record(address)

    def syncs(self, epoch: str) -> ActiveSyncs:
        """See `Graph.syncs`."""
        return self._whole.syncs(epoch)

    def sync_chains(self) -> SyncChains:
        """See `Graph.sync_chains`."""
        return self._whole.sync_chains()

    def scratch(self) -> Scratch:
        """See `Graph.scratch`: there is one for all."""
        return self._whole.scratch()

    @property
    def drafts(self) -> Sequence[Draft]:
        """What was added, as it is stored: on the branches as they were seen."""
        return self._drafts

    def add(self, drafts: Sequence[Draft]) -> None:
        """Let branches stand on the snapshots that one change makes, each after its parents.

        Their logs say that they came there together, and after whatever was added before.
        """
        assert all(draft.intent.parents and not draft.intent.on_previous for draft in drafts)
        assert not any(_is_pending(row) for draft in drafts for row in draft.intent.parents[1:])
        times = [draft.record.edge.time for draft in drafts]
        self._moment = max([*times, self._moment + 1])
        for draft in drafts:
            intent = draft.intent
            first, *others = intent.parents
            row = self._rows.put(draft)
            for branch in intent.moves:
                self._heads.stand_on(branch.id, row.sequence)
            self._made[draft.address] = draft.record
            stored = replace(
                intent,
                parents=tuple(others) if _is_pending(first) else intent.parents,
                moves=tuple(self._seen[branch.id] for branch in intent.moves),
                upon=first.address if _is_pending(first) else None,
            )
            self._drafts.append(replace(draft, intent=stored, moment=self._moment))


def _is_pending(row: SnapshotRow) -> bool:
    return row.sequence >= _FIRST_NUMBER


class _Heads(FixedBranches):
    """Branches where they were seen, until they stand on something else."""

    def stand_on(self, branch: BranchId, head: int) -> None:
        """A branch moves to the snapshot of a number."""
        before = self._ids[branch]
        row = replace(before, head=head, position=before.position + 1)
        self._ids[branch] = self._rows[row.name] = row


class _Rows(Snapshots):
    """Snapshots, and some that are not stored, under numbers of their own."""

    def __init__(self, queries: Queries, stored: Snapshots):
        super().__init__(queries)
        self._stored = stored
        self._added: dict[int, SnapshotRow] = {}

    def at(self, sequence: int) -> SnapshotRow:
        """See `Snapshots.at`."""
        return self._added.get(sequence) or self._stored.at(sequence)

    def find(self, address: Address) -> SnapshotRow | None:
        """See `Snapshots.find`."""
        added = (row for row in self._added.values() if row.address == address)
        return next(added, None) or self._stored.find(address)

    def put(self, draft: Draft) -> SnapshotRow:
        """A snapshot that is not stored."""
        edge, parents = draft.record.edge, draft.intent.parents
        row = SnapshotRow(
            _FIRST_NUMBER + len(self._added),
            draft.address,
            parents[0].sequence,
            tuple(parent.sequence for parent in parents[1:]),
            None,
            parents[0].depth + 1,
            edge.time,
            edge.kind,
            edge.author,
            edge.message,
        )
        self._added[row.sequence] = row
        return row
