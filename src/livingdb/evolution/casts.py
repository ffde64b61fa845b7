"""Casts as Spark makes them in ANSI mode, for many values at once, and which of them can fail.

to an integer    fractions are cut off; out of range fails
to a float       rounded; a double too large for a float fails
to a decimal     rounded half up; too many digits fail
to text          always possible, but for bytes that are no text
from text        fails where Spark cannot read the value
booleans         0 and 1; every other number is true
dates, times     a timestamp's date in UTC; a date's midnight in UTC

A value *fits* the target if the cast takes it and loses nothing: cast back it is what it was.
Text fits if it can be read without leaving out digits or a time of day.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.sql.expressions import Expression
from livingdb.tables.type_names import type_name
from livingdb.trees.compare import choose, differs

__all__ = ["Cast"]

kinds = pa.types
_WIDE_DIGITS = 76
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class Cast:
    """A cast between two chunk types."""

    source: pa.DataType
    target: pa.DataType

    @property
    def is_known(self) -> bool:
        """Whether there is such a cast."""
        source, target = _family(self.source), _family(self.target)
        return target in _CASTS.get(source, ())

    @property
    def is_total(self) -> bool:
        """Whether it never fails."""
        source, target = self.source, self.target
        if kinds.is_string(target):
            return not kinds.is_binary(source)
        if kinds.is_string(source):
            return bool(kinds.is_binary(target))
        if kinds.is_integer(target) or kinds.is_decimal(target):
            return _fits(source, target)
        return not (kinds.is_float32(target) and kinds.is_float64(source))

    @property
    def is_exact(self) -> bool:
        """Whether it never fails and keeps numbers what they are: checks say the same of both."""
        source, target = self.source, self.target
        whole = kinds.is_integer(source) and (kinds.is_integer(target) or kinds.is_decimal(target))
        finer = (
            kinds.is_decimal(source) and kinds.is_decimal(target) and source.scale <= target.scale
        )
        return bool(whole or finer) and self.is_total

    @property
    def is_lossless(self) -> bool:
        """Whether every value fits."""
        source, target = self.source, self.target
        if kinds.is_string(source) or kinds.is_string(target) or not self.is_total:
            return self.is_total
        if kinds.is_boolean(target):
            return bool(kinds.is_boolean(source))
        if kinds.is_floating(target):
            return _is_float_exact(source, target)
        if kinds.is_integer(target) or kinds.is_decimal(target):
            scale = target.scale if kinds.is_decimal(target) else 0
            return not kinds.is_decimal(source) or source.scale <= scale
        return not (kinds.is_timestamp(source) and kinds.is_date(target))

    @property
    def is_of_one_kind(self) -> bool:
        """Whether both are numbers, texts or times of some type, or else the same."""
        source, target = _family(self.source), _family(self.target)
        return self.source == self.target or (source == target and source in _CASTS)

    @property
    def can_clamp(self) -> bool:
        """Whether values that fail have a nearest one that does not."""
        return {_family(self.source), _family(self.target)} <= {"number", "boolean"}

    def values(self, given: pa.Array) -> tuple[pa.Array, Mask]:
        """The values cast, and where that failed; they are null there."""
        made = self._function()(given, self.target)
        if made.null_count == given.null_count:  # what is null stays so
            return made, np.zeros(len(given), bool)
        nulls = made.is_null().to_numpy(zero_copy_only=False)
        failed: Mask = nulls & given.is_valid().to_numpy(zero_copy_only=False)
        return made, failed

    def fitting_values(self, given: pa.Array) -> tuple[pa.Array, Mask]:
        """The values cast, and where they do not fit; they are null there."""
        made, failed = self.values(given)
        are_integers = kinds.is_integer(self.source) and kinds.is_integer(self.target)
        if are_integers or self.is_lossless:  # of which one fails or is what it was
            return made, failed
        unfit = failed | (self._lost(given, made) & ~failed)
        if unfit.any():
            made = pc.if_else(pa.array(unfit), pa.scalar(None, self.target), made)
        return made, unfit

    def truncated_values(self, given: pa.Array) -> tuple[pa.Array, Mask]:
        """The values cast, digits and times of day that do not fit left out; where that fails."""
        if not kinds.is_decimal(self.target) or kinds.is_boolean(self.source):
            return self.values(given)
        if kinds.is_string(self.source):
            wide = pa.decimal128(38, min(38, self.target.scale + 6))
            read, failed = Cast(self.source, wide).values(given)
            made, unfit = Cast(wide, self.target).truncated_values(read)
            return made, failed | unfit
        made, failed = self.values(given)
        if kinds.is_decimal(self.source):
            made = _to_decimal(given, self.target, "towards_zero")
        elif kinds.is_floating(self.source):
            made = _towards_zero(given, made)
        return made, failed & made.is_null().to_numpy(zero_copy_only=False)

    def _lost(self, given: pa.Array, made: pa.Array) -> Mask:
        """Where something of a value is lost."""
        if kinds.is_string(self.source):
            return _lost_text(given, made)
        back = Cast(self.target, self.source).values(made)[0]
        lost: Mask = differs(back, given)
        return lost

    def clamped_values(self, given: pa.Array) -> pa.Array:
        """The values cast, the nearest ones where that fails, and zero for NaN."""
        made, failed = self.values(given)
        if not failed.any():
            return made
        floats = given.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        low, zero, high = _extremes(self.target)
        nearest = pa.array([low, zero, high], self.target)
        at = np.nan_to_num(np.sign(floats)).astype(np.int64) + 1
        return pc.if_else(pa.array(failed), nearest.take(pa.array(at)), made)

    def _function(self) -> Callable[[pa.Array, pa.DataType], pa.Array]:
        source, target = self.source, self.target
        if _family(source) == "text" or _family(target) == "text":
            return _cast_by_engine if not kinds.is_binary(target) else _cast_by_arrow
        if kinds.is_boolean(target):
            return _to_boolean
        if kinds.is_boolean(source):
            return _from_boolean
        if kinds.is_integer(target):
            return _to_integer
        if kinds.is_floating(target):
            return _to_float
        if kinds.is_decimal(target):
            return _floats_to_decimal if kinds.is_floating(source) else _to_decimal
        return _to_timestamp if kinds.is_timestamp(target) else _to_date


def _family(data_type: pa.DataType) -> str:
    if kinds.is_integer(data_type) or kinds.is_floating(data_type) or kinds.is_decimal(data_type):
        return "number"
    if kinds.is_timestamp(data_type) or kinds.is_date(data_type):
        return "time"
    if kinds.is_boolean(data_type):
        return "boolean"
    if kinds.is_string(data_type):
        return "text"
    return "binary" if kinds.is_binary(data_type) else "nested"


_CASTS = {
    "number": ("number", "boolean", "text"),
    "boolean": ("number", "text"),
    "text": ("number", "boolean", "time", "binary"),
    "time": ("time", "text"),
    "binary": ("text",),
}


def _extremes(target: pa.DataType) -> tuple[object, object, object]:
    """The least value, zero and the greatest value of a type of numbers."""
    if kinds.is_integer(target):
        high = 2 ** (target.bit_width - 1) - 1
        return -high - 1, 0, high
    if kinds.is_decimal(target):
        most = Decimal(f"{'9' * target.precision}E-{target.scale}")
        return most.copy_negate(), Decimal(0), most
    most_float = float(np.finfo(np.float32 if kinds.is_float32(target) else np.float64).max)
    return -most_float, 0.0, most_float


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type of numbers is in the range of an integer or decimal."""
    if kinds.is_floating(source):
        return False
    if kinds.is_integer(source) and kinds.is_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if kinds.is_boolean(source):
        most = Fraction(1)
    elif kinds.is_decimal(source) and kinds.is_decimal(target) and source.scale > target.scale:
        most = Fraction(10) ** (source.precision - source.scale)  # rounding may carry
    else:
        most = Fraction(str(_extremes(source)[2]))
    room = Fraction(str(_extremes(target)[2]))
    return most <= room if kinds.is_decimal(target) else most < room + 1


def _is_float_exact(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type of numbers is one of a type of floats."""
    is_single = kinds.is_float32(target)
    if kinds.is_floating(source):
        return not is_single or bool(kinds.is_float32(source))
    if kinds.is_integer(source):
        return bool(source.bit_width <= (16 if is_single else 32))
    if kinds.is_decimal(source):
        return bool(source.precision <= (6 if is_single else 15))
    return True


def _lost_text(given: pa.Array, made: pa.Array) -> Mask:
    """Where the number or moment that a text is has more to it than what was read."""
    if kinds.is_decimal(made.type):
        exact = Cast(pa.string(), pa.decimal128(38, min(38, made.type.scale + 6))).values(given)[0]
        wide = made.cast(pa.decimal256(_WIDE_DIGITS, exact.type.scale))
        unequal = pc.not_equal(exact.cast(wide.type), wide)
    elif kinds.is_date(made.type):
        moment = Cast(pa.string(), pa.timestamp("us")).values(given)[0]
        unequal = pc.not_equal(moment, made.cast(pa.timestamp("us")))
    else:
        return np.zeros(len(given), bool)
    lost: Mask = unequal.fill_null(False).to_numpy(zero_copy_only=False)
    return lost


def _towards_zero(given: pa.Array, rounded: pa.Array) -> pa.Array:
    """Decimals that floats were rounded to, one unit less where that was away from zero."""
    floats = rounded.cast(pa.float64())
    beyond = pc.greater(pc.abs(floats), pc.abs(given.cast(pa.float64()))).fill_null(False)
    unit = pa.scalar(Decimal(1).scaleb(-rounded.type.scale), rounded.type)
    wide = pa.decimal256(_WIDE_DIGITS - 2, rounded.type.scale)
    less = pc.subtract(pc.abs(rounded).cast(wide), unit.cast(wide))
    less = pc.if_else(pc.less(floats, 0.0), pc.negate(less), less)
    nearer = pc.if_else(beyond, less, pa.scalar(None, less.type)).cast(rounded.type)
    return choose(rounded, nearer, beyond.to_numpy(zero_copy_only=False))


def _cast_by_engine(given: pa.Array, target: pa.DataType) -> pa.Array:
    rows = pa.table({"given": given})
    name = "timestamp" if getattr(target, "tz", None) else type_name(target)
    made = Expression(f"try(CAST(given AS {name}))").values(rows)
    if kinds.is_date(target):
        return _cast_within(made.cast(pa.int32()), _FIRST_DAY, _LAST_DAY, target)
    if kinds.is_timestamp(target):
        first, last = (day * _DAY_MICROSECONDS for day in (_FIRST_DAY, _LAST_DAY + 1))
        return _cast_within(made.cast(pa.int64()), first, last - 1, target)
    return made.cast(target)


def _cast_by_arrow(given: pa.Array, target: pa.DataType) -> pa.Array:
    return given.cast(target)


def _to_date(given: pa.Array, target: pa.DataType) -> pa.Array:
    return given.cast(pa.timestamp("us")).cast(target)


def _to_timestamp(given: pa.Array, target: pa.DataType) -> pa.Array:
    return given.cast(pa.timestamp("us")).cast(pa.int64()).cast(target)


def _to_boolean(given: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.not_equal(given, _zero(given.type))


def _from_boolean(given: pa.Array, target: pa.DataType) -> pa.Array:
    numbers = given.cast(pa.int8())
    return _to_decimal(numbers, target) if kinds.is_decimal(target) else numbers.cast(target)


def _to_float(given: pa.Array, target: pa.DataType) -> pa.Array:
    made = given.cast(target, safe=False)
    if not (kinds.is_float32(target) and kinds.is_float64(given.type)):
        return made
    lost = pc.and_(pc.is_inf(made), pc.is_finite(given))
    return pc.if_else(lost, pa.scalar(None, target), made)


def _to_integer(given: pa.Array, target: pa.DataType) -> pa.Array:
    low, _, high = _extremes(target)
    if kinds.is_decimal(given.type):
        wide = given.cast(pa.decimal256(_WIDE_DIGITS, given.type.scale))
        wide = pc.round(wide, 0, round_mode="towards_zero").cast(pa.decimal128(38, 0))
        wide = _cast_within(wide, low, high, pa.int64())
        return wide.cast(target)
    if kinds.is_integer(given.type):
        with suppress(pa.ArrowInvalid):  # for one that does not fit, or lies under a null
            return given.cast(target)
        return _cast_within(given.cast(pa.int64()), low, high, target)
    floats = np.trunc(given.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))
    inside = (floats >= -(2.0 ** (target.bit_width - 1))) & (floats < 2.0 ** (target.bit_width - 1))
    inside &= given.is_valid().to_numpy(zero_copy_only=False)
    whole = np.where(inside, floats, 0).astype(np.int64)
    return pa.array(whole, pa.int64(), mask=~inside).cast(target)


def _to_decimal(
    given: pa.Array, target: pa.DataType, round_mode: str = "half_towards_infinity"
) -> pa.Array:
    low, _, high = _extremes(target)
    room = pa.decimal256(_WIDE_DIGITS, target.scale)
    if kinds.is_integer(given.type):
        wide = given.cast(pa.decimal256(20, 0)).cast(room)
    else:
        scale = max(given.type.scale, target.scale)
        wide = given.cast(pa.decimal256(_WIDE_DIGITS, scale))
        wide = pc.round(wide, target.scale, round_mode=round_mode).cast(room)
    return _cast_within(wide, low, high, target)


def _floats_to_decimal(given: pa.Array, target: pa.DataType) -> pa.Array:
    """By way of the shortest text, as Spark does it; digits past the scale are no failure."""
    tiny = pc.less(pc.abs(given), min(0.5, 10.0 ** (17 - target.scale)))
    made = _cast_by_engine(_cast_by_engine(given, pa.string()), target)
    small = pc.if_else(tiny, given, pa.scalar(0.0, given.type)).cast(pa.float64())
    digits = small.cast(pa.decimal256(_WIDE_DIGITS, target.scale)).cast(target)
    return pc.if_else(pc.and_(made.is_null(), tiny.fill_null(False)), digits, made)


def _zero(data_type: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if kinds.is_decimal(data_type) else 0, data_type)


def _cast_within(values: pa.Array, low: object, high: object, target: pa.DataType) -> pa.Array:
    """The values from one bound to the other as another type; null for the others.

    Those are made zero first: Arrow's casts look at what lies under a null.
    """
    least, most = (pa.scalar(bound, values.type) for bound in (low, high))
    inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
    inside = inside.fill_null(False)
    made = pc.if_else(inside, values, _zero(values.type)).cast(target)
    return pc.if_else(inside, made, pa.scalar(None, target))
