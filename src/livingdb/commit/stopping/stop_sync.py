"""Where the branches of a schema sync stay when it stops."""

from __future__ import annotations

from collections.abc import Sequence

from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.graph.draft import Draft
from livingdb.graph.graph import Graph
from livingdb.guard.sync_state import snapshots_in_step, sync_chain

__all__ = ["pair_in_step", "without_hidden_drafts"]


def pair_in_step(graph: Graph, sync: SyncRow) -> dict[BranchId, Address] | None:
    """The last snapshots of the branches of a schema sync that belong together."""
    if sync.kind != "schema_change":
        return None
    chain = sync_chain(graph, sync)
    rows = graph.branches.by_ids(_places(chain))
    heads = {n: graph.snapshots.at(row.head).address for n, row in rows.items()}
    return snapshots_in_step(graph, chain, heads)


def without_hidden_drafts(graph: Graph, sync: SyncRow, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts without those of the hidden branches of a sync, which stay where they are."""
    if sync.kind != "schema_change":
        return list(drafts)
    hidden = set(_places(sync_chain(graph, sync))[1:-1])
    return [d for d in drafts if not any(branch.id in hidden for branch in d.intent.moves)]


def _places(chain: Sequence[SyncRow]) -> list[BranchId]:
    return [chain[0].sources[0], *(row.target for row in chain)]
