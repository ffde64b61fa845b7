"""Small writes to branches in step with each other, of which each is made upon the one before it.

Each is carried along the syncs as if it were the only one, over a graph on which those before it
stand already; then all are stored at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from livingdb.access.acting import Acting
from livingdb.catalog.branches import BranchRow
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.writing.plain_groups import PlainGroup
from livingdb.commit.writing.small_write import SmallWrite, is_independent
from livingdb.commit.writing.write_set import WriteSet
from livingdb.graph.draft import Draft, Intent
from livingdb.graph.pending_graph import PendingGraph
from livingdb.graph.storage.staging import Staging

__all__ = ["WritesInStep"]


class WritesInStep:
    """The snapshots of such writes, and of those that follow them."""

    def __init__(
        self,
        pipeline: Pipeline,
        group: PlainGroup,
        branches: Iterable[BranchRow],
        staging: Staging,
    ):
        self._graph = PendingGraph(pipeline.graph, branches)
        self._pipeline = pipeline.over(self._graph)
        self._group = group
        self._staging = staging

    @property
    def proposal(self) -> Proposal:
        """All that was made, to be stored as it is."""
        return Proposal(drafted=self._graph.drafts, is_carried=True)

    def add(self, write: SmallWrite, who: Acting | None) -> int | None:
        """Make one more; the place of its snapshot among all, or None if it needs more than that.

        What is raised is wrong with that one alone.  Rights on several branches are looked at
        where it is committed by itself.
        """
        pending, pipeline = self._graph, self._pipeline
        branch = pending.branches.find(write.branch)
        if branch is None or who is not None or write.table not in self._group.tables:
            return None
        work = WriteSet(pending, pipeline.preparation, branch)
        if not is_independent(work.schema(write.table)):
            return None
        write.fill(work)
        if work.is_empty:
            return None
        said = "transaction", write.operation, write.author, write.message
        intent = Intent((work.base,), (branch,), *said, work.make_tables(work.base, self._staging))
        proposal = Proposal([intent], deltas=work.deltas(), is_checked=True)
        made = self._follow(proposal)
        if made is None:
            return None
        place = len(pending.drafts)
        pending.add(made)
        return place

    def _follow(self, proposal: Proposal) -> list[Draft] | None:
        """The snapshot that is proposed and those that follow it; None if that is not all."""
        with suppress(Exception):  # what others cannot take, they say when it is committed alone
            settled, own, carried = self._pipeline.follow(proposal, self._staging)
            if not (settled.actions or carried.changes or carried.actions):
                return [*own, *carried.drafts]
        return None
