"""Arrays of every chunk type, and the same values laid out differently in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk, encode_chunk

__all__ = ["CASES", "address_of", "layouts", "normal", "read_back"]

BERLIN = pa.timestamp("us", "Europe/Berlin")
TREE = pa.struct(
    [
        ("flag", pa.bool_()),
        ("name", pa.string()),
        ("sizes", pa.list_(pa.int16())),
        ("price", pa.decimal128(9, 2)),
        ("tags", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("inner", pa.struct([("at", BERLIN), ("raw", pa.binary())])),
    ]
)
NOON = datetime(2024, 2, 29, 12, 30, 15, 250_001)
LEAF_VALUE = {
    "flag": True,
    "name": "é",
    "sizes": [1, None, -3],
    "price": Decimal("12.50"),
    "tags": [("a", [1.5, None]), ("b", None), ("c", [])],
    "inner": {"at": NOON.replace(tzinfo=UTC), "raw": b"\0\xff"},
}
EMPTY_VALUE: dict[str, Any] = {
    "flag": None, "name": "", "sizes": [], "price": None, "tags": [], "inner": None,
}  # fmt: skip
TEXTS = ["", "a", None, "Grüße", "日本", "𝄞 clef", "zero\0byte", "long " * 60, "a", "\U0010ffff"]
FLOATS = [0.0, -0.0, 1.5, None, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]

CASES: dict[str, pa.Array] = {
    "boolean": pa.array([True, False, None, True, True, False, False, None, True]),
    "int8": pa.array([-128, 127, None, 0, 1], pa.int8()),
    "int16": pa.array([-(2**15), 2**15 - 1, None, 256], pa.int16()),
    "int32": pa.array([-(2**31), 2**31 - 1, None, 65_536], pa.int32()),
    "int64": pa.array([-(2**63), 2**63 - 1, None, 0, -1], pa.int64()),
    "int64 ascending": pa.array(range(0, 900, 3), pa.int64()),
    "float32": pa.array([0.0, -0.0, None, math.nan, math.inf, 1.5, 3.4e38], pa.float32()),
    "float64": pa.array(FLOATS, pa.float64()),
    "float64 of decimals": pa.array([1.25, -7.5, None, 100.0, 0.01]),
    "decimal": pa.array([Decimal("-999.99"), Decimal("0.01"), None], pa.decimal128(5, 2)),
    "decimal of 38 digits": pa.array(
        [Decimal("9" * 38), Decimal("-" + "9" * 38), None, Decimal(1)], pa.decimal128(38, 0)
    ),
    "decimal of scale 38": pa.array([Decimal("0." + "1" * 38), None], pa.decimal128(38, 38)),
    "date": pa.array([date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1)]),
    "timestamp": pa.array([NOON, None, datetime(1, 1, 1), datetime(9999, 12, 31)]),
    "timestamp UTC": pa.array([NOON.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "timestamp Berlin": pa.array([NOON.replace(tzinfo=UTC), None], BERLIN),
    "string": pa.array(TEXTS),
    "string of few values": pa.array(["red", "green", None, "blue"] * 40),
    "string with a prefix": pa.array([f"customer-{n * n}" for n in range(60)]),
    "binary": pa.array([b"", b"\0", None, b"\xff" * 300, b"\xc3\x28"]),
    "fixed binary": pa.array([bytes(32), None, bytes(range(32))], pa.binary(32)),
    "fixed binary of 16": pa.array([b"\xff" * 16, None, bytes(range(16))], pa.binary(16)),
    "list of int32": pa.array([[1, None, 3], [], None, [4]], pa.list_(pa.int32())),
    "list of string": pa.array([["a", None], None, [], ["", "é"]], pa.list_(pa.string())),
    "list of boolean": pa.array([[True], [None, False], None], pa.list_(pa.bool_())),
    "list of list": pa.array(
        [[[1.5], None, []], None, [], [[math.nan, -0.0]]], pa.list_(pa.list_(pa.float64()))
    ),
    "list of struct": pa.array([[LEAF_VALUE, None], None, [], [EMPTY_VALUE]], pa.list_(TREE)),
    "list of map": pa.array(
        [[[("k", 1)], None], None, [[]]], pa.list_(pa.map_(pa.string(), pa.int8()))
    ),
    "struct": pa.array([LEAF_VALUE, None, EMPTY_VALUE], TREE),
    "struct of two": pa.array(
        [{"x": Decimal("1.1"), "y": b"abc"}, {"x": None, "y": None}, None],
        pa.struct([("x", pa.decimal128(38, 10)), ("y", pa.binary(3))]),
    ),
    "map of int64": pa.array(
        [[("b", 2), ("a", None)], None, [], [("", 0)]], pa.map_(pa.string(), pa.int64())
    ),
    "map by float": pa.array(
        [[(1.5, "x"), (math.nan, None), (-0.0, "zero")], None], pa.map_(pa.float64(), pa.string())
    ),
    "map by boolean of map": pa.array(
        [[(True, [(3, b"x"), (1, None)]), (False, None)], None, [(False, [])]],
        pa.map_(pa.bool_(), pa.map_(pa.int32(), pa.binary())),
    ),
    "map by decimal of struct": pa.array(
        [[(Decimal("2.5"), LEAF_VALUE), (Decimal("-1"), None)], None],
        pa.map_(pa.decimal128(10, 1), TREE),
    ),
    "map by date": pa.array(
        [[(date(2024, 1, 2), 1), (date(2024, 1, 1), 2)]], pa.map_(pa.date32(), pa.int16())
    ),
    "map by timestamp": pa.array(
        [[(NOON, True), (datetime(1999, 1, 1), None)]], pa.map_(pa.timestamp("us"), pa.bool_())
    ),
}


def normal(value: Any, data_type: pa.DataType) -> Any:
    """The value as a chunk keeps it: one NaN, one zero, map entries in key order."""
    if value is None:
        return None
    if pa.types.is_floating(data_type):
        return "NaN" if math.isnan(value) else value + 0.0
    if pa.types.is_struct(data_type):
        return {field.name: normal(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        entries = sorted(value, key=lambda entry: _order(entry[0]))
        key_type, item_type = data_type.key_type, data_type.item_type
        return [(normal(key, key_type), normal(item, item_type)) for key, item in entries]
    if pa.types.is_list(data_type):
        return [normal(item, data_type.value_type) for item in value]
    return value


def _order(key: Any) -> tuple[bool, Any]:
    if isinstance(key, float):
        return (True, 0.0) if math.isnan(key) else (False, key)
    return False, key.encode() if isinstance(key, str) else key


def address_of(array: pa.Array) -> Address:
    return encode_chunk([array]).address


def read_back(array: pa.Array) -> pa.Array:
    """The array as it comes out of a chunk of its own."""
    stored = encode_chunk([array])
    return Chunk(stored.address, stored.data).column(0, array.type)


# --- other layouts --------------------------------------------------------------------------


def layouts(array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The same values, each time in other memory."""
    rows = len(array)
    yield "a slice", pa.concat_arrays([array, array, array]).slice(rows, rows)
    yield (
        "a slice at an odd place",
        pa.concat_arrays([array.slice(0, 3), array]).slice(min(3, rows)),
    )
    yield "pieces", pa.concat_arrays([array.slice(0, 0), *(array[i : i + 1] for i in range(rows))])
    yield "a copy", array.take(pa.array(np.arange(rows)))
    if array.null_count < rows:
        yield "values under nulls", junk_under_nulls(array)
        yield "values under nulls of a slice", junk_under_nulls(array).slice(0)
    yield "map entries in another order", reversed_maps(array)
    if not array.null_count:
        yield "a bitmap without nulls", with_bitmap(array)


def junk_under_nulls(array: pa.Array) -> pa.Array:
    """The same array, whose null slots hold values that do not show."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    places = np.where(valid, np.arange(len(array)), int(valid.argmax()))
    return _masked(array.take(pa.array(places)), valid)


def with_bitmap(array: pa.Array) -> pa.Array:
    """The same array with a validity bitmap that says nothing."""
    return _masked(array.take(pa.array(np.arange(len(array)))), np.ones(len(array), np.bool_))


def _masked(array: pa.Array, valid: np.ndarray[Any, Any]) -> pa.Array:
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data_type, rows = array.type, len(array)
    if pa.types.is_struct(data_type):
        children = [_filled(array.field(place)) for place in range(data_type.num_fields)]
        return pa.Array.from_buffers(data_type, rows, [bitmap], children=children)
    if pa.types.is_map(data_type) or pa.types.is_list(data_type):
        buffers = [bitmap, array.buffers()[1]]
        return pa.Array.from_buffers(data_type, rows, buffers, children=[array.values])
    return pa.Array.from_buffers(data_type, rows, [bitmap, *array.buffers()[1:]])


def _filled(array: pa.Array) -> pa.Array:
    return junk_under_nulls(array) if array.null_count < len(array) else array


def reversed_maps(array: pa.Array) -> pa.Array:
    """The same array with the entries of every map the other way round."""
    return pa.array([_reversed(v, array.type) for v in array.to_pylist()], array.type)


def _reversed(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return [(key, _reversed(item, data_type.item_type)) for key, item in reversed(value)]
    if pa.types.is_list(data_type):
        return [_reversed(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        return {field.name: _reversed(value[field.name], field.type) for field in data_type}
    return value
