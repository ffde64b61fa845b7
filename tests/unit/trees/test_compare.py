"""Which rows differ, and the zones of text: what is quick says the same as what is plain."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from livingdb.chunks.chunk import draft_chunk
from livingdb.trees.compare import differs, gather
from livingdb.trees.zones import zone_of

_NAN = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]


@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
def test_zeros_and_nans_are_one_value_each(data_type: pa.DataType) -> None:
    first = pa.array(np.array([0.0, np.nan, 1.0, np.nan, 5.0]), data_type)
    second = pa.array(np.array([-0.0, _NAN, 2.0, 3.0, 5.0]), data_type)
    assert differs(first, second).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize(
    "data_type", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us")]
)
def test_values_of_slices_are_compared_where_they_lie(data_type: pa.DataType) -> None:
    first = pa.array([9, 1, 2, 3, 4], pa.int32()).cast(pa.int64()).cast(_through(data_type))
    second = pa.array([1, 2, 30, 4], pa.int32()).cast(pa.int64()).cast(_through(data_type))
    first, second = first.view(data_type), second.view(data_type)
    assert differs(first.slice(1), second).tolist() == [False, False, True, False]


def _through(data_type: pa.DataType) -> pa.DataType:
    """Whole numbers of the width of a type."""
    return {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[data_type.bit_width // 8]


def test_a_value_under_null_is_no_difference() -> None:
    mask = np.array([True, False, True])
    first = pa.array(np.array([1, 2, 3]), mask=mask)
    second = pa.array(np.array([7, 2, 3]), mask=np.array([True, False, False]))
    assert differs(first, second).tolist() == [False, False, True]


@pytest.mark.parametrize("rows", [[], [3], [0, 2, 5], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("values", [["a", None, "ccc", "", "e", "ff"], [1, None, 3, 4, 5, 6]])
def test_rows_are_gathered_as_they_are_taken(rows: list[int], values: list[object]) -> None:
    column = pa.array(["x", *values], pa.string()) if "a" in values else pa.array([0, *values])
    places = np.array(rows, np.int64)
    found = gather(column.slice(1), places)
    assert found.equals(column.slice(1).take(pa.array(places)))
    assert found.type == column.type


@pytest.mark.parametrize(
    "values",
    [
        [f"customer-{number:07}" for number in range(40)],
        ["Oslo", "Lima"] * 20,
        ["a\0b" * number for number in range(1, 30)],
        ["x" * 2_000 + str(number) for number in range(20)],
        [*["\U0010ffff" * 20] * 3, *[str(number) for number in range(30)]],
        [None, *["Oslo", "Lima"] * 20],
        ["few", "rows"],
    ],
)
def test_zones_of_text_that_was_looked_at(values: list[str | None]) -> None:
    column = pa.array(values, pa.string())
    (bounds,) = draft_chunk([column]).bounds
    assert (bounds is None) == (None in values or len(values) < 16)
    assert zone_of(column, bounds) == zone_of(column)
