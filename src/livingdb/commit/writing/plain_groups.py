"""Groups of branches in step where nothing but lenses has a say in what a write brings along.

Their syncs go both ways between tables whose rows are judged by themselves: there are no views,
conditions or masks, and no rows that others share.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.sync_lens import SyncLenses
from livingdb.commit.writing.small_write import is_independent
from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.lens import Lens
from livingdb.graph.graph import Graph

__all__ = ["PlainGroup", "PlainGroups"]


@dataclass(frozen=True)
class PlainGroup:
    """The branches of such a group, and the tables that its lenses relate."""

    branches: Set[BranchId]
    tables: Set[str]


class PlainGroups:
    """Finds such groups, once for an epoch of the catalog."""

    def __init__(self, graph: Graph, lenses: SyncLenses):
        self._graph = graph
        self._lenses = lenses
        self._known: tuple[str, dict[BranchId, PlainGroup | None]] = "", {}

    def of(self, branch: BranchRow) -> PlainGroup | None:
        """The group of a branch; None if it is in none, or in one that is not plain."""
        epoch, known = self._known
        if epoch != branch.epoch:
            known = {}
            self._known = branch.epoch, known
        if branch.id not in known:
            group = self._read(branch)
            known |= dict.fromkeys([branch.id] if group is None else group.branches, group)
        return known[branch.id]

    def _read(self, branch: BranchRow) -> PlainGroup | None:
        syncs = self._graph.syncs(branch.epoch)
        branches = syncs.schema_group(branch.id)
        near = [sync for one in branches for sync in syncs.of_branch(one)]
        tables = set[str]()
        for sync in {sync.id: sync for sync in near}.values():
            lens = self._plain_lens(sync)
            if lens is None:
                return None
            tables.update(lens.old, lens.new)
        return PlainGroup(branches, tables) if near else None

    def _plain_lens(self, sync: SyncRow) -> Lens | None:
        """The lens of a sync, if that is all there is to it."""
        if sync.kind != "schema_change" or sync.direction != "both" or not sync.is_active:
            return None
        if sync.behind is not None or sync.guard.get("conditions"):
            return None
        with suppress(LivingDBError):  # what is wrong with it, who carries by it says
            lens = self._lenses.of(sync)
            schemas = [one.schema for side in (lens.old, lens.new) for one in side.values()]
            if not (lens.conceals or lens.settles) and all(map(is_independent, schemas)):
                return lens
        return None
