"""Values as a column's type: what fits without loss is taken, everything else refused.

    boolean    booleans
    integers   integers, and floats and decimals that are whole
    floats     integers, floats, decimals
    decimals   integers, decimals with no more digits, floats rounded to the scale
    string     text
    binary     bytes and text
    date       dates, timestamps at midnight, text
    timestamp  timestamps with (or without) a zone as the column has, dates, text

Lists, structs and maps take the same of their parts.  A struct may leave out fields, which
are then null, and may have none that the column does not have.  What is taken reads at once
as it reads when it is stored: -0.0 is 0.0, and the entries of a map are sorted by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask, short_list
from livingdb.chunks.canonical import canonical_values
from livingdb.chunks.types import normalise_array
from livingdb.errors import BrokenConstraint, InvalidData
from livingdb.tables.tabular import Values
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from livingdb.tables.schema import Column

__all__ = ["fit"]

Mask = npt.NDArray[np.bool_]
kinds = pa.types


def fit(values: Values, column: Column, absent: Mask | None = None) -> pa.Array:
    """The values as the column's type; `InvalidData` says which row does not fit, and why.

    `absent` rows do not name the column: they may be null even where it is NOT NULL.
    """
    if isinstance(values, list):
        array = _fit_plain(values, column)
    else:
        array = _fit_typed(values, column.type, column.name)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        row = _first_bad(len(array), lambda stop: _compact(array, stop).validate(full=True))
        raise InvalidData(f"column {column.name!r}, row {row}: {error}") from None
    array = canonical_values(array, column.name)
    if array.null_count and not column.nullable:
        wrong = as_mask(array.is_null())
        wrong = wrong if absent is None else wrong & ~absent
        if not wrong.any():
            return array
        row = int(wrong.argmax())
        raise BrokenConstraint(
            f"column {column.name!r}, row {row}: null, but the column is NOT NULL"
        )
    return array


def _first_bad(rows: int, attempt: Callable[[int], object]) -> int:
    """The first row with which an attempt on so many rows fails, by bisection."""
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            attempt(middle)
        except (pa.ArrowException, InvalidData, TypeError, ValueError, OverflowError):
            high = middle
        else:
            low = middle
    return low


def _compact(array: pa.Array, stop: int) -> pa.Array:
    """The first rows, without what others hold."""
    return array.take(pa.array(np.arange(stop)))


# --- typed values ---------------------------------------------------------------------------


def _fit_typed(values: pa.Array | pa.ChunkedArray, target: pa.DataType, name: str) -> pa.Array:
    if kinds.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    given = values.type
    if kinds.is_null(given):
        return pa.nulls(len(values), target)
    why = _refusal(given, target)
    if why is not None:
        raise InvalidData(f"column {name!r}: {given} does not fit {type_name(target)}: {why}")
    if kinds.is_decimal(target) and kinds.is_integer(given):
        values = values.cast(pa.decimal256(20 + target.scale, target.scale))
    array = normalise_array(values, target, name)
    lost = _lossy_rows(values, array)
    if lost is not None:
        row = pc.index(lost, pa.scalar(True)).as_py()
        if row >= 0:
            shown = values[row].as_py()
            raise InvalidData(
                f"column {name!r}, row {row}: {shown!r} does not fit {type_name(target)}"
            )
    return array


def _lossy_rows(values: pa.Array | pa.ChunkedArray, array: pa.Array) -> pa.Array | None:
    """Which values a cast changed without a word."""
    if kinds.is_timestamp(values.type) and kinds.is_date(array.type):
        return pc.not_equal(values, array.cast(values.type))
    if kinds.is_float32(array.type) and not kinds.is_float32(values.type):
        finite = values if kinds.is_floating(values.type) else values.cast(pa.float64())
        return pc.and_(pc.is_inf(array), pc.invert(pc.is_inf(finite)))
    return None


def _refusal(given: pa.DataType, target: pa.DataType) -> str | None:
    """Why values of a type are not taken as another; None if they are."""
    if given == target or kinds.is_null(given):
        return None
    if kinds.is_struct(target):
        return _struct_refusal(given, target)
    if kinds.is_map(target):
        if not kinds.is_map(given):
            return "it is no map"
        return _refusal(given.key_type, target.key_type) or _refusal(
            given.item_type, target.item_type
        )
    if kinds.is_list(target):
        inner = getattr(given, "value_type", None)
        if kinds.is_map(given) or inner is None:
            return "it is no list"
        return _refusal(inner, target.value_type)
    for takes, families in _TAKES:
        if takes(target):
            taken = any(family(given) for family in families)
            return None if taken else "these are values of another kind"
    return None


def _struct_refusal(given: pa.DataType, target: pa.DataType) -> str | None:
    if not kinds.is_struct(given):
        return "it is no struct"
    types = {inner.name: inner.type for inner in target}
    for inner in given:
        if inner.name not in types:
            return f"the column has no field {inner.name!r}"
        why = _refusal(inner.type, types[inner.name])
        if why is not None:
            return why
    return None


def _is_text(data_type: pa.DataType) -> bool:
    return bool(
        kinds.is_string(data_type)
        or kinds.is_large_string(data_type)
        or kinds.is_string_view(data_type)
    )


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        kinds.is_binary(data_type)
        or kinds.is_large_binary(data_type)
        or kinds.is_binary_view(data_type)
        or (kinds.is_fixed_size_binary(data_type) and not kinds.is_decimal(data_type))
    )


Family = Callable[[pa.DataType], bool]
_NUMBERS: tuple[Family, ...] = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
_TAKES: tuple[tuple[Family, tuple[Family, ...]], ...] = (
    (kinds.is_boolean, (kinds.is_boolean,)),
    (kinds.is_integer, _NUMBERS),
    (kinds.is_floating, _NUMBERS),
    (kinds.is_decimal, _NUMBERS),
    (_is_text, (_is_text,)),
    (_is_bytes, (_is_bytes, _is_text)),
    (kinds.is_date, (kinds.is_date, kinds.is_timestamp, _is_text)),
    (kinds.is_timestamp, (kinds.is_timestamp, kinds.is_date, _is_text)),
)


# --- plain values ---------------------------------------------------------------------------


def _fit_plain(values: list[Any], column: Column) -> pa.Array:
    try:
        return _plain_array(values, column.type, column.name)
    except (
        pa.ArrowException,
        InvalidData,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ):
        row = _first_bad(
            len(values), lambda stop: _plain_array(values[:stop], column.type, column.name)
        )
        raise InvalidData(
            f"column {column.name!r}, row {row}: {_shown(values[row])} does not fit "
            f"{type_name(column.type)}{_zone_advice(values[row], column.type)}"
        ) from None


def _shown(value: object) -> str:
    """The beginning of a value, as messages have it."""
    try:
        return f"{value!r:.80}"
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply"


def _zone_advice(value: object, target: pa.DataType) -> str:
    """What to do about a time that has a zone where the column has none, or the other way round."""
    if not isinstance(value, datetime) or not kinds.is_timestamp(target):
        return ""
    if value.tzinfo is None and target.tz is not None:
        return (
            ": it has no time zone; give it one, as in value.replace(tzinfo=datetime.UTC), or "
            "make the column a timestamp_ntz"
        )
    if value.tzinfo is not None and target.tz is None:
        return ": it has a time zone and the column has none; make that a timestamp"
    return ""


def _plain_array(values: Sequence[Any], target: pa.DataType, name: str) -> pa.Array:
    """Python values as an array; an error of any of the kinds above if they do not fit."""
    if kinds.is_map(target):
        return _maps(values, target, name)
    if kinds.is_list(target):
        inner, offsets = _flatten_values(values, (list, tuple, np.ndarray))
        made = _plain_array(inner, target.value_type, name)
        return pa.ListArray.from_arrays(offsets, made, type=target)
    if kinds.is_struct(target):
        return _structs(values, target, name)
    if kinds.is_decimal(target) and not any(isinstance(value, float) for value in values):
        return pa.array(values, target)
    given = short_list(values)
    return _fit_typed(pa.array(values) if given is None else given, target, name)


def _flatten_values(values: Sequence[Any], takes: tuple[type, ...]) -> tuple[list[Any], pa.Array]:
    """What the values hold, one after the other, and where each begins (null for None)."""
    for value in values:
        if value is not None and not isinstance(value, takes):
            raise TypeError(f"{type(value).__name__} is no list")
    present = np.fromiter((value is not None for value in values), bool, len(values))
    lengths = np.fromiter((0 if v is None else len(v) for v in values), np.int64, len(values))
    offsets = np.append(0, np.cumsum(lengths))
    inner = list(chain.from_iterable(value for value in values if value is not None))
    return inner, pa.array(offsets, pa.int32(), mask=np.append(~present, False))


def _maps(values: Sequence[Any], target: pa.DataType, name: str) -> pa.Array:
    pairs = [list(v.items()) if isinstance(v, Mapping) else v for v in values]
    inner, offsets = _flatten_values(pairs, (list, tuple))
    keys = _plain_array([key for key, _ in inner], target.key_type, name)
    items = _plain_array([item for _, item in inner], target.item_type, name)
    return pa.MapArray.from_arrays(offsets, keys, items, type=target)


def _structs(values: Sequence[Any], target: pa.DataType, name: str) -> pa.Array:
    fields = [inner.name for inner in target]
    for value in values:
        if value is not None and not (isinstance(value, Mapping) and set(value) <= set(fields)):
            raise TypeError(f"{value!r:.80} is no struct of {', '.join(fields)}")
    absent: Mask = np.fromiter((v is None for v in values), bool, len(values))
    parts = [
        _plain_array([None if v is None else v.get(inner.name) for v in values], inner.type, name)
        for inner in target
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=pa.array(absent))
