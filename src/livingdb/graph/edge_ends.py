"""What an edge names: the branches it was made from and the sync that made it.

Records name both by id; the names that stand there, too, are those of the time.  What readers
are shown are the names that branches and syncs have now, or had when they were dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.graph.snapshot import Edge

__all__ = [
    "AT",
    "FROM",
    "SYNC",
    "SYNC_ID",
    "UNIFIED",
    "carried_details",
    "find_sync",
    "source_ids",
    "source_names",
]

AT = "at"
"""What the details of a derived object's edge have the snapshots under that it is made from."""
FROM = "from"
"""The same for what a sync of two schemas carries."""
SYNC, SYNC_ID = "sync", "sync_id"
"""The sync: what it was called when it made the snapshot, and its id."""
UNIFIED = "unified"
"""The ids that columns and tables have from then on, by those that they had on the branch."""

_IS_CARRIED = "direction"


def carried_details(
    name: str, sync: SyncId, source: BranchId, at: Address, is_right: bool
) -> dict[str, Any]:
    """What the edge of a change remembers that a sync of two schemas carries from a snapshot."""
    return {
        SYNC: name,
        SYNC_ID: sync,
        FROM: {source: at.hex()},
        _IS_CARRIED: "forward" if is_right else "reverse",
    }


def source_ids(catalog: Catalog, edge: Edge) -> dict[BranchId, str]:
    """The snapshots that a sync made this one from, by branch; none of what no sync made."""
    former, details = catalog.former_names, edge.details
    if AT in details or FROM in details:
        given: Mapping[str, str] = details[AT] if AT in details else details[FROM]
        return {former.branch(branch): text for branch, text in given.items()}
    if _IS_CARRIED not in details:
        return {}
    named = {former.branch_named(name): text for name, text in edge.sources.items()}
    return {branch: text for branch, text in named.items() if branch is not None}


def source_names(catalog: Catalog, edge: Edge) -> dict[str, str]:
    """The snapshots that an edge names as its sources, by what their branches are called now.

    A branch that was dropped has the name it had then, as has what a merge took.
    """
    ids = source_ids(catalog, edge)
    if not ids:
        return dict(edge.sources)
    rows = catalog.branches.by_ids(ids)
    found = {rows[branch].name: text for branch, text in ids.items() if branch in rows}
    for branch, text in ids.items():
        if branch not in rows:
            then = (name for name, at in edge.sources.items() if at == text and name not in found)
            found[next(then, branch)] = text
    return dict(sorted(found.items()))


def find_sync(catalog: Catalog, edge: Edge, syncs: Iterable[SyncRow]) -> SyncRow | None:
    """The sync that made a snapshot, if it is among these."""
    name = str(edge.details.get(SYNC, ""))
    known: SyncId | None = edge.details.get(SYNC_ID) or catalog.former_names.sync_named(name)
    every = list(syncs)
    if known is None:
        # A record of an earlier format, of a sync that was dropped: one may have its name now.
        return next((sync for sync in every if name in (sync.name, sync.spec.get("name"))), None)
    return next((sync for sync in every if sync.id == known), None)
