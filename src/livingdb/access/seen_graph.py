"""A graph as one user sees it: the same graph, in which what is not seen is not there.

`SeenGraph` is what the facade reads by, all of it.  `NamingGraph` is what operations propose by:
what a user names is looked for among what that user sees, and what follows from it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace

from livingdb.access.seen_rows import (
    SeenAlerts,
    SeenBranches,
    SeenFormerNames,
    SeenJobs,
    SeenMergeRequests,
    SeenMovements,
    SeenOutbox,
    SeenSnapshots,
    SeenSyncs,
    SeenTags,
    SeenTuning,
    SeenWatches,
)
from livingdb.access.sight import Sight
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.forgotten import ForgottenRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ActiveSyncs, SyncRow
from livingdb.chunks.address import Address
from livingdb.errors import NotFound
from livingdb.graph.edge_ends import source_ids
from livingdb.graph.forgotten import ForgottenSnapshots
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.refs import ResolvedRef
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.graph.storage.staging import Scratch
from livingdb.graph.sync_chains import SyncChains

__all__ = ["NamingGraph", "SeenGraph"]

_PROPAGATE = "propagate"
_FOLLOWING = ("clone", "derive", _PROPAGATE, "schema_change")
"""Edges that tell of snapshots that are no parents of what they lead to."""
_UNSEEN = "?"
"""What a branch is called that is not seen."""
_TOLD = ("changes", "rows", "taken_back")
"""What is told of an edge that follows something that is not seen."""


class SeenGraph(Graph):
    """A graph of which one user sees a part."""

    def __init__(self, graph: Graph, sight: Sight):
        vars(self).update(vars(graph))
        self.sight = sight
        self._whole = graph
        self._syncs, self._sync_chains = None, None
        self._seen_ids: dict[BranchId, bool] = {}
        every = graph.catalog
        tags = SeenTags(every.tags, sight)
        self.branches = branches = SeenBranches(graph.branches, tags, sight)
        self.movements = movements = SeenMovements(graph.movements, branches)
        self.snapshots = SeenSnapshots(graph.snapshots, sight, self)
        self.forgotten = _SeenForgotten(graph.forgotten)
        self.catalog = catalog = copy(every)
        catalog.branches, catalog.snapshots = branches, self.snapshots
        catalog.movements, catalog.tags = movements, tags
        catalog.syncs = SeenSyncs(every.syncs, sight)
        catalog.alerts = alerts = SeenAlerts(every.alerts, self)
        catalog.outbox = SeenOutbox(every.outbox, alerts)
        catalog.watches = SeenWatches(every.watches)
        catalog.jobs = SeenJobs(every.jobs)
        catalog.tuning = SeenTuning(every.tuning)
        catalog.merge_requests = SeenMergeRequests(every.merge_requests, branches)
        catalog.former_names = SeenFormerNames(every.former_names, branches)

    def at_one_moment(self, seen: BranchRow | None = None) -> Graph:
        """See `Graph.at_one_moment`."""
        return SeenGraph(self._whole.at_one_moment(seen), self.sight)

    @contextmanager
    def in_one_transaction(self) -> Iterator[Graph]:
        """See `Graph.in_one_transaction`."""
        with self._whole.in_one_transaction() as graph:
            yield SeenGraph(graph, self.sight)

    def scratch(self) -> Scratch:
        """See `Graph.scratch`: there is one for all."""
        return self._whole.scratch()

    def default_branch(self) -> BranchRow | None:
        """See `Graph.default_branch`: none, if it is not seen."""
        found = self.catalog.default_branch()
        return None if found is None else self.branches.by_id(found)

    def record(self, address: Address) -> SnapshotRecord:
        """The snapshot with this address, without what its edge says of what is not seen."""
        found = self._whole.record(address)
        edge = found.edge
        if not self._names_unseen(found):
            if self._repeats_unseen(found):
                edge = replace(edge, author="", message="")
                found = replace(found, edge=edge)
            home = edge.details.get("definition", {}).get("home")
            if not home or self._sees_id(home):
                return found
            # Where a view that is seen is known by its name is another branch.
            definition = {**edge.details["definition"], "home": ""}
            details = {**edge.details, "definition": definition}
            return replace(found, edge=replace(edge, details=details))
        told = {name: edge.details[name] for name in _TOLD if name in edge.details}
        if not found.parents:
            told.pop("changes", None)
        shown = replace(
            edge, author="", message="", sources=self._seen_sources(found), details=told
        )
        return replace(found, edge=shown)

    def follows_unseen(self, row: SnapshotRow) -> bool:
        """Whether a snapshot says what was said of another one that is not seen."""
        return row.kind in _FOLLOWING and self._repeats_unseen(self._whole.record(row.address))

    def _repeats_unseen(self, record: SnapshotRecord) -> bool:
        """The same: it was made from that one, or was carried on from what was."""
        if self._names_unseen(record):
            return True
        if record.edge.kind != _PROPAGATE:
            return False
        sources = (Address(bytes.fromhex(text)) for text in record.edge.sources.values())
        before = (self._whole.record(address) for address in sources)
        return any(one.edge.kind in _FOLLOWING and self._repeats_unseen(one) for one in before)

    def _names_unseen(self, record: SnapshotRecord) -> bool:
        sources = record.edge.sources
        return bool(sources) and len(self._seen_sources(record)) < len(sources)

    def _seen_sources(self, record: SnapshotRecord) -> dict[str, str]:
        """The sources of an edge that are seen; none, if a sync has it from an unseen branch.

        What was there may be in a history that is seen, and what the branch is called is not told.
        """
        sources = record.edge.sources
        if not all(map(self._sees_id, source_ids(self._whole.catalog, record.edge))):
            return {}
        rows = {
            name: self._whole.snapshots.find(Address(bytes.fromhex(text)))
            for name, text in sources.items()
        }
        numbers = {row.sequence for row in rows.values() if row is not None}
        seen = self.sight.seen_numbers(numbers)
        return {
            name: sources[name]
            for name, row in rows.items()
            if row is not None and row.sequence in seen
        }

    def _sees_id(self, branch: BranchId) -> bool:
        """Whether the branch of an id is seen, as of when this was first asked."""
        if branch not in self._seen_ids:
            self._seen_ids[branch] = bool(self.branches.by_ids([branch]))
        return self._seen_ids[branch]

    def told_names(self) -> set[str]:
        """The names under which something is told of that is seen: of branches and syncs."""
        known = self.sync_chains()
        names = {row.name for row in self.branches.all()}
        names |= {known.title(chain) for chain in known.every}
        return names | {row.name for chain in known.every for row in chain}


class _SeenForgotten(ForgottenSnapshots):
    """What became of snapshots, but for the words of policies, which name branches."""

    def __init__(self, every: ForgottenSnapshots):
        super().__init__(every.catalog)
        self._every = every

    def refresh(self) -> None:
        """See `ForgottenSnapshots.refresh`."""
        self._every.refresh()

    def find(self, row: SnapshotRow) -> ForgottenRow | None:
        """See `ForgottenSnapshots.find`."""
        found = self._every.find(row)
        return None if found is None else found._replace(reason="it was not to be kept")


class NamingGraph(Graph):
    """A whole graph, in which what a user names is looked for among what that user sees."""

    def __init__(self, graph: Graph, seen: SeenGraph):
        vars(self).update(vars(graph))
        self._whole = graph
        self._seen = seen
        self._named: tuple[ActiveSyncs, ActiveSyncs] | None = None

    def at_one_moment(self, seen: BranchRow | None = None) -> Graph:
        """See `Graph.at_one_moment`."""
        whole = self._whole.at_one_moment(seen)
        return NamingGraph(whole, SeenGraph(whole, self._seen.sight))

    def scratch(self) -> Scratch:
        """See `Graph.scratch`: there is one for all."""
        return self._whole.scratch()

    def branch(self, name: str) -> BranchRow:
        """See `Graph.branch`."""
        return self._of_whole(self._seen.branch(name))

    def resolve(self, ref: str) -> ResolvedRef:
        """See `Graph.resolve`."""
        found = self._seen.resolve(ref)
        if found.branch is None:
            return found
        return replace(found, branch=self._of_whole(found.branch))

    def _of_whole(self, seen: BranchRow) -> BranchRow:
        """A branch with all that is on record of it, as who moves it has to know it."""
        found = self.branches.by_ids([seen.id])
        if not found:
            raise NotFound(f"there is no branch {seen.name!r}")
        return found[seen.id]

    def default_branch(self) -> BranchRow | None:
        """See `Graph.default_branch`."""
        return self._seen.default_branch()

    def syncs(self, epoch: str) -> ActiveSyncs:
        """See `Graph.syncs`: by names that the user knows."""
        whole = self._whole.syncs(epoch)
        known = self._named
        if known is None or known[0] is not whole:
            rows = [self._named_sync(row) for row in (*whole, *whole.inactive)]
            self._named = known = whole, ActiveSyncs.of(rows)
        return known[1]

    def _named_sync(self, row: SyncRow) -> SyncRow:
        if self._seen.sight.sees_ends(row):
            return row
        names = self._seen.branches.names()
        known = set(names.values())
        ends = tuple(end if end in known else _UNSEEN for end in row.ends)
        return replace(row, name="/".join(ends), ends=(ends[0], ends[1]))

    def sync_chains(self) -> SyncChains:
        """See `Graph.sync_chains`: by names that the user knows."""
        whole, seen = self._whole.sync_chains(), self._seen.branches.names()
        names = {one: name for one, name in whole.names.items() if is_hidden(name) or one in seen}
        return replace(whole, names=names)
