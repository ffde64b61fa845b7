"""Foreign types become chunk types where nothing is lost, and are refused elsewhere."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.chunks.arrays import CASES, address_of, normal

from livingdb.chunks.types import describe, normalise_array, normalise_type, parse_descriptor
from livingdb.errors import Corruption, InvalidData, Unsupported

FOREIGN = [
    (pa.array([0, 255, None], pa.uint8()), pa.int16()),
    (pa.array([65_535, None], pa.uint16()), pa.int32()),
    (pa.array([2**32 - 1, None], pa.uint32()), pa.int64()),
    (pa.array([2**63 - 1, None], pa.uint64()), pa.int64()),
    (pa.array(np.array([1.5, np.nan], np.float16)), pa.float32()),
    (pa.array([date(2024, 1, 1), None], pa.date64()), pa.date32()),
    (pa.array([1_000, None], pa.timestamp("ns")), pa.timestamp("us")),
    (pa.array([1], pa.timestamp("s", "+02:00")), pa.timestamp("us", "+02:00")),
    (pa.array([1], pa.timestamp("ms")), pa.timestamp("us")),
    (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pa.array([Decimal("1.5"), None], pa.decimal64(15, 2)), pa.decimal128(15, 2)),
    (pa.array([Decimal("9" * 38)], pa.decimal256(38, 0)), pa.decimal128(38, 0)),
    (pa.array(["a", None, "x" * 40], pa.large_string()), pa.string()),
    (pa.array(["a", None, "x" * 40], pa.string_view()), pa.string()),
    (pa.array([b"a", None], pa.large_binary()), pa.binary()),
    (pa.array([b"a", None, b"x" * 40], pa.binary_view()), pa.binary()),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    (pa.array(["a", "b", None, "a"]).dictionary_encode(), pa.string()),
    (pa.DictionaryArray.from_arrays([0, 1, None, 1], pa.array(["a", None])), pa.string()),
    (pa.array([[1, None], None], pa.large_list(pa.int32())), pa.list_(pa.int32())),
    (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)), pa.list_(pa.int32())),
    (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)).slice(1), pa.list_(pa.int32())),
    (pa.array([[1, 2], None, []], pa.list_view(pa.int8())), pa.list_(pa.int8())),
    (pa.array([[1, 2], None, []], pa.large_list_view(pa.int8())).slice(1), pa.list_(pa.int8())),
    (
        pa.ListViewArray.from_arrays(
            pa.array([3, 0], pa.int32()), pa.array([1, 3], pa.int32()), pa.array([1, 2, 3, 4])
        ),
        pa.list_(pa.int64()),
    ),
    (
        pa.array(
            [{"v": [["a"], None]}, None],
            pa.struct([("v", pa.list_(pa.list_view(pa.string())))]),
        ),
        pa.struct([("v", pa.list_(pa.list_(pa.string())))]),
    ),
    (
        pa.array([[("k", [1, None])], None, []], pa.map_(pa.string(), pa.list_view(pa.uint8()))),
        pa.map_(pa.string(), pa.list_(pa.int16())),
    ),
    (
        pa.array([["a"], ["b", "a"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.list_(pa.string()),
    ),
    (
        pa.array([[("k", "v")]], pa.map_(pa.large_string(), pa.dictionary(pa.int8(), pa.string()))),
        pa.map_(pa.string(), pa.string()),
    ),
    (pa.chunked_array([["a"], [], ["b", None]]), pa.string()),
    (pa.chunked_array([], pa.string()), pa.string()),
]  # fmt: skip


class TestForeignTypes:
    @pytest.mark.parametrize(
        ("array", "expected"), FOREIGN, ids=lambda value: str(getattr(value, "type", ""))
    )
    def test_what_fits_is_taken(self, array: Any, expected: pa.DataType) -> None:
        assert normalise_type(array.type) == expected
        taken = normalise_array(array, expected, "c")
        taken.validate(full=True)
        assert taken.type == expected
        assert [normal(value, expected) for value in taken.to_pylist()] == [
            normal(value, expected) for value in array.to_pylist()
        ]
        assert address_of(taken) == address_of(pa.array(array.to_pylist(), expected))

    @pytest.mark.parametrize(
        ("array", "row"),
        [
            (pa.array([1, None, 2**63], pa.uint64()), 2),
            (pa.array([1_000, 1_001, 1], pa.timestamp("ns")), 1),
            (pa.array([0, 2**60], pa.timestamp("s")), 1),
            (pa.array([0, 86_400_001], pa.int64()).view(pa.date64()), 1),
            (pa.array([[1], None, [2, 2**63]], pa.list_(pa.uint64())), 2),
        ],
    )
    def test_what_loses_something_is_refused(self, array: pa.Array, row: int) -> None:
        with pytest.raises(InvalidData, match=rf"'price', row {row}:"):
            normalise_array(array, normalise_type(array.type), "price")

    @pytest.mark.parametrize(
        ("array", "target", "row"),
        [
            (pa.array(["1", "2", "three"]), pa.int64(), 2),
            (pa.array([b"raw"]), pa.string(), 0),
            (pa.array([[1], [2, 300]]), pa.list_(pa.int8()), 1),
            (pa.array([{"x": 1}, {"x": 40_000}]), pa.struct([("x", pa.int16())]), 1),
            (pa.array([1.0, 2.0, 2.5]), pa.int32(), 2),
            (pa.array([datetime(2024, 1, 1)]), pa.timestamp("us", "UTC"), 0),
            (pa.array([Decimal("1.00"), Decimal("1.01")]), pa.decimal128(5, 1), 1),
            (pa.array([True]), pa.list_(pa.int64()), 0),
        ],
    )  # fmt: skip
    def test_wrong_values_are_named(self, array: pa.Array, target: pa.DataType, row: int) -> None:
        with pytest.raises(InvalidData, match=rf"column 'c', row {row}: .* does not fit"):
            normalise_array(array, target, "c")

    def test_only_what_a_row_holds_counts(self) -> None:
        array = pa.array([[1], [300], [2]])
        target = pa.list_(pa.int8())
        assert normalise_array(array.slice(2), target, "c").to_pylist() == [[2]]
        hidden = pa.ListArray.from_arrays(
            array.offsets, array.values, mask=pa.array([False, True, False])
        )
        assert normalise_array(hidden, target, "c").to_pylist() == [[1], None, [2]]

    @pytest.mark.parametrize(
        "data_type",
        [
            pa.null(), pa.time32("s"), pa.time64("us"), pa.duration("s"),
            pa.month_day_nano_interval(), pa.decimal256(39, 0), pa.decimal128(5, -2),
            pa.struct([]), pa.uuid(), pa.dense_union([pa.field("a", pa.int8())]),
            pa.run_end_encoded(pa.int32(), pa.string()), pa.list_(pa.time32("s")),
            pa.struct([("x", pa.null())]), pa.map_(pa.string(), pa.null()),
        ],
        ids=str,
    )  # fmt: skip
    def test_types_that_cannot_be_stored(self, data_type: pa.DataType) -> None:
        with pytest.raises(Unsupported):
            normalise_type(data_type)

    def test_types_that_are_too_much(self) -> None:
        deep = pa.int8()
        for _ in range(64):
            deep = pa.list_(deep)
        assert parse_descriptor(describe(deep)) == deep
        for data_type in (pa.list_(deep), pa.binary(70_000), pa.binary(0), pa.large_string()):
            with pytest.raises(Unsupported):
                describe(data_type)

    @pytest.mark.parametrize("array", CASES.values(), ids=CASES.keys())
    def test_descriptors_are_parsed(self, array: pa.Array) -> None:
        descriptor = describe(array.type)
        parsed = parse_descriptor(descriptor)
        assert describe(parsed) == descriptor
        for wrong in (descriptor[:-1], descriptor + b"\1", b"\xff" + descriptor[1:], b"\x11\0\0"):
            with pytest.raises(Corruption):
                parse_descriptor(wrong)
