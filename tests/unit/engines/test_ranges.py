"""Ranges hold every value for which the comparison holds."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livingdb.engines.value_ranges import (
    Range,
    Ranges,
    codec_of,
    comparison_ranges,
    hull,
    intersect_ranges,
    prefix_ranges,
    prefix_successor,
    union_ranges,
)

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def held(ranges: Ranges, value: Any, data_type: pa.DataType) -> bool:
    codec = codec_of(data_type)
    key = codec.encode_one([value])
    if codec.packed:
        raw = int(key).to_bytes(codec.width or 0, "big")
    elif codec.width is not None:
        raw = bytes(key).ljust(codec.width, b"\0")
    else:
        text = value.encode() if isinstance(value, str) else value
        raw = text.replace(b"\0", b"\0\xff") + b"\0\0"
    return any(r.low <= raw and (r.high is None or raw < r.high) for r in ranges)


INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=4)
CASES: list[tuple[pa.DataType, st.SearchStrategy[Any], st.SearchStrategy[Any]]] = [
    (pa.int32(), INTS, INTS),
    (pa.int64(), INTS, st.decimals(-1000, 1000, places=2)),
    (pa.float64(), st.floats(allow_nan=False), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False), st.decimals(-100, 100, places=2)),
    (pa.decimal128(12, 3), st.decimals(-1000, 1000, places=3), st.decimals(-1000, 1000, places=5)),
    (pa.string(), TEXTS, TEXTS),
    (pa.binary(), st.binary(max_size=4), st.binary(max_size=4)),
    (pa.bool_(), st.booleans(), st.booleans()),
    (pa.date32(), st.dates(), st.dates()),
    (pa.timestamp("us"), st.datetimes(), st.datetimes()),
]


@given(data=st.data(), sign=st.sampled_from(sorted(COMPARE)))
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_no_value_is_left_out(
    case: tuple[pa.DataType, st.SearchStrategy[Any], st.SearchStrategy[Any]],
    data: st.DataObject,
    sign: str,
) -> None:
    data_type, values, bounds = case
    value, bound = data.draw(values), data.draw(bounds)
    ranges = comparison_ranges(data_type, sign, bound)
    left, right = (value.encode(), bound.encode()) if isinstance(value, str) else (value, bound)
    if isinstance(left, float) and isinstance(right, decimal.Decimal):
        right = float(np.float32(right))
    if COMPARE[sign](left, right):
        assert ranges is None or held(ranges, value, data_type)
    elif data_type in (pa.int32(), pa.string(), pa.date32(), pa.decimal128(12, 3)):
        exact = not isinstance(bound, decimal.Decimal)
        assert ranges is None or not exact or not held(ranges, value, data_type)


@given(prefix=st.text(min_size=1, max_size=3), rest=TEXTS, other=TEXTS)
def test_prefixes(prefix: str, rest: str, other: str) -> None:
    ranges = prefix_ranges(pa.string(), prefix)
    assert ranges is not None
    assert held(ranges, prefix + rest, pa.string())
    assert held(ranges, other, pa.string()) == other.startswith(prefix)


def test_times_without_a_zone_are_utc() -> None:
    naive = datetime.datetime(2026, 1, 1, 2)
    zone = datetime.timezone(datetime.timedelta(hours=1))
    for data_type in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        ranges = comparison_ranges(data_type, "=", naive)
        assert ranges == comparison_ranges(data_type, "=", naive.replace(hour=3, tzinfo=zone))


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int64(), "5"),
        (pa.string(), 5),
        (pa.int64(), math.nan),
        (pa.int64(), 1e300),
        (pa.int32(), 2**40),
        (pa.date32(), "soon"),
        (pa.date32(), datetime.datetime(2026, 1, 1)),
        (pa.list_(pa.int64()), 1),
        (pa.decimal128(5, 2), 1.5),
    ],
)
def test_what_cannot_be_compared_prunes_nothing(data_type: pa.DataType, value: object) -> None:
    assert comparison_ranges(data_type, "=", value) is None


def test_algebra() -> None:
    low, high = Range(b"a", b"c"), Range(b"b", None)
    assert intersect_ranges((low,), (high,)) == (Range(b"b", b"c"),)
    assert intersect_ranges((low,), (Range(b"c", None),)) == ()
    assert union_ranges([(high,), (low,)]) == (low, high)
    assert hull((low, high)) == (Range(b"a", None),)
    assert union_ranges([(Range(bytes([i]), bytes([i, 1])),) for i in range(200)]) == (
        Range(b"\0", b"\xc7\x01"),
    )
    assert prefix_successor(b"a\xff") == b"b"
    assert prefix_successor(b"\xff") is None
