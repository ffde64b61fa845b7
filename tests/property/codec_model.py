"""Random chunk types, and random arrays of them."""

from __future__ import annotations

import math
from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["arrays", "chunk_types", "values_of"]

FIRST_MICROSECOND, LAST_MICROSECOND = -62_135_596_800_000_000, 253_402_300_799_999_999
WIDE = Context(prec=60)

FLAT: list[pa.DataType] = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.decimal128(4, 2), pa.decimal128(18, 0), pa.decimal128(38, 0), pa.decimal128(38, 20),
    pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string(), pa.binary(),
]  # fmt: skip


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda types: pa.struct([(f"f{place}", kind) for place, kind in enumerate(types)])
    )
    maps = st.builds(pa.map_, st.sampled_from(FLAT), inner)
    return st.one_of(inner.map(pa.list_), structs, maps)


chunk_types = st.recursive(st.sampled_from(FLAT), _nested, max_leaves=5)


def values_of(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a chunk type, as Python has them; never null at the top."""
    kinds = pa.types
    if kinds.is_boolean(data_type):
        return st.booleans()
    if kinds.is_integer(data_type):
        half = 1 << (data_type.bit_width - 1)
        return st.one_of(st.integers(-half, half - 1), st.integers(-3, 3))
    if kinds.is_floating(data_type):
        width = data_type.bit_width
        return st.one_of(st.floats(width=width), st.integers(-500, 500).map(lambda n: n / 4))
    if kinds.is_decimal(data_type):
        most = 10**data_type.precision - 1
        scale = Decimal(1).scaleb(-data_type.scale)
        return st.integers(-most, most).map(lambda number: WIDE.multiply(Decimal(number), scale))
    if kinds.is_date(data_type):
        return st.dates(date(1, 1, 1), date(9999, 12, 31))
    if kinds.is_timestamp(data_type):
        return st.integers(FIRST_MICROSECOND + 10**11, LAST_MICROSECOND - 10**11)
    if kinds.is_string(data_type):
        return st.text(max_size=12)
    if kinds.is_binary(data_type):
        return st.binary(max_size=12)
    if kinds.is_struct(data_type):
        fields = {field.name: _nullable(field.type) for field in data_type}
        return st.fixed_dictionaries(fields)
    if kinds.is_map(data_type):
        entries = st.tuples(values_of(data_type.key_type), _nullable(data_type.item_type))
        return st.lists(entries, max_size=4, unique_by=lambda entry: _identity(entry[0]))
    return st.lists(_nullable(data_type.value_type), max_size=4)


def _nullable(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    return st.none() | values_of(data_type)


def _identity(key: Any) -> Any:
    """Keys that are one and the same key have one identity."""
    if isinstance(key, float):
        return "NaN" if math.isnan(key) else key + 0.0
    return key


@st.composite
def arrays(draw: st.DrawFn, max_rows: int = 12) -> pa.Array:
    """An array of a random chunk type with random values, some of them null."""
    data_type = draw(chunk_types)
    nulls = draw(st.booleans())
    element = _nullable(data_type) if nulls else values_of(data_type)
    values = draw(st.lists(element, max_size=max_rows))
    if values and draw(st.booleans()):
        values = values * draw(st.integers(2, 5))
    return pa.array(values, data_type)
