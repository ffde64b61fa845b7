"""The syncs as this process knows them, as of an epoch of the catalog.

Every change of the syncs raises the epoch.  What the commits of this process change about them it
knows, and reads only that; after anybody else's it reads all of them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from livingdb.catalog.branches import Branches
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import DETACHED, ActiveSyncs, SyncRow, Syncs, end_ids, with_end_names
from livingdb.graph.names import is_hidden

__all__ = ["KnownSyncs"]

_MANY = 256
"""If more changed, all are read again."""


@dataclass(frozen=True)
class KnownSyncs:
    """All syncs but those that are detached, and what their branches are called.

    They are those of `epoch`; only those of `outdated` are others at the epoch `upto`.  `hidden`
    are the branches that users do not know.
    """

    epoch: str
    rows: Mapping[SyncId, SyncRow]
    names: Mapping[BranchId, str]
    hidden: Set[BranchId]
    active: ActiveSyncs
    upto: str
    outdated: Set[SyncId] = frozenset()

    @classmethod
    def read(cls, epoch: str, syncs: Syncs, branches: Branches) -> KnownSyncs:
        """Those that the catalog has, all of them."""
        rows = {row.id: row for row in syncs.all() if row.state != DETACHED}
        names = branches.names_of(end_ids(rows.values()))
        hidden = {branch for branch, name in names.items() if is_hidden(name)}
        active = with_end_names(rows.values(), names, hidden)
        return cls(epoch, rows, names, hidden, active, epoch)

    def changed(self, syncs: Iterable[SyncId], epoch: str) -> KnownSyncs:
        """After a commit that changed some, and raised the epoch to another."""
        if int(epoch) != int(self.upto) + 1:  # somebody else changed something in between
            return self
        found = {*self.outdated, *syncs}
        return replace(self, upto=epoch, outdated=found) if len(found) <= _MANY else self

    def follow(self, syncs: Syncs, branches: Branches) -> KnownSyncs:
        """As they are at the epoch `upto`: what is out of date is read again."""
        found = {row.id: row for row in syncs.by_ids(self.outdated) if row.state != DETACHED}
        ends = sorted({end for row in found.values() for end in (*row.sources, row.target)})
        near = {one: row.name for one, row in branches.by_ids(ends).items()}
        names = {**self.names, **near}
        hidden = self.hidden | {branch for branch, name in near.items() if is_hidden(name)}
        rows = {one: row for one, row in self.rows.items() if one not in self.outdated}
        rows |= found
        if hidden:  # what is at the end of a sync may be far away
            active = with_end_names(rows.values(), names, hidden)
        else:
            new = with_end_names(found.values(), names, hidden)
            active = self.active.replaced(self.outdated, [*new, *new.inactive])
        return KnownSyncs(self.upto, rows, names, hidden, active, self.upto)
