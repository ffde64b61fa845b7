"""Every operation, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.composition.erase_operations import Erase
from tests.composition.graph_operations import (
    ApplyDiff,
    CherryPick,
    Clone,
    DropBranch,
    Merge,
    RenameBranch,
    RequestMerge,
    Reset,
    Revert,
    Tag,
    TimeTravel,
)
from tests.composition.model import Model
from tests.composition.row_operations import DrawNumbers, SqlDelete, SqlInsert, SqlUpdate, Write
from tests.composition.schema_operations import Evolve, Retire, TransformClone
from tests.composition.step import Step
from tests.composition.upkeep_operations import (
    BackUp,
    CollectGarbage,
    Compact,
    DropIndex,
    Index,
    Inspect,
    Migrate,
    Relayout,
    Reopen,
    Tune,
    UndoTuning,
    Upkeep,
)
from tests.composition.view_operations import (
    Alter,
    Approve,
    CloneDerived,
    CloneDerivedAt,
    Derive,
    Detach,
    Propagate,
    Reattach,
    Redefine,
    Refresh,
    Resume,
    Twin,
)

__all__ = ["WEIGHTS", "WITH_ERASURE", "drawn"]

WEIGHTS: dict[type[Step], int] = {
    Write: 16,
    SqlUpdate: 3,
    SqlDelete: 2,
    SqlInsert: 2,
    DrawNumbers: 3,
    Clone: 2,
    CloneDerived: 1,
    CloneDerivedAt: 2,
    Merge: 4,
    Reset: 2,
    Revert: 2,
    CherryPick: 2,
    ApplyDiff: 2,
    Tag: 1,
    DropBranch: 2,
    RenameBranch: 1,
    TimeTravel: 3,
    Evolve: 9,
    Retire: 2,
    TransformClone: 4,
    Derive: 8,
    Twin: 4,
    Redefine: 2,
    Detach: 2,
    Alter: 1,
    Reattach: 3,
    Approve: 2,
    Resume: 2,
    Propagate: 6,
    Refresh: 3,
    Reopen: 1,
    BackUp: 1,
    Compact: 1,
    CollectGarbage: 1,
    Migrate: 1,
    Upkeep: 1,
    Relayout: 2,
    Index: 3,
    DropIndex: 1,
    Tune: 2,
    UndoTuning: 1,
    Inspect: 1,
}


WITH_ERASURE: dict[type[Step], int] = {**WEIGHTS, Erase: 6, RequestMerge: 4}
"""The same, with rows that are erased and merges that are asked for."""


def drawn(model: Model, random: Random, weights: Mapping[type[Step], int] = WEIGHTS) -> Step | None:
    """A step that suits the model; None if none was found."""
    kinds = list(weights)
    for _ in range(5):
        kind = random.choices(kinds, list(weights.values()))[0]
        step = kind.draw(model, random)
        if step is not None:
            return step
    return None
