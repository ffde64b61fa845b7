"""Crossings made by hand: what a branch changed, as a sync would bring it to a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import livingdb
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.graph.graph import now
from livingdb.guard.conditions.pending_change import PendingChange, VersionPair


def tables_at(db: livingdb.Database, row: SnapshotRow | None) -> dict[str, Any]:
    """The tables of a snapshot."""
    if row is None:
        return {}
    graph = db._graph
    return {name: graph.versions.require(a) for name, a in graph.tables(row).items()}


def crossing(
    db: livingdb.Database,
    before: object,
    after: object,
    kind: str = "evolve",
    spec: Mapping[str, Any] | None = None,
    **other: Any,
) -> PendingChange:
    """A crossing whose source and target both change as a branch did between two refs."""
    graph = db._graph
    new = db._resolve(after).snapshot
    old = None if before is None else db._resolve(before).snapshot
    then, then_not = tables_at(db, new), tables_at(db, old)
    sides = {n: VersionPair(then_not.get(n), then.get(n)) for n in sorted({*then, *then_not})}
    branch = graph.branch("main")
    sync = SyncRow(
        "s1",
        "main/v",
        kind,
        (branch.id,),
        branch.id,
        "forward",
        "deferred",
        ACTIVE,
        "",
        0,
        spec or {},
    )
    given: dict[str, Any] = {
        "targets": sides,
        "sources": sides,
        "at": {branch.id: new.address},
        "before": {} if old is None else {branch.id: old.address},
        "head": old,
        "time": now(),
        "authors": [new.author],
        "trust": db.trust,
        **other,
    }
    return PendingChange(graph, sync, **given)
