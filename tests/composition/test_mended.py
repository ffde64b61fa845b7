"""Programs that once failed: what is mended stays so."""

from __future__ import annotations

import pytest
from tests.composition.erase_operations import Erase
from tests.composition.graph_operations import (
    CherryPick,
    Clone,
    Merge,
    RequestMerge,
    Reset,
    Revert,
    TimeTravel,
)
from tests.composition.lookup_model import AddLookedUp, DropLookedUp, NormalizeBy
from tests.composition.machine import Program, run
from tests.composition.pieces import (
    ADD,
    ADD_RANK,
    COUNT,
    COUNT_OVER,
    FILTER,
    GROUP,
    INSERT,
    KEPT,
    MASKED,
    MASKED_LATER,
    OTHER_ROW,
    OVER,
    RENAME,
    RENAME_TABLE,
    ROW,
    UNION,
    VIEW,
)
from tests.composition.queries import Query
from tests.composition.row_operations import SqlInsert, SqlUpdate, Write
from tests.composition.schema_model import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropTable,
    HideRows,
    HideTwins,
    JoinTables,
    MaskColumn,
    MaskKey,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    RetypeKey,
    SetDefault,
    SplitColumn,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.upkeep_operations import BackUp, Compact, Inspect, Reopen, Upkeep
from tests.composition.view_operations import (
    Approve,
    Derive,
    Detach,
    Propagate,
    Reattach,
    Redefine,
    Refresh,
    Twin,
)

REORDER = ReorderColumns("orders", ("note", "amount", "id", "city"))
DEFAULT = SetDefault("orders", "amount", 7)
DETACHING = ("here", "", "none", "detach")
BY_AMOUNT = NormalizeBy("returns", "note", "orders", "amount")

MENDED = {
    "reorder_and_defaults_under_everything": Program(
        [
            VIEW,
            MASKED_LATER,
            Evolve("main", (REORDER, DEFAULT), *KEPT),
            INSERT,
            Write("old", (("insert", "orders", (OTHER_ROW,)),)),
            Twin("v", "t"),
            Propagate(),
            Clone("main", "dev"),
            Evolve("dev", (RenameColumn("orders", "note", "text"),)),
            Merge("dev", "main", "fail"),
            Propagate(),
            Revert("dev", "dev", 0),
        ]
    ),
    "reorder_merged": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (REORDER,)),
            Evolve("main", (ADD_RANK,)),
            INSERT,
            Merge("dev", "main", "fail"),
            CherryPick("main", "dev", 0),
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
    "merge_schema_into_synced": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            Evolve("main", (RenameColumn("items", "size", "width"),), "to", "b", "both"),
            Merge("dev", "main", "fail"),
        ]
    ),
    "revert_schema_change": Program([RENAME, Revert("main", "main", 0)]),
    "revert_of_a_drop_beside_a_two_way_rename": Program(
        [
            Evolve("main", (DropTable("returns"),)),
            Evolve("main", (RenameTable("orders", "n"),), "to", "b", "both"),
            Revert("main", "main", 0),
            INSERT,
            Write("b", (("delete", "n", ((1,),)),)),
        ]
    ),
    "cherry_pick_schema_change": Program(
        [Clone("main", "dev"), RENAME, CherryPick("dev", "main", 0)]
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
    "replay_over_rename": Program([INSERT, RENAME, Revert("main", "main", 1)]),
    "merge_schema_into_source_of_one_way_lens": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            MASKED,
            Merge("dev", "main", "fail"),
        ]
    ),
    "evolve_source_of_one_way_lens": Program([MASKED, ADD]),
    "reset_over_rename": Program([VIEW, RENAME, Reset("main", 1)]),
    "fast_forward_over_rename": Program(
        [
            VIEW,
            Clone("main", "dev"),
            Evolve("dev", (RenameColumn("orders", "amount", "net"),)),
            Merge("dev", "main", "fail"),
        ]
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
    "reattach_to_written": Program(
        [
            MASKED,
            Detach("m"),
            Evolve("m", (AddColumn("orders", "rank"),), "to", "b", "both"),
            Reattach("m"),
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
    "clone_refresh_without_table": Program(
        [MASKED_LATER, Evolve("main", (DropTable("items"),)), Refresh("m")]
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
    "up_kept_or_computed_anew": Program(
        [
            TransformClone("main", "m", (AddColumn("orders", "x", "up", "amount"),), "immediate"),
            Twin("m", "t"),
            Write("main", (("update", "orders", ((("amount", 4), ("id", 1)),)),)),
            Propagate(),
        ]
    ),
    "reattach_lens_after_schema_change": Program([MASKED, Detach("m"), ADD, Reattach("m")]),
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
    "derived_at_before_table_rename": Program([VIEW, RENAME_TABLE, TimeTravel("main", 1)]),
    "clone_follows_no_table": Program([MASKED_LATER, RENAME_TABLE, Propagate()]),
    "clone_follows_no_column": Program(
        [MASKED_LATER, Evolve("main", (RenameColumn("orders", "note", "text"),)), Propagate()]
    ),
    "count_reads_a_column": Program(
        [VIEW, Derive("v", "w", COUNT_OVER, "deferred"), Redefine("v", GROUP, "immediate")]
    ),
    "reattach_with_another_type": Program(
        [
            Derive("main", "v", Query("distinct", ("orders",), (("g", "amount"),)), "immediate"),
            Evolve("main", (RetypeColumn("orders", "amount", "string"),)),
            Reattach("v"),
        ]
    ),
    "reset_refreshes_what_follows_later": Program(
        [
            INSERT,
            Derive("main", "v", FILTER, "deferred"),
            Evolve("main", (RenameColumn("items", "size", "length"),)),
            Reset("main", 2),
        ]
    ),
    "reattach_pair_over_rename": Program(
        [
            Evolve("main", (ADD_RANK,), "to", "b", "both"),
            Detach("b"),
            Evolve("b", (RenameTable("items", "parts"),)),
            Reattach("b"),
        ]
    ),
    "lineage_through_lens_of_now": Program(
        [
            VIEW,
            Evolve("v", (RenameTable("v", "w"),), "to", "b", "forward"),
            Derive("b", "u", Query("filter", ("w",), (("k", "fk"), ("n", "fn"))), "on demand"),
            Redefine("v", GROUP, "immediate"),
            Inspect(),
        ]
    ),
    "clone_of_keyless_view": Program(
        [
            Derive("main", "v", UNION, "immediate"),
            Evolve("v", (AddColumn("v", "rank"),), "to", "b", "forward"),
        ]
    ),
    "reattach_clone_of_keyless_view": Program(
        [
            Derive("main", "v", UNION, "immediate"),
            TransformClone("v", "m", (AddColumn("v", "rank"),), "deferred"),
            Evolve("v", (AddColumn("v", "rank"),), "to", "b", "forward"),
            Detach("b"),
            INSERT,
            Propagate(),
            Reattach("b"),
            INSERT,
        ]
    ),
    "lineage_through_keyless_lens": Program(
        [
            Derive("main", "v", UNION, "immediate"),
            Evolve("v", (RenameColumn("v", "un", "number"),), "to", "b", "forward"),
            Derive("b", "w", COUNT_OVER, "deferred"),
            Inspect(),
        ]
    ),
    "parts_of_keyless_view": Program(
        [
            Derive("main", "v", UNION, "immediate"),
            TransformClone("v", "m", (SplitTable("v", "un", 3, ("high", "low")),), "deferred"),
        ]
    ),
    "check_of_lookup_that_follows_later": Program(
        [
            TransformClone("main", "m", (Normalize("orders", "amount", "amounts"),), "deferred"),
            Write("main", (("update", "orders", ((("amount", 9), ("id", 1)),)),)),
            Propagate(),
        ]
    ),
    "derived_at_before_first_definition": Program(
        [INSERT, VIEW, Redefine("v", GROUP, "immediate"), TimeTravel("main", 1)]
    ),
    "reattach_over_a_schema_that_came_and_went": Program(
        [
            MASKED,
            Evolve("main", (Decompose("orders", (("x", ("city", "amount")), ("y", ("note",)))),)),
            Revert("main", "main", 0),
            Reattach("m"),
            INSERT,
        ]
    ),
    "reset_to_before_a_table_that_the_source_got_from_its_target": Program(
        [
            Evolve("main", (CreateTable("new"),), "to", "next", "forward"),
            Merge("next", "main", "theirs"),
            Write("main", (("insert", "new", ((("id", 8), ("s", "7"), ("x", 4)),)),)),
            Reset("main", 3),
        ]
    ),
    "write_that_a_constraint_from_a_merge_refuses": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddConstraint("returns", "city", None, "there"),)),
            Evolve("main", (ConcatColumns("orders", ("city", "note"), "n"),), "to", "next", "both"),
            Merge("dev", "main", "ours"),
            Write("next", (("update", "returns", ((("id", 1), ("city", None)),)),)),
        ]
    ),
    "merge_that_takes_back_a_change_of_ours_under_a_sync": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (SplitTable("returns", "id", 3, ("high", "low")),)),
            Evolve("main", (JoinTables("items", "returns", "joined"),), "keep", "old", "reverse"),
            Derive("main", "v", GROUP, "immediate"),
            Merge("dev", "main", "theirs"),
        ]
    ),
    "pick_of_a_schema_change_that_was_reverted": Program(
        [
            Evolve("main", (DropColumn("orders", "note"),)),
            Revert("main", "main", 0),
            CherryPick("main", "main", 1),
        ]
    ),
    "twin_over_a_source_that_got_the_change_by_a_merge": Program(
        [
            Evolve("main", (RenameTable("orders", "x"),), "to", "next", "forward"),
            Twin("next", "later"),
            Merge("next", "main", "ours"),
            Evolve("main", (RenameTable("x", "y"),)),
            Propagate(),
        ]
    ),
    "merge_of_a_rename_of_what_ours_masked": Program(
        [
            Clone("main", "dev"),
            Evolve("main", (MaskColumn("orders", "city", "hash"),)),
            Evolve("dev", (RenameTable("orders", "x"), DropTable("returns"))),
            Merge("dev", "main", "ours"),
            Write("main", (("insert", "x", ((("city", "c"), ("id", 10)),)),)),
        ]
    ),
    "parts_of_a_text_that_may_not_be_null": Program(
        [
            Evolve("main", (AddConstraint("returns", "note", None, "there"),)),
            Evolve("main", (SplitColumn("returns", "note", ("p", "q")),)),
            Write("main", (("insert", "returns", ((("id", 9), ("p", None), ("q", "b")),)),)),
        ]
    ),
    "hidden_by_a_value_given_once": Program(
        [
            Write("main", (("update", "orders", ((("id", 2), ("amount", 1)),)),)),
            TransformClone(
                "main",
                "m",
                (AddColumn("orders", "x", "up", "amount"), HideTwins("orders", "x", "one")),
                "immediate",
            ),
            Write("main", (("update", "orders", ((("id", 2), ("amount", 9)),)),)),
        ]
    ),
    "derived_at_by_later_definition": Program(
        [
            VIEW,
            Write("main", (("delete", "items", ((1,),)),)),
            Redefine("v", GROUP, "immediate"),
            TimeTravel("main", 1),
        ]
    ),
    "reattach_leaves_table": Program(
        [VIEW, Detach("v"), Evolve("v", (CreateTable("new"),)), Reattach("v")]
    ),
    "unreadable_after_overflow": Program(
        [
            Evolve("main", (Normalize("orders", "city", "cities"),)),
            Evolve("main", (AddColumn("cities", "twice", "computed", "id"),)),
        ]
    ),
    "expression_over_renamed_column": Program(
        [
            TransformClone(
                "main",
                "m",
                (
                    SplitTable("orders", "amount", 3, ("high", "low")),
                    AddColumn("high", "twice", "computed", "amount"),
                ),
                "immediate",
            ),
            Twin("m", "t"),
            RENAME,
            Propagate(),
        ]
    ),
    "check_over_renamed_column": Program(
        [
            TransformClone(
                "main", "m", (AddConstraint("orders", "amount", 0, "least", False),), "immediate"
            ),
            RENAME,
            Write("main", (("delete", "orders", ((1,),)),)),
        ]
    ),
    "reset_of_reverse_source_over_drop": Program(
        [Evolve("main", (DropTable("items"),), "keep", "old", "reverse"), Reset("main", 1)]
    ),
    "merge_that_leaves_out_a_check": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddConstraint("orders", "amount", 2, "least", True),)),
            Write("main", (("insert", "orders", ((("amount", 0), ("id", 9)),)),)),
            Merge("dev", "main", "ours"),
            Write("main", (("insert", "orders", ((("amount", 1), ("id", 8)),)),)),
        ]
    ),
    "merge_that_leaves_out_a_type": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (HideRows("orders", "city", "bigint"),)),
            INSERT,
            Merge("dev", "main", "ours"),
            Write("main", (("insert", "orders", (OTHER_ROW,)),)),
        ]
    ),
    "view_of_a_clone_whose_column_came_to_its_source": Program(
        [
            Evolve("main", (ADD_RANK,), "to", "new", "forward"),
            Twin("new", "t"),
            Merge("new", "main", "fail"),
            Derive("t", "v", Query("top", ("orders",), (("k", "id"), ("n", "rank"))), "immediate"),
            Propagate(),
        ]
    ),
    "retype_of_what_became_the_key": Program(
        [
            Evolve("main", (HideRows("orders", "amount", "bigint"),), "to", "new", "forward"),
            Evolve("main", (ChangeKey("orders", "amount"),)),
        ]
    ),
    "decompose_of_what_became_unique": Program(
        [
            Evolve(
                "main",
                (Decompose("items", (("a", ("order_id",)), ("b", ("size",)))),),
                "to",
                "new",
                "forward",
            ),
            Evolve("main", (HideTwins("items", "size", "one"),)),
        ]
    ),
    "order_of_columns_that_went_before_their_table": Program(
        [
            TransformClone("main", "m", (REORDER,), "immediate"),
            Evolve(
                "main", tuple(DropColumn("orders", name) for name in ("note", "city", "amount"))
            ),
            Evolve("main", (DropTable("orders"),), *DETACHING),
        ]
    ),
    "default_of_a_column_that_had_it_and_went": Program(
        [
            TransformClone("main", "m", (DEFAULT,), "immediate"),
            Evolve("main", (DEFAULT,)),
            Evolve("main", (DropColumn("orders", "amount"),), *DETACHING),
        ]
    ),
    "names_that_a_source_had_for_a_while": Program(
        [
            TransformClone("main", "m", (RenameColumn("orders", "note", "memo"),), "immediate"),
            TransformClone("main", "n", (RenameTable("orders", "sales"),), "immediate"),
            Evolve(
                "main", (RenameColumn("orders", "note", "memo"), RenameTable("orders", "sales"))
            ),
            Evolve("main", (RenameColumn("sales", "memo", "text"), RenameTable("sales", "sold"))),
            Evolve("main", (DropTable("sold"),), *DETACHING),
        ]
    ),
    "order_that_a_source_had_under_another_name": Program(
        [
            TransformClone("main", "m", (REORDER,), "immediate"),
            Evolve("main", (REORDER, RenameTable("orders", "sales"))),
            Evolve("main", (ReorderColumns("sales", ("id", "amount", "note", "city")),)),
        ]
    ),
    "reattach_where_rows_say_otherwise_of_a_lookup_row": Program(
        [
            SqlUpdate("main", "returns", "amount", 0, 0),
            Evolve("main", (BY_AMOUNT,), "to", "new", "forward"),
            TransformClone(
                "main", "m", (MaskColumn("items", "size", "hash"), BY_AMOUNT), "immediate"
            ),
            SqlUpdate("main", "returns", "note", "a", 0),
            Reattach("new", "fail"),
            Reattach("m", "fail"),
            SqlUpdate("main", "returns", "note", "b", 0),
            Write("new", (("update", "orders", ((("id", 0), ("note", "c")),)),)),
            Write("m", (("update", "orders", ((("id", 0), ("note", "c")),)),)),
            Reattach("m", "fail"),
            Reattach("new", "ours"),
            Reattach("m", "ours"),
            Write("main", (("delete", "returns", ((1,),)),)),
        ]
    ),
    "merge_of_another_type_for_a_key_that_a_clone_joins_by": Program(
        [
            Evolve("main", (RetypeKey("orders", "id", "string"),), "to", "new", "both"),
            Clone("main", "dev"),
            TransformClone("dev", "m", (JoinTables("orders", "items", "whole"),), "deferred"),
            Merge("new", "dev", "ours"),
        ]
    ),
    "merge_of_a_check_that_stopped_a_clone": Program(
        [
            Evolve(
                "main",
                (AddConstraint("orders", "city", None, "there", False),),
                "to",
                "new",
                "forward",
            ),
            Write("main", (("insert", "orders", ((("city", None), ("id", 7)),)),)),
            Merge("new", "main", "theirs"),
            Write("main", (("update", "items", ((("id", 3), ("order_id", 4)),)),)),
        ]
    ),
    "equal_redactions_in_two_backups": Program(
        [
            Upkeep(),
            Erase("main", "items", (2,)),
            Revert("main", "main", 0),
            BackUp(),
            Erase("main", "items", (3,)),
            BackUp(),
        ]
    ),
    "erase_what_a_detached_clone_refers_to": Program(
        [
            TransformClone("main", "m", (MaskKey("items", "id"),), "deferred"),
            TransformClone(
                "m", "n", (NormalizeBy("returns", "city", "orders", "amount"),), "deferred"
            ),
            Detach("n"),
            Erase("n", "orders", (2,)),
            SqlInsert("n", "items", (("id", 11), ("size", None))),
        ]
    ),
    "a_part_that_is_there": Program(
        [
            Evolve("main", (AddConstraint("orders", "city", None, "c"),)),
            Evolve("main", (ConcatColumns("orders", ("city", "note"), "n"),)),
            Write("main", (("insert", "orders", ((("amount", 0), ("id", 8), ("n", None)),)),)),
            Write("main", (("insert", "orders", ((("amount", 0), ("id", 8), ("n", "a")),)),)),
        ]
    ),
    "a_table_that_came_back_by_a_reset": Program(
        [
            Evolve("main", (DropTable("orders"),), "to", "b", "both"),
            Detach("b"),
            Write("b", (("upsert", "items", ((("id", 2), ("order_id", 1), ("size", "x")),)),)),
            Write("b", (("upsert", "items", ((("id", 8), ("order_id", 4), ("size", "7")),)),)),
            Reset("b", 3),
            Evolve(
                "main",
                (RenameTable("orders", "n"), DropColumn("n", "city")),
                "keep",
                "v1",
            ),
            Reattach("b", "ours"),
        ]
    ),
    "looked_up_value_in_step_whose_row_is_erased": Program(
        [
            Evolve(
                "main",
                (AddLookedUp("items", "x", "returns", "id", "amount", "order_id", "int"),),
                "keep",
                "old",
                "reverse",
            ),
            Evolve(
                "main",
                (
                    DropLookedUp("orders", "city", "returns", "id", "note", "amount"),
                    CreateTable("more"),
                ),
                "to",
                "b",
            ),
            Evolve(
                "main",
                (
                    ConcatColumns("orders", ("city", "note"), "both"),
                    AddConstraint("items", "size", None, "there", quarantine=True),
                ),
                "to",
                "c",
                "both",
            ),
            RequestMerge("b", "c", "ours"),
            Erase("b", "returns", (1,)),
            Inspect(),
        ]
    ),
    "compact_after_redefine": Program(
        [
            Derive("main", "v", COUNT, "on demand", "none"),
            Redefine("v", Query("count", ("returns",), ()), "immediate"),
            Reopen(),
            Compact(),
        ]
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    run(MENDED[name])
