"""The laws of weighted rows, over values of every troublesome kind."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.weighted_rows import (
    as_types,
    concat_rows,
    consolidate,
    difference,
    distinct_rows,
    expand_weights,
    is_groupable,
    semi_join,
    with_weight,
)

NAN = float("nan")
NESTED = pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())]))
MAP = pa.map_(pa.string(), pa.float64())
VALUES: dict[str, pa.Array] = {
    "integers": pa.array([1, 1, None, 2, None, 1, -1], pa.int32()),
    "floats": pa.array([0.0, -0.0, NAN, None, NAN, None, 1.5]),
    "texts": pa.array(["", "a", None, "a", "A", "a\0", None]),
    "bytes": pa.array([b"", b"\0", None, b"\0", b"\0\0", None, b""]),
    "lists": pa.array(
        [[{"x": 0.0, "y": ""}], [{"x": -0.0, "y": ""}], [], None, [None], [], [{"x": NAN}]],
        NESTED,
    ),
    "structs": pa.array(
        [{"a": None}, None, {"a": 1}, {"a": None}, None, {"a": 1}, {"a": 2}],
        pa.struct([("a", pa.int64())]),
    ),
    "maps": pa.array([[("k", NAN)], [("k", NAN)], [], None, [("k", None)], None, []], MAP),
}
KINDS = pytest.mark.parametrize("kind", VALUES)


def plain(value: Any) -> Any:
    """A value that Python compares as rows are compared: NaN like NaN, -0.0 like 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(plain(part) for part in value))
    return value


def rows_of(table: pa.Table) -> list[Any]:
    return [tuple(plain(value) for value in row.values()) for row in table.to_pylist()]


def weights_of(table: pa.Table) -> dict[Any, int]:
    """Weighted rows as a sum; no row may be there twice, or with no weight."""
    names = [name for name in table.column_names if name != WEIGHT]
    keys = rows_of(table.select(names))
    found = dict(zip(keys, table.column(WEIGHT).to_pylist(), strict=True))
    assert len(found) == table.num_rows, "a row is there twice"
    assert 0 not in found.values()
    return found


def summed(table: pa.Table) -> dict[Any, int]:
    """The same, by Python, of rows that are not consolidated."""
    found: Counter[Any] = Counter()
    names = [name for name in table.column_names if name != WEIGHT]
    for row, weight in zip(
        rows_of(table.select(names)), table.column(WEIGHT).to_pylist(), strict=True
    ):
        found[row] += weight
    return {row: weight for row, weight in found.items() if weight}


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(rows_of(table))


def two_columns(kind: str) -> pa.Table:
    """Rows of a kind beside small numbers: seven different ones and seven again."""
    values = pa.concat_arrays([VALUES[kind], VALUES[kind]])
    return pa.table({"v": values, "n": pa.array([0, 0, 0, 1, 1, None, None] * 2, pa.int64())})


# --- consolidate ---------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_consolidated_rows_are_the_sum_of_their_weights(kind: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows = two_columns(kind)
    weighted = rows.append_column(WEIGHT, pa.array(chance.integers(-2, 3, rows.num_rows)))
    found = consolidate(weighted)
    assert weights_of(found) == summed(weighted)
    assert found.schema.types == weighted.schema.types
    assert found.column_names == weighted.column_names
    assert weights_of(consolidate(found)) == weights_of(found), "once is enough"


@KINDS
def test_rows_and_their_negation_leave_nothing(kind: str) -> None:
    rows = two_columns(kind)
    both = concat_rows([with_weight(rows, 1), with_weight(rows, -1)])
    assert consolidate(both).num_rows == 0


def test_the_weight_may_stand_anywhere() -> None:
    rows = pa.table({WEIGHT: [1, 2, 3], "a": [1, 1, 2]})
    found = consolidate(rows)
    assert found.column_names == [WEIGHT, "a"]
    assert weights_of(found) == {(1,): 3, (2,): 3}


@pytest.mark.parametrize(
    ("weights", "total"), [([], []), ([2, -2], []), ([2, -1], [1]), ([3], [3])]
)
def test_rows_without_columns_are_a_number(weights: list[int], total: list[int]) -> None:
    rows = pa.table({WEIGHT: pa.array(weights, pa.int64())})
    assert consolidate(rows).column(WEIGHT).to_pylist() == total


def test_one_row_that_weighs_nothing_is_none() -> None:
    rows = pa.table({"a": [1], WEIGHT: [0]})
    assert consolidate(rows).num_rows == 0
    assert consolidate(rows.slice(0, 0)).schema.names == ["a", WEIGHT]


# --- difference ----------------------------------------------------------------------------------


@KINDS
def test_a_difference_leads_from_one_to_the_other(kind: str) -> None:
    rows = two_columns(kind)
    for old, new in ((rows.slice(0, 6), rows.slice(4)), (rows, rows.slice(3, 2))):
        found = weights_of(difference(old, new))
        there = counted(old)
        there.update(found)
        assert +there == counted(new)
        assert not -there, "nothing goes that was not there"
        back = weights_of(difference(new, old))
        assert back == {row: -weight for row, weight in found.items()}


@KINDS
def test_the_same_rows_in_another_order_do_not_differ(kind: str) -> None:
    rows = two_columns(kind)
    shuffled = rows.take(pa.array(np.random.default_rng(5).permutation(rows.num_rows)))
    assert difference(rows, shuffled).num_rows == 0
    nothing = rows.slice(0, 0)
    assert difference(nothing, nothing).column_names == ["v", "n", WEIGHT]
    assert weights_of(difference(nothing, rows)) == dict(counted(rows))


def test_columns_that_promise_no_nulls_meet_those_that_do_not() -> None:
    strict = pa.table(
        {"a": pa.array([1, 2])}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)])
    )
    loose = pa.table({"a": pa.array([2, None], pa.int64())})
    assert weights_of(difference(strict, loose)) == {(1,): -1, (None,): 1}


# --- expand and distinct -------------------------------------------------------------------------


def test_expanded_weights_say_how_often_a_row_comes_or_goes() -> None:
    rows = pa.table({"a": ["x", "y", "z"], WEIGHT: [2, -3, 1]})
    found, signs = expand_weights(rows)
    pairs = list(zip(found.column("a").to_pylist(), signs.tolist(), strict=True))
    assert pairs == [("x", 1)] * 2 + [("y", -1)] * 3 + [("z", 1)]
    single = rows.slice(2)
    assert expand_weights(single)[0] is single


@KINDS
def test_distinct_rows_are_each_there_once(kind: str) -> None:
    rows = two_columns(kind)
    found = rows_of(distinct_rows(rows))
    assert len(found) == len(set(found))
    assert set(found) == set(rows_of(rows))


# --- semi-join -----------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("columns", [["v"], ["n"], ["v", "n"], ["n", "v"]])
def test_a_semi_join_keeps_rows_that_hold_one_of_the_values(kind: str, columns: list[str]) -> None:
    rows = two_columns(kind).append_column("id", pa.array(range(14)))
    for values in (rows.slice(0, 1), rows.slice(2, 3), rows, rows.slice(0, 0)):
        wanted = set(rows_of(values.select(columns)))
        expected = [
            number for number, row in enumerate(rows_of(rows.select(columns))) if row in wanted
        ]
        found = semi_join(rows, columns, values)
        assert found.column("id").to_pylist() == expected, "in the order they were in"
        assert found.schema == rows.schema


def test_a_number_that_does_not_fit_is_in_no_such_column() -> None:
    schema = pa.schema([("a", pa.int16()), ("b", pa.string())])
    numbers = [-(2**15) - 1, -(2**15), None, 2**15 - 1, 2**15, 2**62]
    values = pa.table({"x": pa.array(numbers), "y": list("abcdef")})
    found = as_types(values, schema)
    assert found.schema == schema
    assert found.to_pylist() == [
        {"a": -(2**15), "b": "b"},
        {"a": None, "b": "c"},
        {"a": 2**15 - 1, "b": "d"},
    ]


def test_types_that_are_joined_and_grouped_by() -> None:
    assert all(is_groupable(kind) for kind in (pa.int8(), pa.float64(), pa.string(), pa.date32()))
    assert not any(is_groupable(kind) for kind in (NESTED, MAP, pa.struct([("a", pa.int8())])))


# --- NaNs that engines make ----------------------------------------------------------------------

# sqrt(-1) and 0/0 give a NaN with the sign bit set; float("nan") has it clear.
MANY_NANS = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(
    np.float64
)


def test_all_nans_are_alike_whatever_their_bits() -> None:
    rows = pa.table({"a": MANY_NANS})
    assert distinct_rows(rows).num_rows == 1
    assert consolidate(with_weight(rows, 1)).column(WEIGHT).to_pylist() == [3]


def test_all_nans_inside_of_values_are_alike_whatever_their_bits() -> None:
    rows = pa.table({"a": pa.array([[value] for value in MANY_NANS])})
    assert consolidate(with_weight(rows, 1)).column(WEIGHT).to_pylist() == [3]


def test_a_nan_is_looked_for_whatever_its_bits() -> None:
    rows = pa.table({"a": MANY_NANS})
    assert semi_join(rows, ["a"], rows.slice(1, 1)).num_rows == 3


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT CASE WHEN v < 0 THEN sqrt(v) ELSE v END AS r FROM t",
        "SELECT r, count(*) AS n FROM (SELECT CASE WHEN v < 0 THEN sqrt(v) ELSE v END AS r "
        "FROM t) AS x GROUP BY r",
    ],
)
def test_a_view_over_nans_of_two_makes_is_what_its_query_says(tmp_path: Path, query: str) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        main.insert("t", {"id": [1], "v": [NAN]})
        main.derive("view", query, when="immediate")
        main.insert("t", {"id": [2, 3], "v": [-1.0, -2.0]})
        main.delete("t", [1])
        seen = main.sql("SELECT * FROM view").to_arrow()
        assert rows_of(seen) == rows_of(main.sql(query).to_arrow())
