"""Everything that a commit brings with it: schemas in step first, then the views that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.graph.carry import Carried, Draft, Intent
from livingdb.graph.graph import Graph
from livingdb.graph.staging import Staging
from livingdb.sync.carry import SchemaCarrier
from livingdb.sync.follow import follow_schema
from livingdb.sync.views import ViewCarrier

__all__ = ["Carriers"]


class Carriers:
    """Carries a change along every immediate sync."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self.schemas = SchemaCarrier(graph)
        self.views = ViewCarrier(graph)

    def settled(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own branch."""
        return self.schemas.settled(intent, staging)

    def carry(self, draft: Draft, staging: Staging, make: Callable[[Intent], Draft]) -> Carried:
        """The snapshots of other branches that are to be committed along."""
        moves = draft.intent.moves
        if moves and draft.intent.kind == "schema_change":
            return follow_schema(self._graph, self.views.views(moves[0].epoch), draft, make)
        drafts = self.schemas.carry(draft, staging, make)
        carried = self.views.carry([draft, *drafts], staging, make)
        return Carried([*drafts, *carried.drafts], carried.actions)

    def follow(
        self,
        moves: Sequence[tuple[BranchRow, SnapshotRow]],
        staging: Staging,
        make: Callable[[Intent], Draft],
    ) -> Carried:
        """The snapshots of views of branches that move to snapshots that are there."""
        return self.views.follow(moves, staging, make)
