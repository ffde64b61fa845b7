"""Programs about keys, constraints and types that once failed: what is mended stays so."""

from __future__ import annotations

import pytest
from tests.composition.lookup_model import DropLookedUp
from tests.composition.machine import Program, run
from tests.composition.pieces import INSERT
from tests.composition.queries import Query
from tests.composition.row_operations import SqlUpdate, Write
from tests.composition.schema_model import (
    AddUnique,
    ChangeKey,
    JoinTables,
    RenameColumn,
    RetypeColumn,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.view_operations import Derive, Detach, Propagate, Refresh

JOIN = Query(
    "left join", ("items", "orders"), (("k", "id"), ("n", "order_id"), ("j", "id"), ("x", "amount"))
)
JOINED = JoinTables("items", "orders", "whole")


def put(branch: str, table: str, *rows: tuple[int, int], verb: str = "update") -> Write:
    """Rows of a key and a reference to an order."""
    made = tuple((("id", key), ("order_id", order)) for key, order in rows)
    return Write(branch, ((verb, table, made),))


MENDED = {
    "unique_values_of_a_half_that_has_rows_against_its_condition": Program(
        [
            Evolve(
                "main",
                (
                    SplitTable("items", "order_id", 2, ("high", "low")),
                    AddUnique("high", "order_id", "one"),
                ),
                "to",
                "new",
                "both",
            ),
            put("new", "low", (11, 2), (5, 5), (9, 2), verb="insert"),
            put("new", "high", (2, 1)),
            put("main", "items", (9, 3)),
            put("main", "items", (9, 1)),
            put("main", "items", (9, 2)),
        ]
    ),
    "view_whose_key_went_with_that_of_its_source": Program(
        [
            Derive("main", "v", JOIN, "immediate"),
            SqlUpdate("main", "items", "size", "c", 3),
            Evolve("main", (ChangeKey("items", "size"),)),
            Detach("v"),
            Write("v", (("insert", "v", ((("lj", 4), ("lk", 8), ("lx", 4)),)),)),
        ]
    ),
    "join_by_keys_of_which_one_got_another_name": Program(
        [
            TransformClone("main", "m", (JOINED,), "immediate"),
            TransformClone("main", "d", (JOINED,), "deferred"),
            Evolve("main", (RenameColumn("items", "id", "k"),)),
            Propagate(),
            INSERT,
            Propagate(),
        ]
    ),
    "way_back_of_a_dropped_column_that_has_another_type_by_now": Program(
        [
            TransformClone(
                "main",
                "m",
                (DropLookedUp("returns", "note", "items", "id", "size", "id"),),
                "deferred",
            ),
            Evolve("main", (RetypeColumn("returns", "note", "bigint"),), "keep", "old", "both"),
            Refresh("m"),
        ]
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    run(MENDED[name])
