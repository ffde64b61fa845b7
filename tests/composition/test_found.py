"""The smallest programs for what is known to fail: each fails as its entry says, or is mended.

When one holds, its entry goes from `known.py` and the program to `test_meetings.py`.
"""

from __future__ import annotations

import pytest
from tests.composition.graph_operations import (
    CherryPick,
    Clone,
    DropBranch,
    Merge,
    RenameBranch,
    Reset,
    Revert,
    TimeTravel,
)
from tests.composition.known import KNOWN
from tests.composition.machine import Failure, Program, run
from tests.composition.queries import Query
from tests.composition.row_operations import Write
from tests.composition.schema_model import (
    AddColumn,
    CreateTable,
    DropColumn,
    DropTable,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.upkeep_operations import Inspect, Reopen
from tests.composition.view_operations import (
    Approve,
    CloneDerived,
    Derive,
    Detach,
    Propagate,
    Reattach,
    Redefine,
    Refresh,
    Twin,
)

FILTER = Query("filter", ("orders",), (("k", "id"), ("n", "amount")))
GROUP = Query("group", ("orders",), (("g", "city"), ("n", "amount")))
UNION = Query("union", ("orders", "returns"), (("n", "amount"), ("m", "amount")))
OVER = Query("filter", ("v",), (("k", "fk"), ("n", "fn")))
VIEW = Derive("main", "v", FILTER, "immediate")
RENAME = Evolve("main", (RenameColumn("orders", "amount", "net"),))
RENAME_TABLE = Evolve("main", (RenameTable("orders", "sales"),))
ADD_RANK = AddColumn("orders", "rank", "default")
ADD = Evolve("main", (ADD_RANK,))
MASK = MaskColumn("orders", "note", "constant")
MASKED = TransformClone("main", "m", (MASK,), "immediate")
MASKED_LATER = TransformClone("main", "m", (MASK,), "deferred")
ROW = (("amount", 4), ("city", "a"), ("id", 9), ("note", "b"))
OTHER_ROW = (("amount", 4), ("city", "a"), ("id", 8), ("note", "b"))
KEPT = ("keep", "old", "both")
INSERT = Write("main", (("insert", "orders", (ROW,)),))

FOUND = {
    "rename_branch": Program([Clone("main", "dev"), RenameBranch("dev", "dev2")]),
    "revert_schema_change": Program([RENAME, Revert("main", "main", 0)]),
    "cherry_pick_schema_change": Program(
        [Clone("main", "dev"), RENAME, CherryPick("dev", "main", 0)]
    ),
    "evolve_source_of_one_way_lens": Program([MASKED, ADD]),
    "merge_schema_into_synced": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            MASKED,
            Merge("dev", "main", "fail"),
        ]
    ),
    "redefine_read": Program(
        [VIEW, Derive("v", "w", OVER, "deferred"), Redefine("v", GROUP, "immediate")]
    ),
    "redefine_loses_versions": Program([VIEW, Redefine("v", GROUP, "immediate")]),
    "redefine_orphans_readers": Program(
        [
            VIEW,
            Derive("v", "w", OVER, "deferred"),
            Detach("w"),
            Redefine("v", FILTER, "immediate"),
        ]
    ),
    "lag_without_table": Program([VIEW, Detach("v"), RENAME_TABLE]),
    "lag_without_branch": Program(
        [Clone("main", "dev"), Derive("dev", "v", FILTER, "immediate"), DropBranch("dev", True)]
    ),
    "lineage_of_evolved_view": Program(
        [VIEW, Detach("v"), Evolve("v", (AddColumn("v", "rank"),)), Inspect()]
    ),
    "lineage_over_broken_clone": Program(
        [
            MASKED_LATER,
            Evolve("main", (DropColumn("orders", "note"),)),
            Derive("m", "v", FILTER, "deferred"),
            Inspect(),
        ]
    ),
    "lineage_without_branch": Program(
        [
            Clone("main", "dev"),
            Derive("dev", "v", FILTER, "immediate"),
            DropBranch("dev", True),
            Inspect(),
        ]
    ),
    "derived_at_before_table_rename": Program([VIEW, RENAME_TABLE, TimeTravel("main", 1)]),
    "derived_at_of_evolved_view": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Detach("v"),
            Evolve("v", (DropColumn("v", "gc"),)),
            TimeTravel("main", 0),
        ]
    ),
    "clone_follows_no_table": Program([MASKED_LATER, RENAME_TABLE, Propagate()]),
    "clone_refresh_without_table": Program(
        [MASKED_LATER, Evolve("main", (DropTable("items"),)), Refresh("m")]
    ),
    "clone_follows_no_column": Program(
        [MASKED_LATER, Evolve("main", (RenameColumn("orders", "note", "text"),)), Propagate()]
    ),
    "lens_over_immediate_view": Program(
        [VIEW, Evolve("v", (RenameColumn("v", "fn", "net"),), "to", "b", "forward"), INSERT]
    ),
    "one_way_lens_refuses_commit": Program(
        [
            Evolve("main", (RetypeColumn("orders", "amount", "string"),)),
            Evolve("main", (RetypeColumn("orders", "amount", "int"),), "to", "b", "forward"),
            Write("main", (("update", "orders", ((("amount", "a"), ("id", 1)),)),)),
        ]
    ),
    "reattach_lens_after_schema_change": Program([MASKED, Detach("m"), ADD, Reattach("m")]),
    "reattach_to_written": Program(
        [
            MASKED,
            Detach("m"),
            Evolve("m", (AddColumn("orders", "rank"),), "to", "b", "both"),
            Reattach("m"),
        ]
    ),
    "propagate_stops_at_immediate": Program(
        [
            Derive("main", "v", FILTER, "deferred"),
            *[
                step
                for number, branch in enumerate("vwxy")
                for step in (
                    Evolve(branch, (CreateTable(f"n{number}"),), "to", f"b{number}", "forward"),
                    Derive(
                        f"b{number}",
                        chr(ord(branch) + 1),
                        Query("filter", (branch,), (("k", "fk"), ("n", "fn"))),
                        "deferred",
                    ),
                )
            ],
            INSERT,
            Propagate(),
        ]
    ),
    "propagate_skips_behind_held": Program(
        [
            Derive("main", "v", FILTER, "deferred", "full", 2),
            TransformClone("v", "m", (CreateTable("new"),), "deferred"),
            INSERT,
            Propagate(),
            Approve("v"),
            Write("main", (("insert", "orders", (OTHER_ROW,)),)),
            Propagate(),
        ]
    ),
    "refresh_changes_schema_under_lens": Program(
        [
            MASKED_LATER,
            TransformClone("m", "n", (MaskColumn("items", "size", "null"),), "immediate"),
            RENAME,
            Propagate(),
        ]
    ),
    "reset_to_while_detached": Program(
        [
            Evolve("main", (ADD_RANK,), "to", "b", "both"),
            Detach("b"),
            Write("b", (("delete", "items", ((1,),)),)),
            INSERT,
            Reattach("b"),
            Reset("b", 1),
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
            Evolve("main", (SplitTable("orders", "amount", 3, ("high", "low")),), *KEPT),
            Write("old", (("insert", "orders", (ROW,)),)),
            Merge("main", "old", "ours"),
        ]
    ),
    "up_kept_or_computed_anew": Program(
        [
            TransformClone("main", "m", (AddColumn("orders", "x", "up", "amount"),), "immediate"),
            Twin("m", "t"),
            Write("main", (("update", "orders", ((("amount", 4), ("id", 1)),)),)),
            Propagate(),
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
    "clone_derived_in_pieces": Program(
        [
            MASKED_LATER,
            Evolve("main", (DropTable("items"),)),
            CloneDerived("main", "dev"),
        ]
    ),
    "clone_of_keyless_view": Program(
        [
            Derive("main", "v", UNION, "immediate"),
            Evolve("v", (AddColumn("v", "rank"),), "to", "b", "forward"),
        ]
    ),
    "unreadable_after_overflow": Program(
        [
            Evolve("main", (Normalize("orders", "city", "cities"),)),
            Evolve("main", (AddColumn("cities", "twice", "computed", "id"),)),
        ]
    ),
    "lineage_of_view_without_table": Program([VIEW, Detach("v"), RENAME_TABLE, Inspect()]),
    "guarded_unstored_view_is_lost": Program(
        [Derive("main", "v", FILTER, "deferred", "none", 5), Reopen()]
    ),
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
