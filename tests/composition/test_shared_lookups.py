"""A lookup that two tables share, along a chain of versions that ends."""

from __future__ import annotations

from tests.composition.graph_operations import Reset
from tests.composition.lookup_model import DecomposeInto, NormalizeBy
from tests.composition.machine import Program, run
from tests.composition.row_operations import SqlUpdate, Write
from tests.composition.schema_model import (
    AddColumn,
    MaskKey,
    Normalize,
    NormalizeInto,
    RenameColumn,
)
from tests.composition.schema_operations import Evolve, Retire, TransformClone
from tests.composition.view_operations import Propagate

ROW = (("id", 5), ("city", "zz"), ("amount", 1), ("note", "x"))
NEW = (("id", 1), ("city", "7"), ("amount", 5), ("note", "y"))


def test_versions_with_a_shared_lookup_are_retired() -> None:
    run(
        Program(
            [
                Evolve("main", (Normalize("orders", "city", "n1"),)),
                Evolve("main", (NormalizeInto("returns", "city", "n1"),), "keep", "b2", "both"),
                Evolve("main", (RenameColumn("returns", "note", "n9"),), "keep", "b3", "both"),
                Write("b2", (("upsert", "returns", (ROW,)),)),
                SqlUpdate("b2", "returns", "city", "q", 1),
                SqlUpdate("main", "n1", "city", "w", 1),
                Retire("b3"),
                SqlUpdate("b2", "returns", "city", "r", 1),
                Retire("b2"),
            ]
        )
    )


def test_rows_that_nothing_refers_to_stay_in_a_lookup_of_a_clone() -> None:
    moved = NormalizeBy("orders", "note", "returns", "id")
    run(
        Program(
            [
                Write("main", (("delete", "returns", ((1,),)),)),
                TransformClone("main", "later", (moved,), "deferred"),
                TransformClone("main", "now", (moved,), "immediate"),
                Write("main", (("delete", "orders", ((3,),)),)),
                Propagate(),
            ]
        )
    )


def test_rows_that_nothing_refers_to_stay_among_other_changes() -> None:
    moved = NormalizeBy("orders", "city", "returns", "amount")
    also = AddColumn("returns", "more", "up", "amount")
    run(
        Program(
            [
                Write("main", (("delete", "returns", ((1,),)),)),
                Evolve("main", (moved, also), "to", "next", "both"),
                Write("next", (("update", "orders", ((("id", 2), ("amount", None)),)),)),
            ]
        )
    )


def test_rows_that_go_to_one_change_together() -> None:
    """Whoever writes a row, or the row of the shared table with its key, writes both."""
    into = DecomposeInto("orders", "city", "returns", "id", ("amount", "note"))
    run(
        Program(
            [
                Write("main", (("delete", "returns", ((1,),)),)),
                Evolve("main", (into,), "keep", "old", "both"),
                Write("old", (("insert", "returns", (NEW,)),)),
                Write("old", (("update", "orders", ((("id", 1), ("city", "b")),)),)),
            ]
        )
    )


def test_rows_that_go_to_one_are_inserted_together() -> None:
    """A row and that of the shared table with its key, which say different things at once."""
    into = DecomposeInto("orders", "note", "returns", "id", ("city", "amount"))
    both = (("insert", "returns", (ROW,)), ("insert", "orders", ((("id", 5), ("note", "y")),)))
    run(
        Program(
            [
                Write("main", (("delete", "returns", ((1,),)),)),
                Evolve("main", (into,), "keep", "old", "both"),
                Write("old", both),
            ]
        )
    )


def test_rows_that_only_follow_do_not_change_together() -> None:
    """A lens over a masked clone stops where its source is reset to rows that do not fit."""
    into = DecomposeInto("orders", "note", "returns", "id", ("city", "amount"))
    fits = (("update", "orders", ((("id", 1), ("note", "7")),)),)
    run(
        Program(
            [
                TransformClone("main", "masked", (MaskKey("items", "id"),), "deferred"),
                Write("main", fits),
                Propagate(),
                Evolve("masked", (into,), "to", "seen", "forward"),
                Reset("main", 1),
                Propagate(),
            ]
        )
    )
