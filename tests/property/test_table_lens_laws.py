"""The laws of changes of whole tables: in step with the printed rules, write by write.

Every pair checks, with each write, that carrying it over and writing what came of it once
more changes nothing, and that creating is inserting everything into nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.lens_lab import Pair
from tests.property.table_lens_lab import (
    KEYS,
    POOLS,
    Run,
    SettledPair,
    World,
    decompositions,
    definition,
    held,
    joins,
    keyed_normalizations,
    normalizations,
    reference_joins,
    rekeys,
    shared_normalizations,
    splits,
    strict_splits,
    unions,
)
from tests.property.table_lens_model import Row
from tests.property.trying import HAS_TIME, tries

from livingdb.errors import InvalidData
from livingdb.evolution.changes.change_key import ChangeKey
from livingdb.evolution.changes.decompose import Decompose
from livingdb.evolution.changes.join_tables import JoinTables
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.split_table import SplitTable
from livingdb.evolution.changes.union_tables import UnionTables
from livingdb.evolution.lenses import lookup_lens as lookups
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.recipe import Definition
from livingdb.tables.row_hash import row_ids

quick = settings(
    max_examples=tries(300) if HAS_TIME else 10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def run(world: World, data: st.DataObject) -> None:
    found = Run(world, data)
    for _ in range(data.draw(st.integers(1, 5))):
        found.step()
    found.pair.check_laws()


@quick
@given(splits(), st.data())
def test_split(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(strict_splits(), st.data())
def test_strict_split(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(decompositions(), st.data())
def test_decompose(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(joins(), st.data())
def test_join_on_key(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(normalizations(), st.data())
def test_normalize(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(shared_normalizations(), st.data())
def test_normalize_into_a_table_that_is_there(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(keyed_normalizations(), st.data())
def test_normalize_by_the_key_of_a_table_that_is_there(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(reference_joins(), st.data())
def test_join_on_reference(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(unions(), st.data())
def test_union(world: World, data: st.DataObject) -> None:
    run(world, data)


@quick
@given(rekeys(), st.data())
def test_change_key(world: World, data: st.DataObject) -> None:
    run(world, data)


# --- mirrors ----------------------------------------------------------------------------------


def mirrored(world: World, back: JoinTables, data: st.DataObject) -> None:
    """A change and the one that undoes it, in step with each other."""
    found = Run(world, data)
    lens = back.plan(found.lens.new)
    pair = SettledPair(lens, found.pair.new_side.tables)
    for _ in range(data.draw(st.integers(1, 5))):
        side, writes, taken = found.step()
        other = pair.write_new if side == "old" else pair.write_old
        if taken:
            other(writes)
        else:
            with pytest.raises(InvalidData):
                other(writes)
        for mine, theirs in (
            (found.pair.old_side, pair.new_side),
            (found.pair.new_side, pair.old_side),
        ):
            for name, schema in mine.schemas.items():
                rows = [held(schema, side.tables[name].to_pylist()) for side in (mine, theirs)]
                assert rows[0] == rows[1], name


@quick
@given(decompositions().filter(lambda world: len(world.change.into) == 2), st.data())
def test_joining_is_the_mirror_of_decomposing(world: World, data: st.DataObject) -> None:
    (left, right) = world.change.into
    mirrored(world, JoinTables(left, right, "t"), data)


def is_mirrored(world: World) -> bool:
    change = world.change
    assert isinstance(change, Normalize)
    return (change.on_update, change.on_delete) == (
        "fork",
        "restrict",
    ) and "d" not in change.columns


@quick
@given(normalizations().filter(is_mirrored), st.data())
def test_joining_is_the_mirror_of_normalizing(world: World, data: st.DataObject) -> None:
    mirrored(world, JoinTables("t", "p", "t", on="p_id"), data)


# --- hashes -----------------------------------------------------------------------------------


@quick
@given(st.one_of(normalizations(), shared_normalizations()), st.data())
def test_rows_with_the_same_hash_find_other_keys(world: World, data: st.DataObject) -> None:
    def weak(rows: pa.Array, attempt: int = 0) -> Any:
        return row_ids(rows, attempt) % 13

    with mock.patch.object(lookups, "row_ids", weak):
        found = Run(world, data, max_rows=0)
        for _ in range(data.draw(st.integers(1, 5))):
            found.step()


# --- costs ------------------------------------------------------------------------------------

ROWS = 300


def big(tables: Mapping[str, Definition]) -> dict[str, list[Row]]:
    """Many rows for tables with a numeric key; those of the second have other keys."""
    made = {}
    for number, (name, table) in enumerate(tables.items()):
        columns = [column.name for column in table.schema.columns[1:]]
        rows = [
            {
                "id": at + number * ROWS,
                **{column: POOLS[column][1 + at % (len(POOLS[column]) - 1)] for column in columns},
            }
            for at in range(ROWS)
        ]
        made[name] = [{**row, "u": str(row["id"])} if "u" in row else row for row in rows]
    return made


def on_number(*values: str) -> Definition:
    return definition(KEYS[0], *values)


CHEAP: dict[str, tuple[SchemaChange, dict[str, Definition]]] = {
    "split": (SplitTable("t", {"r": "a > 0", "s": "a <= 1"}), {"t": on_number("a", "b")}),
    "strict": (
        SplitTable("t", {"r": "a > 0", "s": "a <= 0"}, strict=True),
        {"t": on_number("a", "b")},
    ),
    "decompose": (Decompose("t", {"r": ["a"], "s": ["b"]}), {"t": on_number("a", "b")}),
    "join": (JoinTables("l", "r", "w"), {"l": on_number("a"), "r": on_number("b")}),
    "normalize": (Normalize("t", ["u"], "p"), {"t": on_number("a", "u")}),
    "fanout": (Normalize("t", ["u"], "p", on_update="fanout"), {"t": on_number("a", "u")}),
    "union": (
        UnionTables(["x", "y"], "w", default="x"),
        {"x": on_number("a"), "y": on_number("a")},
    ),
    "origin": (UnionTables(["x", "y"], "w", "source"), {"x": on_number("a"), "y": on_number("a")}),
    "rekey": (ChangeKey("t", ["u"]), {"t": on_number("a", "u")}),
}


@pytest.mark.parametrize("change", list(CHEAP))
def test_a_write_costs_what_it_touches(change: str) -> None:
    made, tables = CHEAP[change]
    pair = SettledPair(made.plan(tables), big(tables))
    for side in ("old", "new"):
        for name, rows in getattr(pair, side).items():
            moves = "a" in rows[7] and not (change == "strict" and side == "new")
            row = {**rows[7], "a": 2} if moves else rows[7]
            row |= {"u": "other"} if "u" in row and side == "old" else {}
            getattr(pair, f"write_{side}")({name: ([row], [])})
            assert pair.cost.scans == 0
            assert 0 <= pair.cost.keys <= 8, (side, name, pair.cost)
            assert pair.cost.values <= 2, (side, name, pair.cost)
            touched = sum(len(delta.after) + len(delta.before) for delta in pair.carried.values())
            assert touched <= 4


def test_a_lookup_row_costs_the_rows_that_share_it() -> None:
    tables = {"t": on_number("a", "b")}
    pair = SettledPair(Normalize("t", ["b"], "p").plan(tables), big(tables))
    row = pair.new["p"][0]
    sharing = sum(other["p_id"] == row["id"] for other in pair.new["t"])
    assert 100 < sharing < ROWS
    pair.write_new({"p": ([{**row, "b": "Bodø"}], [])})
    assert (pair.cost.scans, pair.cost.values) == (0, 1)
    assert sharing <= pair.cost.keys <= sharing + 2
    assert sum(other["b"] == "Bodø" for other in pair.old["t"]) == sharing


def test_ids_do_not_change() -> None:
    """Sides converge because equal rows get equal ids, on every machine and in every version."""
    tables = {"t": on_number("b", "c", "l")}
    rows = [
        {"id": 1, "b": "ø", "c": math.nan, "l": ["x", None]},
        {"id": 2, "b": None, "c": -0.0, "l": []},
        {"id": 3, "b": "", "c": 0.0, "l": None},
        {"id": 4, "b": None, "c": None, "l": None},
    ]
    pair = Pair(Normalize("t", ["b", "c", "l"], "p").plan(tables), {"t": rows})
    text, number, count = b"\1\2\0\0\0\xc3\xb8", struct.pack("<d", math.nan), b"\1\2\0\0\0"
    codes = [
        text + b"\1" + number + count + b"\1\1\0\0\0x" + b"\0",
        b"\0" + b"\1" + bytes(8) + b"\1" + bytes(4),
        b"\1" + bytes(4) + b"\1" + bytes(8) + b"\0",
    ]
    ids = [int.from_bytes(blake3(code).digest()[:8], "little") % 2**63 for code in codes]
    assert [row["p_id"] for row in pair.new["t"]] == [*ids, None]
    assert [row["id"] for row in pair.new["p"]] == sorted(ids)
