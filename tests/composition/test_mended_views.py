"""Programs over derived objects that once failed: what is mended stays so."""

from __future__ import annotations

import pytest
from tests.composition.erase_operations import Erase
from tests.composition.graph_operations import (
    CherryPick,
    Clone,
    DropBranch,
    Merge,
    Reset,
    Revert,
    TimeTravel,
)
from tests.composition.lookup_model import DropLookedUp, NormalizeBy
from tests.composition.machine import Program, run
from tests.composition.pieces import GROUP, INSERT, RENAME_TABLE, UNION, VIEW
from tests.composition.queries import Query
from tests.composition.row_operations import SqlUpdate, Write
from tests.composition.schema_model import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    Decompose,
    DropColumn,
    DropTable,
    HideRows,
    MaskColumn,
    MaskKey,
    NoChange,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SetDefault,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.upkeep_operations import Inspect
from tests.composition.view_operations import (
    Alter,
    CloneDerived,
    Derive,
    Detach,
    Propagate,
    Reattach,
    Redefine,
    Refresh,
    Twin,
)

SAME = (
    RenameTable("orders", "sales"),
    RenameColumn("sales", "note", "text"),
    ReorderColumns("sales", ("text", "amount", "id", "city")),
    SetDefault("sales", "amount", 7),
)
NO_SIZE = Write("main", (("insert", "items", ((("id", 5), ("order_id", 4), ("size", None)),)),))
JOIN = Query(
    "left join", ("items", "orders"), (("k", "id"), ("n", "id"), ("j", "id"), ("x", "note"))
)
JOINED_KEYS = Query(
    "left join", ("orders", "items"), (("k", "id"), ("n", "id"), ("j", "id"), ("x", "id"))
)
MASK_SIZE = MaskColumn("items", "size", "hash")
DROP_NOTE = DropLookedUp("returns", "note", "items", "id", "size", "amount")
INSERT_AFTER = Write("main", (("insert", "sales", ((("city", "a"), ("id", 9)),)),))

COUNT = Query("count", ("orders",), ())
WIDTH = Evolve("main", (RenameColumn("items", "size", "width"),), "to", "b", "forward")


def delete_first(branch: str) -> Write:
    """The first of the orders of a branch goes."""
    return Write(branch, (("delete", "orders", ((1,),)),))


RETURN = (("amount", 1), ("city", "a"), ("id", 11), ("note", None))
DROPPED_AND_CHANGED = (
    Clone("main", "theirs"),
    Evolve("theirs", (AddColumn("returns", "rank"),)),
    Clone("theirs", "dev"),
    Write("theirs", (("insert", "returns", ((*RETURN, ("rank", 1)),)),)),
    Evolve("main", (DropTable("returns"),)),
)

MENDED = {
    "reset_to_before_a_mask_of_the_key_under_a_view": Program(
        [
            INSERT,
            Evolve("main", (MaskKey("orders", "id"),)),
            Derive("main", "v", JOINED_KEYS, "immediate", "none"),
            Reset("main", 2),
        ]
    ),
    "merge_after_theirs_took_back_a_change_of_ours": Program(
        [*DROPPED_AND_CHANGED, Merge("dev", "main", "theirs"), Merge("theirs", "main", "fail")]
    ),
    **{
        f"merge_after_ours_kept_what_theirs_dropped_{policy}": Program(
            [
                Clone("main", "dev"),
                Evolve("dev", (DropTable("returns"),)),
                Evolve("main", (RenameColumn("orders", "note", "text"),)),
                SqlUpdate("main", "returns", "amount", 0, 0),
                Merge("dev", "main", "ours"),
                SqlUpdate("main", "returns", "amount", 1, 0),
                SqlUpdate("dev", "items", "order_id", 2, 0),
                Merge("dev", "main", policy),
                Inspect(),
            ]
        )
        for policy in ("fail", "ours", "theirs")
    },
    "merge_after_ours_left_out_a_change_of_theirs": Program(
        [*DROPPED_AND_CHANGED, Merge("dev", "main", "ours"), Merge("theirs", "main", "fail")]
    ),
    "revert_on_detached_view_stored_in_part": Program(
        [
            Derive("main", "v", UNION, "immediate", "where un >= 3"),
            Write("main", (("delete", "orders", ((1,), (3,))),)),
            Detach("v"),
            Revert("v", "v", 0),
        ]
    ),
    "derived_at_before_rename_on_derived_clone": Program(
        [VIEW, INSERT, RENAME_TABLE, CloneDerived("main", "dev"), TimeTravel("dev", 2)]
    ),
    "lag_after_merged_rename": Program(
        [
            Derive("main", "v", GROUP, "on demand"),
            Detach("v"),
            Evolve("v", (Decompose("v", (("counts", ("gc",)), ("sums", ("gt",)))),)),
            Evolve("v", (RenameTable("sums", "totals"),), "to", "b", "forward"),
            Derive("v", "w", Query("count", ("sums",), ()), "deferred"),
            Merge("b", "v", "fail"),
            Propagate(),
        ]
    ),
    "redefine_what_another_sync_writes": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Detach("v"),
            Evolve("v", (RetypeColumn("v", "gc", "string"),), "to", "b", "reverse"),
            Redefine("v", UNION, "immediate"),
            DropBranch("b", detach=True),
            Redefine("v", UNION, "immediate"),
        ]
    ),
    "redefine_what_is_in_a_two_way_sync": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Detach("v"),
            Evolve("v", (RetypeColumn("v", "gc", "string"),), "to", "b", "both"),
            Redefine("v", UNION, "immediate"),
            Detach("b"),
            Redefine("v", UNION, "immediate"),
        ]
    ),
    "lenses_whose_source_has_the_same_names_order_and_defaults": Program(
        [
            TransformClone("main", "m", SAME, "immediate"),
            Twin("m", "t"),
            *(Evolve("main", (change,)) for change in SAME),
            INSERT_AFTER,
            Propagate(),
            Evolve("main", (SetDefault("sales", "amount", 3),)),
            Propagate(),
        ]
    ),
    "cherry_pick_of_no_rows_over_another_type": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (RetypeColumn("orders", "amount", "string"),)),
            SqlUpdate("main", "orders", "amount", 5, 3),
            CherryPick("dev", "main", 0),
        ]
    ),
    "cherry_pick_of_a_null_over_not_null": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddConstraint("items", "size", None, "there"),)),
            NO_SIZE,
            CherryPick("dev", "main", 0),
            Merge("main", "dev", "fail"),
        ]
    ),
    "cherry_pick_of_a_null_over_quarantine": Program(
        [
            Clone("main", "dev"),
            Evolve("dev", (AddConstraint("items", "size", None, "there", True),)),
            NO_SIZE,
            CherryPick("dev", "main", 0),
            Merge("main", "dev", "fail"),
        ]
    ),
    "view_over_a_rename_taken_back": Program(
        [
            RENAME_TABLE,
            Derive("main", "v", Query("count", ("sales",), ()), "immediate"),
            Derive("main", "w", Query("distinct", ("sales",), (("g", "city"),)), "deferred"),
            Revert("main", "main", 0),
            INSERT,
            Propagate(),
        ]
    ),
    "view_of_a_column_masked_and_renamed_at_once": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Evolve(
                "main",
                (
                    MaskColumn("orders", "city", "expression"),
                    RenameColumn("orders", "city", "town"),
                    RenameTable("orders", "sales"),
                ),
            ),
        ]
    ),
    "view_of_a_column_masked_in_place": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Derive("main", "w", Query("count", ("orders",), ()), "immediate"),
            Evolve("main", (MaskColumn("orders", "city", "expression"),)),
            INSERT,
            Reattach("v"),
            INSERT,
        ]
    ),
    "view_of_a_key_masked_in_place": Program(
        [VIEW, Evolve("main", (MaskKey("orders", "id"),)), INSERT, Reattach("v"), INSERT]
    ),
    "constraint_taken_back": Program(
        [
            Evolve("main", (AddConstraint("returns", "amount", 2, "least", True),)),
            INSERT,
            Revert("main", "main", 1),
            Write("main", (("update", "returns", ((("amount", 1), ("id", 1)),)),)),
        ]
    ),
    "write_of_a_view_that_is_detached_and_in_step": Program(
        [
            Derive("main", "v", JOIN, "immediate"),
            Detach("v"),
            Evolve("v", (SetDefault("v", "lj", 3),), "keep", "old", "both"),
            Write("old", (("upsert", "v", ((("lk", 3), ("lj", 5), ("lx", None)),)),)),
        ]
    ),
    "lineage_over_a_view_that_was_renamed_since": Program(
        [
            Derive("main", "v", Query("distinct", ("items",), (("g", "id"),)), "deferred"),
            Derive("v", "w", Query("window", ("v",), (("k", "dd"), ("g", "dd"))), "on demand"),
            NO_SIZE,
            Propagate(),
            Evolve("main", (DropTable("items"),)),
            Evolve("v", (AddColumn("v", "n"), RenameColumn("v", "dd", "x"))),
            Inspect(),
        ]
    ),
    "alter_is_refused_as_a_whole": Program(
        [
            Derive("main", "v", GROUP, "on demand", "none", most_rows=2),
            Write("main", (("update", "orders", ((("id", 1), ("city", "z")),)),)),
            Alter("v", "immediate"),
        ]
    ),
    "rows_that_a_clone_could_not_have_came_and_went": Program(
        [
            TransformClone("main", "m", (ChangeKey("orders", "amount"),), "deferred"),
            Write("main", (("update", "orders", ((("id", 1), ("amount", None)),)),)),
            Evolve("main", (AddColumn("items", "more"),)),
            Write("main", (("delete", "orders", ((1,),)),)),
            Refresh("m"),
        ]
    ),
    "lookup_in_a_masked_table_that_stays": Program(
        [
            TransformClone("main", "m", (MASK_SIZE, DROP_NOTE), "immediate"),
            Evolve("main", (Normalize("orders", "city", "n"),)),
            Inspect(),
        ]
    ),
    "lineage_of_a_view_that_read_a_detached_replica": Program(
        [
            TransformClone("main", "m", (NoChange(),), "immediate"),
            Detach("m"),
            Evolve("main", (AddColumn("orders", "n", "default"),)),
            Write("m", (("insert", "returns", ((*RETURN,),)),)),
            Reset("m", 1),
            Derive("m", "v", GROUP, "on demand"),
            Reattach("m"),
            Inspect(),
        ]
    ),
    "view_of_a_key_masked_in_a_clone_that_follows_later": Program(
        [
            TransformClone("main", "m", (RenameTable("orders", "sales"),), "deferred"),
            Derive("m", "v", Query("distinct", ("returns",), (("g", "id"),)), "immediate"),
            Evolve("main", (MaskKey("returns", "id"),)),
            Propagate(),
        ]
    ),
    "view_over_a_lens_that_a_merge_brings_a_column_and_rows": Program(
        [
            WIDTH,
            Derive("b", "v", COUNT, "immediate"),
            Clone("main", "dev"),
            Evolve("dev", (AddColumn("orders", "rank"),)),
            delete_first("dev"),
            Merge("dev", "main", "fail"),
        ]
    ),
    "view_over_clones_that_follow_a_column_and_rows_at_once": Program(
        [
            TransformClone("main", "m", (MASK_SIZE,), "deferred"),
            Evolve("m", (DropColumn("returns", "note"),), "to", "b", "forward"),
            TransformClone("b", "n", (NoChange(),), "immediate"),
            Derive("n", "v", COUNT, "immediate"),
            Evolve("main", (DropColumn("orders", "note"),)),
            delete_first("main"),
            Refresh("m"),
        ]
    ),
    **{
        f"clone_that_follows_{when}_a_merge_that_took_back_a_dropped_column": Program(
            [
                TransformClone("main", "m", (MASK_SIZE,), "deferred"),
                Clone("main", "theirs"),
                Evolve(
                    "theirs", (DropColumn("returns", "note"), Normalize("orders", "amount", "n"))
                ),
                Evolve("main", (RenameTable("returns", "back"), DropColumn("orders", "amount"))),
                *steps,
                Merge("theirs", "main", "theirs"),
                Propagate(),
            ]
        )
        for when, steps in {"with": (), "before": (Propagate(),)}.items()
    },
    "table_that_a_reset_brought_back_to_a_replica_that_is_merged": Program(
        [
            Derive("main", "v", COUNT, "immediate"),
            TransformClone("main", "m", (NoChange(),), "immediate"),
            Evolve("main", (DropTable("orders"),)),
            NO_SIZE,
            Reset("main", 2),
            Merge("m", "main", "theirs"),
            Reattach("v"),
        ]
    ),
    "name_of_a_detached_view_that_was_taken_apart": Program(
        [
            Derive("main", "v", Query("distinct", ("orders",), (("g", "amount"),)), "immediate"),
            Detach("v"),
            Evolve("v", (SplitTable("v", "dd", 3, ("low", "high")),)),
            TimeTravel("main", 0),
        ]
    ),
    "row_of_a_shared_table_said_anew": Program(
        [
            delete_first("main"),
            Evolve(
                "main", (NormalizeBy("returns", "amount", "orders", "id"),), "to", "b", "forward"
            ),
            Write("main", (("update", "returns", ((("id", 1), ("amount", 3)),)),)),
            Merge("main", "b", "fail"),
        ]
    ),
    "derived_clone_of_a_clone_that_takes_a_join_apart": Program(
        [
            Derive("main", "v", JOIN, "immediate"),
            TransformClone(
                "v", "m", (Decompose("v", (("a", ("lj",)), ("b", ("lx",)))),), "deferred"
            ),
            CloneDerived("main", "dev"),
        ]
    ),
    "dropped_column_that_may_not_be_null_any_more": Program(
        [
            TransformClone("main", "m", (DropColumn("returns", "note"),), "deferred"),
            Evolve("main", (AddConstraint("returns", "note", None, "there"),)),
            INSERT,
            Propagate(),
        ]
    ),
    "hidden_row_that_a_clone_refers_to_when_it_follows": Program(
        [
            Evolve("main", (Normalize("returns", "note", "n"),), "to", "b", "forward"),
            TransformClone("b", "m", (HideRows("n", "note", "bigint"),), "deferred"),
            Write("main", (("insert", "returns", ((("id", 3), ("note", "b")),)),)),
            Propagate(),
        ]
    ),
    "column_that_came_back_by_a_reset_of_what_is_followed": Program(
        [
            INSERT,
            Evolve("main", (AddColumn("orders", "x", "default", ""),), "to", "b", "forward"),
            Evolve("main", (DropColumn("returns", "city"),)),
            Reset("main", 2),
            Merge("b", "main", "theirs"),
        ]
    ),
    "another_query_merged_into_a_clone_that_changed_nothing": Program(
        [
            Derive("main", "v", Query("distinct", ("returns",), (("g", "city"),)), "immediate"),
            CloneDerived("v", "b"),
            Redefine("v", Query("window", ("returns",), (("k", "id"), ("g", "id"))), "immediate"),
            Write("b", (("update", "v", ((("dd", "b"),),)),)),
            Merge("v", "b", "ours"),
        ]
    ),
    "groups_in_memory_when_rows_are_erased": Program(
        [
            Derive("main", "v", Query("distinct", ("orders",), (("g", "note"),)), "on demand"),
            Clone("v", "b"),
            Detach("v"),
            Erase("v", "v", (None,)),
            Derive("b", "w", Query("count", ("v",), ()), "immediate", materialize="where cc >= 2"),
            Reattach("v", "ours"),
            Revert("b", "b", 0),
            Merge("v", "b", "ours"),
            Erase("main", "orders", (3,)),
            Write("b", (("upsert", "v", ((("dd", "a"),), (("dd", None),))),)),
        ]
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    run(MENDED[name])
