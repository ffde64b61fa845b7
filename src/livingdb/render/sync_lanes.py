"""Syncs as drawn: the lanes they join, and the edge each began with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livingdb.chunks.address import Address
from livingdb.database.database import Database
from livingdb.database.sync import Sync
from livingdb.render.labels import condition_text
from livingdb.render.picture import SyncMark

__all__ = ["DrawnSync", "drawn_sync", "drawn_syncs"]


@dataclass(frozen=True)
class DrawnSync:
    """A sync; `parent` and `change` say which schema change it began with."""

    name: str
    kind: str
    sources: tuple[str, ...]
    target: str
    direction: str
    when: str
    state: str
    reason: str = ""
    conditions: tuple[str, ...] = ()
    parent: int | None = None
    change: Mapping[str, Any] = field(default_factory=dict)

    def is_shown(self, lanes: Mapping[str, int]) -> bool:
        """Whether the target and a source have lanes."""
        return self.target in lanes and any(name in lanes for name in self.sources)

    def mark(self, lanes: Mapping[str, int]) -> SyncMark:
        """The sync between lanes."""
        return SyncMark(
            self.name,
            tuple(lanes[name] for name in self.sources if name in lanes),
            lanes[self.target],
            self.direction,
            self.when,
            self.state,
            self.kind,
            self.reason,
            self.conditions,
        )

    def is_started_by(
        self, kind: str, lane: str, details: Mapping[str, Any], parents: Sequence[int]
    ) -> bool:
        """Whether it began with the edge of that kind on a lane."""
        if kind == "derive":
            return self.kind == kind and lane == self.target
        if self.kind != kind or self.parent not in parents:
            return False
        changes = details.get("changes") or [None]
        return bool(changes[0] == self.change)


def drawn_syncs(database: Database) -> list[DrawnSync]:
    """Every sync of a database."""
    return [drawn_sync(sync) for sync in database.syncs()]


def _first_change(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a sync goes by, or the first of several changes."""
    is_several = change.get("change") == "SeveralChanges"
    return json.loads(change["changes"])[0] if is_several else change


def drawn_sync(sync: Sync) -> DrawnSync:
    """A sync as a picture needs it."""
    graph = sync.database._graph
    first = sync._chain[0]
    began = first.spec.get("snapshot")
    row = graph.snapshots.find(Address(bytes.fromhex(began))) if began else None
    return DrawnSync(
        sync.name,
        sync.kind,
        tuple(sync.sources),
        sync.target,
        sync.direction,
        sync.when,
        sync.state,
        sync.reason,
        tuple(condition_text(condition) for condition in sync.condition_texts),
        None if row is None else row.sequence,
        _first_change(first.spec.get("change") or {}),
    )
