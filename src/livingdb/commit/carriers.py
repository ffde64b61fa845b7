"""Propagates a commit along immediate syncs: lenses first, then views in topological order, then
watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from livingdb.alerts.watch_commits import CommitWatches
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.carry_lens import LensCarrier
from livingdb.graph.draft import Draft, Intent, Propagation
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging

if TYPE_CHECKING:
    from livingdb.commit.carry_views import ViewCarrier

__all__ = ["Carriers"]


class Carriers:
    """Carries a change along every immediate sync."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self.lenses = LensCarrier(graph)
        self._watches = CommitWatches(graph)
        self._views: ViewCarrier | None = None

    def _view_carrier(self, moves: Sequence[BranchRow]) -> ViewCarrier | None:
        """Who keeps views, if there are any; what that needs is imported then."""
        if not moves:
            return None
        syncs = self._graph.syncs(moves[0].epoch)
        if len(syncs) == len(syncs.schema_syncs):
            return None
        if self._views is None:
            from livingdb.commit.carry_views import ViewCarrier

            self._views = ViewCarrier(self._graph)
        return self._views

    def settle_intent(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own branch."""
        return self.lenses.settle_intent(intent, staging)

    def carry(
        self,
        draft: Draft,
        staging: Staging,
        make: Callable[[Intent], Draft],
        beside: Sequence[Draft] = (),
    ) -> Propagation:
        """The snapshots of other branches that are to be committed along, and what to tell."""
        return self._watches.add_commit_alerts(
            draft, self._carry_to_all(draft, staging, make, beside)
        )

    def _carry_to_all(
        self,
        draft: Draft,
        staging: Staging,
        make: Callable[[Intent], Draft],
        beside: Sequence[Draft],
    ) -> Propagation:
        moves = draft.intent.moves
        views = self._view_carrier(moves)
        if moves and draft.intent.kind == "schema_change":
            if views is None:
                return Propagation()
            from livingdb.commit.carry_schema_change import rebind_views

            found: Propagation = rebind_views(self._graph, views.views(moves[0].epoch), draft, make)
            return found
        along = [self.lenses.carry(each, staging, make) for each in (draft, *beside)]
        drafts = [other for carried in along for other in carried.drafts]
        actions = [act for carried in along for act in carried.actions]
        if views is None:
            return Propagation(drafts, actions)
        carried = views.carry([draft, *beside, *drafts], staging, make)
        return Propagation([*drafts, *carried.drafts], [*actions, *carried.actions])

    def carry_head_moves(
        self,
        moves: Sequence[tuple[BranchRow, SnapshotRow]],
        staging: Staging,
        make: Callable[[Intent], Draft],
        operation: str = "",
    ) -> Propagation:
        """The snapshots of views of branches that move to snapshots that are there."""
        views = self._view_carrier([branch for branch, _ in moves])
        carried = Propagation() if views is None else views.carry_head_moves(moves, staging, make)
        return self._watches.add_move_alerts(moves, operation, carried)
