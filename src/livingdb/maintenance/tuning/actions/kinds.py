"""The kinds of actions, as data: whoever has another one adds a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livingdb.errors import Unsupported
from livingdb.maintenance.tuning.actions.action import Action
from livingdb.maintenance.tuning.actions.evict import Evict
from livingdb.maintenance.tuning.actions.make_index import MakeIndex
from livingdb.maintenance.tuning.actions.redefine import Redefine
from livingdb.maintenance.tuning.actions.refresh_time import RefreshTime
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.actions.store import Store

__all__ = ["read_action"]

_KINDS: tuple[type[Action], ...] = (
    Relayout,
    Store,
    MakeIndex,
    RefreshTime,
    Redefine,
    Evict,
)
_BY_NAME = {kind.kind: kind for kind in _KINDS}


def read_action(kind: str, data: Mapping[str, Any]) -> Action:
    """An action that was written down; `Unsupported` if nobody here knows its kind."""
    found = _BY_NAME.get(kind)
    if found is None:
        raise Unsupported(f"this LivingDB does not know how to {kind!r}: use a newer one")
    return found.from_json(data)
