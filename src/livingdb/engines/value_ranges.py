"""Ranges of column values as order-preserving bytes, for pruning; may be too wide, never too
narrow.

A condition such as `amount > 3` becomes ranges of its column.  They only ever prune: a range
may hold more than the condition lets through, never less.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from livingdb.errors import LivingDBError
from livingdb.trees.keys import KeyCodec

__all__ = [
    "Range",
    "Ranges",
    "codec_of",
    "comparison_ranges",
    "escape",
    "hull",
    "intersect_ranges",
    "prefix_ranges",
    "prefix_successor",
    "union_ranges",
]

MAX_RANGES = 64
_EXACT_DOUBLE = 1 << 52


@dataclass(frozen=True)
class Range:
    """From `low` on and before `high` (None: no end); `point` is the one whole value it holds."""

    low: bytes = b""
    high: bytes | None = None
    point: bytes | None = None

    def intersection(self, other: Range) -> Range | None:
        """What both hold; None if nothing."""
        low = max(self.low, other.low)
        highs = [high for high in (self.high, other.high) if high is not None]
        high = min(highs) if highs else None
        if high is not None and low >= high:
            return None
        point = self.point if self.point is not None else other.point
        return Range(low, high, point)


Ranges: TypeAlias = tuple[Range, ...]


def intersect_ranges(first: Ranges, second: Ranges) -> Ranges:
    """What both hold."""
    if len(first) * len(second) > MAX_RANGES:
        first, second = hull(first), hull(second)
    met = (one.intersection(other) for one in first for other in second)
    return tuple(item for item in met if item is not None)


def union_ranges(parts: Iterable[Ranges]) -> Ranges:
    """What any of them holds."""
    joined = tuple(sorted({item for part in parts for item in part}, key=lambda item: item.low))
    return joined if len(joined) <= MAX_RANGES else hull(joined)


def hull(ranges: Ranges) -> Ranges:
    """One range around all; none around none."""
    if len(ranges) < 2:
        return ranges
    highs = [item.high for item in ranges]
    high = None if None in highs else max(high for high in highs if high is not None)
    return (Range(min(item.low for item in ranges), high),)


def prefix_successor(prefix: bytes) -> bytes | None:
    """The first bytes that sort after everything with the prefix; None if nothing does."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


@lru_cache(maxsize=1024)
def codec_of(data_type: pa.DataType) -> KeyCodec:
    """The key codec of one column."""
    return KeyCodec([data_type])


def comparison_ranges(data_type: pa.DataType, operator: str, value: object) -> Ranges | None:
    """The values `v` of the type for which `v operator value` can hold; None if unknown."""
    bounds = _bounds(value, data_type)
    if bounds is None:
        return None
    below, above, exact = bounds
    try:
        low = _encode(below, data_type)
        high = low if above is below else _encode(above, data_type)
    except (LivingDBError, pa.ArrowException, OverflowError, ValueError):
        return None
    if operator == "=":
        point = low if exact else None
        return (Range(_without_terminator(low, data_type), prefix_successor(high), point),)
    if operator == ">=" or (operator == ">" and not exact):
        return (Range(_without_terminator(low, data_type), None),)
    if operator == "<=" or (operator == "<" and not exact):
        return (Range(b"", prefix_successor(high)),)
    if operator == ">":
        beyond = prefix_successor(low)
        return () if beyond is None else (Range(beyond, None),)
    if operator == "<":
        first = _without_terminator(high, data_type)
        return (Range(b"", first),) if first.rstrip(b"\0") else ()  # zeros are before all others
    return None


def prefix_ranges(data_type: pa.DataType, prefix: str) -> Ranges | None:
    """The strings with the prefix."""
    if not pa.types.is_string(data_type) or not prefix:
        return None
    low = escape(prefix)
    return (Range(low, prefix_successor(low)),)


# --- values in byte form --------------------------------------------------------------------


def _encode(value: Any, data_type: pa.DataType) -> bytes:
    codec = codec_of(data_type)
    if codec.width is None:
        return escape(value) + b"\0\0"
    key = codec.encode_one([value])
    if codec.packed:
        return int(key).to_bytes(codec.width, "big")
    return bytes(key).ljust(codec.width, b"\0")


def escape(value: str | bytes) -> bytes:
    """A text or bytes as they stand in a key, before what ends them."""
    raw = value.encode() if isinstance(value, str) else value
    return raw.replace(b"\0", b"\0\xff")


def _without_terminator(encoded: bytes, data_type: pa.DataType) -> bytes:
    """The byte form without the end of a text, before which nothing else sorts."""
    return encoded[:-2] if codec_of(data_type).width is None else encoded


Bounds: TypeAlias = tuple[Any, Any, bool]


def _bounds(value: object, data_type: pa.DataType) -> Bounds | None:
    """The values of the type next to the value, below and above, and whether it is they."""
    kinds = pa.types
    if isinstance(value, bool):
        return (value, value, True) if kinds.is_boolean(data_type) else None
    if isinstance(value, (int, float, decimal.Decimal)):
        return _number_bounds(value, data_type)
    if kinds.is_string(data_type):
        return (value, value, True) if isinstance(value, str) else None
    if kinds.is_binary(data_type):
        return (value, value, True) if isinstance(value, bytes) else None
    if kinds.is_date(data_type):
        return _date_bounds(value)
    if kinds.is_timestamp(data_type):
        return _time_bounds(value, data_type.tz is not None)
    return None


def _number_bounds(value: int | float | decimal.Decimal, data_type: pa.DataType) -> Bounds | None:
    kinds = pa.types
    if not math.isfinite(value):
        return None
    if kinds.is_floating(data_type):
        kind: Any = np.float32 if kinds.is_float32(data_type) else np.float64
        with np.errstate(over="ignore"):
            near = kind(float(value))
            low, high = np.nextafter(near, kind(-np.inf)), np.nextafter(near, kind(np.inf))
        return float(low), float(high), False
    if isinstance(value, float) and abs(value) > _EXACT_DOUBLE:
        return None
    if kinds.is_integer(data_type):
        low, high = math.floor(value), math.ceil(value)
        return low, high, low == high and not isinstance(value, float)
    if kinds.is_decimal(data_type) and not isinstance(value, float):
        return _decimal_bounds(decimal.Decimal(value), data_type.scale)
    return None


def _decimal_bounds(value: decimal.Decimal, scale: int) -> Bounds | None:
    unit = decimal.Decimal(1).scaleb(-scale)
    with decimal.localcontext() as context:
        context.prec = 100
        try:
            low = value.quantize(unit, decimal.ROUND_FLOOR)
            high = value.quantize(unit, decimal.ROUND_CEILING)
        except decimal.InvalidOperation:
            return None
    return low, high, low == high


def _date_bounds(value: object) -> Bounds | None:
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        return None
    return value, value, True


def _time_bounds(value: object, zoned: bool) -> Bounds | None:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if not isinstance(value, datetime.datetime):
        return None
    if zoned and value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    if not zoned and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value, value, True


def points(ranges: Sequence[Range]) -> list[bytes] | None:
    """The values, if the ranges hold nothing else."""
    found = [item.point for item in ranges]
    return None if None in found else [point for point in found if point is not None]
