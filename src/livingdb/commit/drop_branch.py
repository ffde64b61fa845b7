"""Dropping a branch: which of its syncs go with it, and which stop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import DETACHED, SyncRow
from livingdb.derivation.view import KIND
from livingdb.errors import RuleViolation, TransactionConflict
from livingdb.graph.draft import Action
from livingdb.graph.graph import Graph
from livingdb.guard.sync_state import NOBODY, set_state

__all__ = ["DroppedBranch", "check_not_default", "drop_branches", "plan_drop"]


@dataclass(frozen=True)
class DroppedBranch:
    """A branch that is no more: its syncs and what is hidden between go, what reads it stops."""

    graph: Graph
    branch: BranchRow
    readers: Sequence[SyncRow]
    syncs: Sequence[SyncRow]
    hidden: Sequence[BranchRow]
    titles: Collection[str] = ()
    """What the syncs that go are called, in alerts too."""

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        """Those that it takes along or stops."""
        return [row.id for row in (*self.readers, *self.syncs)]

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        """Write it down; `TransactionConflict` if others have yet to learn something of it."""
        gone = [*self.hidden, self.branch]
        if self.graph.in_step.are_overtaken(connection, gone):
            raise TransactionConflict(f"others write to what {self.branch.name!r} joins; try again")
        for row in self.readers:
            reason = f"the branch {self.branch.name!r}, which it reads, was dropped"
            set_state(self.graph, connection, [row], DETACHED, reason, NOBODY, moment)
        for row in self.syncs:
            catalog.syncs.drop(connection, row.id)
        for title in self.titles:
            note = f"the branch {self.branch.name!r} was dropped"
            resolve_alerts(self.graph, connection, title, NOBODY, note)
        for branch in gone:
            catalog.branches.drop(connection, branch, moment)


def check_not_default(graph: Graph, branch: BranchRow, otherwise: str = "") -> None:
    """`RuleViolation` if a branch is the default one; it says what can be done `otherwise`."""
    if graph.catalog.default_branch() == branch.id:
        raise RuleViolation(
            f"{branch.name!r} is the default branch: db.set_default_branch(name) makes another "
            f"one the default{otherwise}"
        )


def plan_drop(
    graph: Graph, branch: BranchRow, detach: bool, is_view: bool = False, force: bool = False
) -> DroppedBranch:
    """What goes with a branch; `RuleViolation` if it may not go.

    `is_view`: the sync that leads to it goes with it, as that of a derived object does.  `force`:
    also if it is the default branch.
    """
    if not force:
        check_not_default(graph, branch, ", and force=True drops it nevertheless")
    known = graph.sync_chains()
    held = known.of_branch(branch.id)
    for chain in held:
        is_own = (chain[0].kind == KIND or is_view) and chain[-1].target == branch.id
        if chain[0].is_active and not detach and not is_own:
            ends = chain[0].sources[0], chain[-1].target
            joined = " and ".join(known.names.get(end, "?") for end in ends)
            raise RuleViolation(
                f"{branch.name!r} is in the sync of {joined}; detach=True drops the branch and "
                "lets the other go its own way"
            )
    readers = [c[0] for c in held if c[0].kind == KIND and branch.id in c[0].sources]
    stages = [row.sources[0] for chain in held for row in chain[1:]]
    going = [chain for chain in held if chain[0] not in readers]
    return DroppedBranch(
        graph,
        branch,
        readers,
        [row for chain in going for row in chain],
        list(graph.branches.by_ids(stages).values()),
        {*map(known.title, going), *(row.name for chain in going for row in chain)},
    )


def drop_branches(
    graph: Graph, dropped: Sequence[DroppedBranch], moment: int, noted: Action | None = None
) -> None:
    """Forget branches in one transaction, in which `noted` writes down that somebody did."""
    with graph.catalog.write() as connection:
        for change in dropped:
            change.store(graph.catalog, connection, (), moment)
        if any(change.changed_syncs for change in dropped):
            graph.catalog.raise_epoch(connection)
        if noted is not None:
            noted(connection)
