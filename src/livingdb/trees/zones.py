"""Zone maps: the least value, the greatest value and the nulls of a column under a node.

Values are kept in the order-preserving form of `keys`: as 64-bit integers where they fit,
else as bytes of which only the first sixteen are kept (the greatest rounded up; null when
it cannot be, which reads as "no bound").
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask
from livingdb.trees.keys import KeyCodec

__all__ = ["Zone", "join_zones", "zone_of", "zone_types", "zone_value"]

PREFIX_BYTES = 16
_LONG_BYTES = 1 << 10
_BIAS = 1 << 63


class Zone(NamedTuple):
    """What is known of one column under one node: least, greatest, nulls."""

    least: int | bytes | None
    greatest: int | bytes | None
    nulls: int


@lru_cache(maxsize=1024)
def _codec(data_type: pa.DataType) -> KeyCodec:
    return KeyCodec([data_type])


def zone_types(data_type: pa.DataType) -> list[pa.DataType]:
    """Arrow types of the zone-map columns for a column of this type."""
    if pa.types.is_nested(data_type):
        return [pa.int64()]
    bound = pa.int64() if _codec(data_type).packed else pa.binary()
    return [bound, bound, pa.int64()]


def zone_of(array: pa.Array, bounds: tuple[bytes, bytes] | None = None) -> Zone:
    """The zone of these values; `bounds` are the least and the greatest text, where known."""
    if bounds is not None:
        return Zone(_floor(_escaped(bounds[0])), _ceiling(_escaped(bounds[1])), 0)
    nulls = array.null_count
    data_type = array.type
    if pa.types.is_nested(data_type) or nulls == len(array):
        return Zone(None, None, nulls)
    codec = _codec(data_type)
    if codec.packed:
        keys = codec.encode([array.drop_null() if nulls else array])
        return Zone(int(keys.min()) - _BIAS, int(keys.max()) - _BIAS, nulls)
    if codec.width is not None:
        found = pc.min_max(array)
        ends = pa.array([found["min"].as_py(), found["max"].as_py()], data_type)
        low, high = (bytes(key) for key in codec.encode([ends]))
        return Zone(_floor(low), _ceiling(high), nulls)
    found = pc.min_max(_prefixes(array))
    low, high = (_raw(found[name]) for name in ("min", "max"))
    return Zone(_floor(low), _ceiling(high), nulls)


def _prefixes(array: pa.Array) -> pa.Array:
    """As much of long values as their bounds tell, and a byte more: they sort as the values do."""
    if array.nbytes < _LONG_BYTES * len(array):
        return array
    return pc.binary_slice(array.cast(pa.binary()), 0, PREFIX_BYTES + 1)


def _raw(scalar: Any) -> bytes:
    """The bytes of a string or binary scalar, in key order (zero bytes escaped)."""
    value = scalar.as_py()
    return _escaped(value.encode() if isinstance(value, str) else value)


def _escaped(value: bytes) -> bytes:
    return value.replace(b"\0", b"\0\xff")


def _floor(value: bytes) -> bytes:
    return value[:PREFIX_BYTES]


def _ceiling(value: bytes) -> bytes | None:
    if len(value) <= PREFIX_BYTES:
        return value
    prefix = value[:PREFIX_BYTES].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def zone_value(value: object, data_type: pa.DataType) -> int | bytes | None:
    """A value in the form zones compare in; bytes are whole, not cut.  None if it cannot be."""
    if pa.types.is_nested(data_type) or value is None:
        return None
    try:
        scalar = pa.scalar(value, data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    codec = _codec(data_type)
    if codec.width is None:
        return _raw(scalar)
    key = codec.encode([pa.array([scalar.as_py()], data_type)])[0]
    return int(key) - _BIAS if codec.packed else bytes(key)


def join_zones(columns: list[pa.Array]) -> Zone:
    """The zone of a node from the zone-map columns of its children."""
    nulls = int(pc.sum(columns[-1]).as_py() or 0)
    if len(columns) == 1:
        return Zone(None, None, nulls)
    lows, highs = columns[0], columns[1]
    if lows.null_count == len(lows):
        return Zone(None, None, nulls)
    unbounded = as_mask(lows.is_valid()) & ~as_mask(highs.is_valid())
    low = pc.min(lows).as_py()
    return Zone(low, None if np.any(unbounded) else pc.max(highs).as_py(), nulls)
