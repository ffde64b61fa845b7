"""What a sync is to make of its target: the one answer of everything that carries a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from livingdb.commit.proposal import Tables
from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.lens import RowImages
from livingdb.graph.draft import Intent
from livingdb.trees.delta import Delta

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["Carried"]


@dataclass(frozen=True)
class Carried:
    """What is to become of the target of a sync, before it is judged.

    No `intent`: its tables stay as they are.  `pending` is what conditions are asked about, where
    who carries it knows; `held` are the tables that the target has.
    """

    intent: Intent | None
    held: Tables = field(default_factory=dict)
    pending: PendingChange | None = None
    deltas: dict[str, Delta] = field(default_factory=dict)
    row_images: dict[str, RowImages] = field(default_factory=dict)
    broken: LivingDBError | None = None
    """Why the sync cannot follow; its conditions may stop it before."""
    spec: Mapping[str, Any] | None = None
    """What the sync is from now on, if it is another."""
    schema_changes: Sequence[Mapping[str, Any]] = ()
    """The schema changes of the source that the target follows."""
    brings_rows: bool = False
    """Whether other rows come with those schema changes."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """The ids that columns and tables of the target have then, by others they have now."""
