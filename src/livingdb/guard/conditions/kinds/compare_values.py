"""Values of columns held against values that conditions name, type by type."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData

__all__ = [
    "check_pattern",
    "comparable_values",
    "is_full_match",
    "is_outside",
    "lengths",
    "to_plain",
]

kinds = pa.types


def to_plain(value: object, name: str) -> object:
    """A value as it can be written down: decimals, dates and times as text."""
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if value is None or (isinstance(value, (bool, int, float, str)) and is_finite):
        return value
    raise InvalidData(f"{name}: {value!r} is no text, number, date or time")


def comparable_values(values: Sequence[object], data_type: pa.DataType, column: str) -> pa.Array:
    """Values in the type of a column; those that no value of it can equal are left out."""
    made = [_cast_value(value, data_type, column) for value in values]
    return pa.array([one for one in made if one is not None], data_type)


def _cast_value(value: object, data_type: pa.DataType, column: str) -> Any:
    try:
        number = _to_decimal(value, data_type, column)
        if number is not None:
            if kinds.is_integer(data_type) and number != int(number):
                return None
            value = int(number) if kinds.is_integer(data_type) else number
            if kinds.is_floating(data_type):
                value = float(number)
        else:
            value = _cast_non_number(value, data_type, column)
        return pa.scalar(value, data_type).as_py()
    except (pa.ArrowInvalid, OverflowError):
        return None


def _to_decimal(value: object, data_type: pa.DataType, column: str) -> Decimal | None:
    """A number for a column of numbers; None for other columns."""
    is_number = (
        kinds.is_integer(data_type) or kinds.is_floating(data_type) or kinds.is_decimal(data_type)
    )
    if not is_number:
        return None
    if isinstance(value, bool):
        raise _misfit(value, data_type, column)
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise _misfit(value, data_type, column) from None
    if not number.is_finite():
        raise _misfit(value, data_type, column)
    return number


def _cast_non_number(value: object, data_type: pa.DataType, column: str) -> object:
    """A text, a date, a time or a truth, as the column has them."""
    if isinstance(value, str):
        try:
            if kinds.is_date(data_type):
                return datetime.date.fromisoformat(value)
            if kinds.is_timestamp(data_type):
                return _parse_time(value, data_type)
        except ValueError:
            raise _misfit(value, data_type, column) from None
        if kinds.is_string(data_type):
            return value
        if kinds.is_binary(data_type):
            return value.encode()
    if isinstance(value, bool) and kinds.is_boolean(data_type):
        return value
    raise _misfit(value, data_type, column)


def _parse_time(value: str, data_type: pa.DataType) -> datetime.datetime:
    """A time; one without a zone is meant as the column's are, or in UTC."""
    found = datetime.datetime.fromisoformat(value)
    if data_type.tz is None:
        return (
            found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
        )
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def _misfit(value: object, data_type: pa.DataType, column: str) -> InvalidData:
    return InvalidData(f"{value!r} cannot be compared with {column!r}, which is {data_type}")


def is_outside(values: pa.Array, least: object, most: object, column: str) -> Any:
    """Which values are less than one or more than another; NaN is outside of every range."""
    found = pc.is_nan(values) if kinds.is_floating(values.type) else values.is_null()
    if least is not None:
        edge = _bound_scalar(least, values.type, column, ROUND_CEILING)
        found = pc.or_kleene(found, edge is _HIGH if _is_far(edge) else pc.less(values, edge))
    if most is not None:
        edge = _bound_scalar(most, values.type, column, ROUND_FLOOR)
        found = pc.or_kleene(found, edge is _LOW if _is_far(edge) else pc.greater(values, edge))
    return found


_LOW, _HIGH = object(), object()
"""Bounds below and above all that a column can hold."""


def _is_far(edge: object) -> bool:
    return edge is _LOW or edge is _HIGH


def _bound_scalar(value: object, data_type: pa.DataType, column: str, rounding: str) -> Any:
    """A bound in the type of a column, rounded to a value that the column can hold."""
    number = _to_decimal(value, data_type, column)
    if number is None:
        return pa.scalar(_cast_non_number(value, data_type, column), data_type)
    if kinds.is_floating(data_type):
        return pa.scalar(float(number), pa.float64())
    is_whole = kinds.is_integer(data_type)
    far = _LOW if number < 0 else _HIGH
    digits = 20 if is_whole else data_type.precision
    if number.adjusted() > digits:
        return far
    unit = Decimal(1).scaleb(0 if is_whole else -data_type.scale)
    with localcontext(prec=2 * digits + 100):
        held = number.quantize(unit, rounding)
    try:
        return pa.scalar(int(held) if is_whole else held, data_type)
    except (pa.ArrowInvalid, OverflowError):
        return far


def lengths(values: pa.Array, column: str) -> pa.Array:
    """How many characters texts have, bytes bytes, and lists items."""
    if kinds.is_string(values.type):
        return pc.utf8_length(values)
    if kinds.is_binary(values.type):
        return pc.binary_length(values)
    if kinds.is_list(values.type):
        return pc.list_value_length(values)
    raise InvalidData(f"{column!r} is {values.type}, which has no length")


def check_pattern(pattern: object) -> None:
    """`InvalidData` for what is no regular expression."""
    if not isinstance(pattern, str):
        raise InvalidData(f"matches: a regular expression is text, not {pattern!r}")
    try:
        for text in (pattern, _full_match_pattern(pattern)):
            pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid as error:
        raise InvalidData(f"matches: {pattern!r} is no regular expression: {error}") from None


def _full_match_pattern(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def is_full_match(values: pa.Array, pattern: str, column: str) -> Any:
    """Which texts a regular expression matches as a whole."""
    if not kinds.is_string(values.type):
        raise InvalidData(f"{column!r} is {values.type}, and a pattern is for texts")
    return pc.match_substring_regex(values, _full_match_pattern(pattern))
