"""Quotients of decimals: exact, and rounded half up as Spark does, by whole numbers of 128 bits.

DuckDB divides decimals as doubles.  Here the dividend is multiplied by as many tens as the result
has places more, which fit because the result has no more than 38 digits.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.spark_casts import cast_to_spark_type
from livingdb.engines.portable.type_annotations import annotated_type
from livingdb.engines.spark_types import kind_of

__all__ = ["decimal_quotient"]

_PLACES = 39
"""After the point, to which Spark rounds a quotient before it rounds to those of the type."""


def decimal_quotient(left: exp.Expr, right: exp.Expr, target: pa.DataType) -> exp.Expr:
    """One number divided by another, both decimals or integers, in the type Spark gives it."""
    places = target.scale + _scale(right) - _scale(left)
    dividend: exp.Expr = _unscaled(left)
    if places:
        dividend = exp.Mul(this=dividend, expression=_power(places))
    quotient = exp.Anonymous(
        this="spark_decimal_quotient",
        expressions=[dividend, _unscaled(right), _power(_PLACES - target.scale)],
    )
    whole = cast_to_spark_type(quotient, pa.decimal128(38, 0))
    unit = exp.Literal.string("0." + "0" * (target.scale - 1) + "1")
    small = cast_to_spark_type(unit, pa.decimal128(target.scale, target.scale))
    return cast_to_spark_type(exp.Mul(this=whole, expression=small), target)


def _scale(node: exp.Expr) -> int:
    data_type = annotated_type(node)
    return data_type.scale if data_type is not None and kind_of(data_type) == "decimal" else 0


def _unscaled(node: exp.Expr) -> exp.Expr:
    """A decimal as a whole number, without its point."""
    data_type, scale = annotated_type(node), _scale(node)
    if data_type is None or not scale:
        return _huge(exp.Paren(this=node))
    if data_type.precision + scale < 38:
        tens = cast_to_spark_type(_number(scale), pa.decimal128(scale + 1, 0))
        exact = cast_to_spark_type(node, pa.decimal128(38, scale))
        return _huge(exp.Paren(this=exp.Mul(this=exact, expression=tens)))
    text = cast_to_spark_type(cast_to_spark_type(node, data_type), pa.string())
    empty, point = exp.Literal.string(""), exp.Literal.string(".")
    return _huge(exp.Anonymous(this="replace", expressions=[text, point, empty]))


def _huge(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("HUGEINT", "duckdb"))


def _power(places: int) -> exp.Expr:
    return _huge(_number(places))


def _number(places: int) -> exp.Expr:
    return exp.Literal.string("1" + "0" * places)
