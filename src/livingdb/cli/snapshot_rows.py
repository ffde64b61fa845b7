"""What commands tell about snapshots and branches, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livingdb import Branch, Database, Snapshot
    from livingdb.database.branch_movement import BranchMovement

__all__ = ["branch_row", "movement_row", "refs_by_snapshot", "snapshot_row"]


def snapshot_row(snapshot: Snapshot, refs: Sequence[str] = ()) -> dict[str, Any]:
    """Everything a log says about a snapshot; `refs` are the names that lead to it."""
    edge = snapshot.edge
    return {
        "snapshot": snapshot.id,
        "time": snapshot.time,
        "author": snapshot.author,
        "kind": edge.kind,
        "operation": edge.operation,
        "message": snapshot.message,
        "parents": list(snapshot.parents),
        "sources": snapshot.sources,
        "refs": list(refs),
    }


def movement_row(move: BranchMovement) -> dict[str, Any]:
    """Everything the log of a branch says about a movement."""
    return {
        "position": move.position,
        "snapshot": move.snapshot.id,
        "time": move.time,
        "author": move.author,
        "operation": move.operation,
        "message": move.message,
    }


def refs_by_snapshot(db: Database) -> Mapping[str, list[str]]:
    """The branches and tags that stand on each snapshot, by its id."""
    found: dict[str, list[str]] = {}
    for branch in db.branches():
        found.setdefault(branch.head.id, []).append(branch.name)
    for name, snapshot in db.tags().items():
        found.setdefault(snapshot.id, []).append(f"tag {name}")
    return found


def branch_row(branch: Branch) -> dict[str, Any]:
    """What a list says about a branch."""
    head = branch.head
    return {
        "branch": branch.name,
        "head": head.id,
        "time": head.time,
        "author": head.author,
        "message": head.message,
        "tables": head.tables(),
    }
