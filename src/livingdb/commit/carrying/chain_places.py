"""The places that a schema sync joins, and the links between them, as they are to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.proposal import BranchChange, Tables
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import SchemaChange

__all__ = ["ChainLink", "ChainPlace"]


@dataclass
class ChainPlace:
    """A branch on the way: where it is, what it had when the sync stopped, has and will have."""

    id: BranchId
    name: str
    row: BranchRow | None
    """None: it is one to be, which is hidden."""
    head: SnapshotRow
    base: Tables
    now: Tables
    after: Tables = field(default_factory=dict)
    made: Sequence[SchemaChange] = ()
    """The schema changes that lead to it from the head, where it is to have another schema."""
    planned: SyncRow | None = None
    """The sync that is planned anew, on the schema that the branch will have."""
    held: Tables | None = None
    """What it has, where `now` is that in another schema."""

    def change(self, before: Tables, after: Tables) -> BranchChange:
        """A change of its tables."""
        return BranchChange(self.id, self.name, before, after, self.head.address)


@dataclass(frozen=True)
class ChainLink:
    """A sync between two places, from the older schema to the newer one, and its lens."""

    row: SyncRow
    lens: Lens | None = None
    """Of one that is new or planned anew; the others' are as they were."""
    is_new: bool = False
