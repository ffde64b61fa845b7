"""A move of one end of a schema sync that is carried to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.proposal import BranchMove
from livingdb.evolution.lenses.lens import Lens
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import carried_details
from livingdb.tables.index import Version

__all__ = ["CarriedMove"]


@dataclass(frozen=True, slots=True)
class CarriedMove:
    """A move of `source`, and the `branch` that is to follow it, which stands on `head`."""

    sync: SyncRow
    lens: Lens
    source: BranchMove
    branch: BranchRow
    head: SnapshotRow
    is_right: bool
    """Whether it goes from a source of the sync to its target."""

    def details(self, **more: Any) -> dict[str, Any]:
        """What the edge says: where it is from, and more."""
        sync, source = self.sync, self.source
        ends = sync.name, sync.id, source.branch.id, source.address, self.is_right
        return {**carried_details(*ends), **more}

    def intent(
        self,
        made: Mapping[str, Version | None],
        details: Mapping[str, Any],
        made_between: Sequence[Version] = (),
    ) -> Intent:
        """The snapshot of the target; behind a mask nothing is said but where it is from."""
        source = self.source
        is_masked = self.is_right and self.lens.conceals
        message = f"follows {self.sync.ends[0]}" if is_masked else source.edge.message
        return Intent(
            (self.head,),
            (self.branch,),
            "propagate",
            "sync",
            source.edge.author,
            message,
            made,
            {source.branch.name: source.address.hex()},
            details,
            intermediates=made_between,
        )
