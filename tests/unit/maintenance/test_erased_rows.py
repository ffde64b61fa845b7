"""Which rows are among those to erase, by values that may be null or have no place in a type."""

from __future__ import annotations

import pyarrow as pa

from livingdb.maintenance.erasure.erased_rows import ErasedRows


def matched(wanted: pa.Table, *columns: pa.Array) -> list[bool]:
    ids = tuple(wanted.column_names)
    found: list[bool] = ErasedRows("people", "people", ids, wanted).matches(columns).tolist()
    return found


def test_nulls_are_values_like_others() -> None:
    wanted = pa.table({"a": [1, None, 2], "b": ["x", "y", None]})
    held = pa.array([1, None, 2, None, 1, 2]), pa.array(["x", "y", None, None, "y", "x"])
    assert matched(wanted, *held) == [True, True, True, False, False, False]


def test_what_has_no_place_in_a_type_is_not_null_there() -> None:
    wanted = pa.table({"a": ["7", "seven"]})
    assert matched(wanted, pa.array([7, None, 8])) == [True, False, False]
    assert matched(wanted.slice(1), pa.array([7, None])) == [False, False]
    assert matched(wanted, pa.array([], pa.int64())) == []
