"""The smallest programs for what is known to fail: each fails as its entry says, or is mended.

When one holds, its entry goes from `known.py` and the program to `test_meetings.py`.
"""

from __future__ import annotations

import pytest
from tests.composition.graph_operations import (
    CherryPick,
    Clone,
    Merge,
    Revert,
)
from tests.composition.known import KNOWN
from tests.composition.machine import Failure, Program, run
from tests.composition.pieces import (
    INSERT,
    KEPT,
    RENAME,
)
from tests.composition.schema_model import (
    AddColumn,
    CreateTable,
    RenameColumn,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.view_operations import (
    Propagate,
    Twin,
)

FOUND = {
    "revert_schema_change": Program([RENAME, Revert("main", "main", 0)]),
    "cherry_pick_schema_change": Program(
        [Clone("main", "dev"), RENAME, CherryPick("dev", "main", 0)]
    ),
    "merge_schema_into_synced": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            Evolve("main", (RenameColumn("items", "size", "width"),), "to", "b", "both"),
            Merge("dev", "main", "fail"),
        ]
    ),
    "merge_schema_change": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            INSERT,
            Merge("dev", "main", "fail"),
        ]
    ),
    "merge_within_pair": Program(
        [
            Evolve("main", (Normalize("orders", "amount", "sums"),), "to", "b", "both"),
            Evolve("main", (SplitTable("orders", "amount", 3, ("high", "low")),), *KEPT),
            Merge("main", "b", "ours"),
        ]
    ),
    "change_already_made": Program(
        [
            TransformClone("main", "m", (CreateTable("new"),), "immediate"),
            Twin("m", "t"),
            Merge("m", "main", "fail"),
            Propagate(),
        ]
    ),
    "replay_over_rename": Program([INSERT, RENAME, Revert("main", "main", 1)]),
}
ENTRIES = {entry.name: entry for entry in KNOWN}


def test_every_entry_has_a_program() -> None:
    assert sorted(FOUND) == sorted(ENTRIES)
    assert len(ENTRIES) == len(KNOWN)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            entry.name,
            marks=pytest.mark.xfail(strict=True, raises=Failure, reason=entry.reason),
        )
        for entry in KNOWN
    ],
)
def test_known_failures_are_still_there(name: str) -> None:
    entry = ENTRIES[name]
    others = [known for known in KNOWN if known is not entry and known.goes_on]
    try:
        for _ in range(8 if entry.races else 1):
            run(FOUND[name], others)
    except Failure as failure:
        if not entry.matches(failure):
            pytest.fail(f"it fails in another way: {failure}")
        raise
