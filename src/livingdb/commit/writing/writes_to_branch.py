"""Small writes to a branch that is in no sync, of which each is made upon the one before it."""

from __future__ import annotations

from dataclasses import replace

from livingdb.access.acting import Acting
from livingdb.catalog.branches import BranchRow
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.writing.small_write import SmallWrite, is_independent
from livingdb.commit.writing.write_set import WriteSet
from livingdb.graph.constraints import check_tables
from livingdb.graph.draft import Action, Intent
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["WritesToBranch"]


class WritesToBranch:
    """The snapshots of such writes."""

    def __init__(self, pipeline: Pipeline, branch: BranchRow, staging: Staging):
        self._pipeline = pipeline
        self._branch = branch
        self._staging = staging
        self._tables: dict[str, Version | None] = {}
        self._intents: list[Intent] = []
        self._notes: list[Action] = []

    @property
    def proposal(self) -> Proposal:
        """All that was made."""
        head = self._pipeline.graph.snapshots.at(self._branch.head)
        first = replace(self._intents[0], parents=(head,), on_previous=False)
        return Proposal([first, *self._intents[1:]], actions=self._notes)

    def add(self, write: SmallWrite, who: Acting | None) -> int | None:
        """Make one more; the place of its snapshot among all, or None if it needs more than that.

        What is raised is wrong with that one alone.
        """
        branch, pipeline = self._branch, self._pipeline
        if write.branch != branch.name:
            return None
        notes = [] if who is None else [pipeline.rights.check_rows(who, branch, write.author)]
        work = WriteSet(pipeline.graph, pipeline.preparation, branch, self._tables)
        if not is_independent(work.schema(write.table)):
            return None
        write.fill(work)
        if work.is_empty:
            return None
        made, deltas = work.make_tables(work.base, self._staging), work.deltas()
        brought = {name: version for name, version in made.items() if version is not None}
        check_tables(pipeline.graph.versions, brought, brought, deltas, deltas.__getitem__)
        said = "transaction", write.operation, write.author, write.message
        self._intents.append(Intent((), (branch,), *said, made, on_previous=True))
        self._tables |= made
        self._notes += notes
        return len(self._intents) - 1
