"""A lookup that two tables share, along a chain of versions that ends."""

from __future__ import annotations

from tests.composition.lookup_model import NormalizeBy
from tests.composition.machine import Program, run
from tests.composition.row_operations import SqlUpdate, Write
from tests.composition.schema_model import Normalize, NormalizeInto, RenameColumn
from tests.composition.schema_operations import Evolve, Retire, TransformClone
from tests.composition.view_operations import Propagate

ROW = (("id", 5), ("city", "zz"), ("amount", 1), ("note", "x"))


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
