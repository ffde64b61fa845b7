"""Changes of groups by key: as weighted rows, as deltas, and seen under other names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from livingdb.derivation.keyed_change import (
    EncodedKeys,
    KeyedChange,
    keyed_change,
    touched_groups,
)
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.stage_tables import definition_for
from livingdb.tables.recipe import Counts
from livingdb.trees.delta import DELETE, UPSERT

SCHEMA = pa.schema([("g", pa.string()), ("n", pa.int64()), ("s", pa.int64())])


def change() -> KeyedChange:
    """One group goes, one changes, one only in its count, one comes."""
    old = pa.table({"g": ["a", "b", "c", None], "n": [1, 2, 3, None], "s": [5, 6, 7, None]})
    new = pa.table({"g": ["a", "b", "c", "d"], "n": [0, 3, 4, 1], "s": [None, 8, 7, 9]})
    definition = definition_for(SCHEMA, ("g",))
    shape = definition.layout.grouping(definition.schema).row_shape
    keys = shape.keys([pa.array(["a", "b", "c", "d"])])
    was, stays = np.array([True, True, True, False]), np.array([False, True, True, True])
    return KeyedChange(
        was, stays, old.cast(SCHEMA), new.cast(SCHEMA), EncodedKeys(keys, ("g",), shape)
    )


def test_what_goes_and_comes() -> None:
    rows = change().weighted_rows.to_pylist()
    gone = [(r["g"], r["n"]) for r in rows if r[WEIGHT] < 0]
    come = [(r["g"], r["n"]) for r in rows if r[WEIGHT] > 0]
    assert gone == [("a", 1), ("b", 2), ("c", 3)]
    assert come == [("b", 3), ("c", 4), ("d", 1)]


def test_the_delta_of_the_table_that_holds_the_groups() -> None:
    definition = definition_for(SCHEMA, ("g",))
    shape = definition.layout.grouping(definition.schema).row_shape
    found = change().delta(definition.schema, shape)
    assert found is not None
    delta, counts = found
    assert counts == Counts(1, 2, 1)
    assert delta.ops.tolist() == [DELETE, UPSERT, UPSERT, UPSERT]
    columns = [column.to_pylist() for column in delta.columns if column is not None]
    assert columns == [["a", "b", "c", "d"], [None, 3, 4, 1], [None, 8, 7, 9]]


def test_a_table_with_another_key_is_not_told_from_it() -> None:
    for key in (("g", "n"), ("n",)):
        definition = definition_for(SCHEMA, key)
        shape = definition.layout.grouping(definition.schema).row_shape
        assert change().delta(definition.schema, shape) is None


def test_groups_that_look_the_same_under_other_names_are_left_out() -> None:
    seen = change().select({"total": "s", "name": "g"})
    assert seen.num_rows == 3
    rows = {(r["name"], r["total"], r[WEIGHT]) for r in seen.weighted_rows.to_pylist()}
    assert rows == {("a", 5, -1), ("b", 6, -1), ("b", 8, 1), ("d", 9, 1)}
    assert seen.encoded is not None
    assert seen.encoded.names == ("name",)


def test_rows_are_of_groups_that_are_held_or_not() -> None:
    keys = pa.table({"g": ["b", "x", "b", None], "h": pa.array([1, 1, 1, 2], pa.int32())})
    held = pa.table({"g": [None, "b"], "h": pa.array([2, 1]), "n": [7, 8]})
    found = touched_groups(keys, held)
    names = keys.column("g").take(pa.array(found.first)).to_pylist()
    assert [names[group] for group in found.groups] == ["b", "x", "b", None]
    there = [name for name, was in zip(names, found.was, strict=True) if was]
    assert there == found.held.column("g").to_pylist()
    assert sorted(found.held.column("n").to_pylist()) == [7, 8]


def weighted(*rows: tuple[str, int, int]) -> tuple[pa.Table, EncodedKeys]:
    names, numbers, weights = (list(column) for column in zip(*rows, strict=True))
    schema = pa.schema([("g", pa.string()), ("n", pa.int64())])
    definition = definition_for(schema, ("g",))
    shape = definition.layout.grouping(definition.schema).row_shape
    table = pa.table({"g": names, "n": numbers, WEIGHT: weights})
    return table, EncodedKeys(shape.keys([pa.array(names)]), ("g",), shape)


def test_weighted_rows_by_key() -> None:
    found = keyed_change(
        *weighted(("c", 3, 1), ("a", 1, -1), ("b", 2, -1), ("b", 2, 1), ("a", 4, 1), ("d", 5, -1))
    )
    assert found is not None
    rows = [(r["g"], r["n"], r[WEIGHT]) for r in found.weighted_rows.to_pylist()]
    assert rows == [("a", 1, -1), ("d", 5, -1), ("a", 4, 1), ("c", 3, 1)]
    assert found.new.column("g").to_pylist() == ["a", "c", "d"]


def test_several_rows_of_a_key_are_not_taken_by_key() -> None:
    assert keyed_change(*weighted(("a", 1, 1), ("a", 2, 1))) is None
    assert keyed_change(*weighted(("a", 1, -1), ("a", 2, -1), ("a", 3, 1))) is None
    assert keyed_change(*weighted(("a", 1, 2))) is None
