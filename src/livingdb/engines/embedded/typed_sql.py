"""Type-aware rewrites: operands and results cast to the types Spark gives them.

Without type annotations (see `type_annotations`) nodes are left to `duckdb_dialect` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.decimal_quotient import decimal_quotient
from livingdb.engines.embedded.spark_casts import cast_to_spark_type
from livingdb.engines.portable.type_annotations import annotate_type, annotated_type
from livingdb.engines.spark_types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGERS,
    STRING,
    has_no_type,
    kind_of,
)

__all__ = ["needs_cast", "rewrite_typed"]

_NUMBERS = (*INTEGERS, "decimal", "float", "double")
_NESTED = ("array", "map", "struct")
_TEXT_PARSERS = {
    "binary": "encode",
    "boolean": "spark_boolean_text",
    "date": "spark_text_to_date",
    "decimal": "spark_decimal_text",
    "double": "spark_number_text",
    "float": "spark_number_text",
}
"""How text is read as values of a kind."""
_CALLS = (exp.Filter, exp.Window)
_CHOICES = (exp.Case, exp.Coalesce, exp.Greatest, exp.If, exp.Least, exp.Nullif, exp.Nvl2)


def rewrite_typed(node: exp.Expr, target: pa.DataType) -> exp.Expr | None:
    """The node so that it means what Spark means for these types; None if it does so already."""
    reword = _TYPED_REWRITERS.get(type(node))
    return None if reword is None else reword(node, target)


def needs_cast(node: exp.Expr, target: pa.DataType) -> bool:
    """Whether the result may be of another type in DuckDB, and has to be brought to Spark's."""
    if isinstance(node.parent, _CALLS):
        return False
    if isinstance(node, _CHOICES):
        return _is_cast_when_met(target)
    if isinstance(node, _CALLS):
        return isinstance(_innermost(node), _CAST_NODES)
    return isinstance(node, _CAST_NODES)


def _is_cast_when_met(target: pa.DataType) -> bool:
    """Whether values of several types are brought to a common one that DuckDB may see otherwise."""
    kind = kind_of(target)
    return kind in _NUMBERS or (kind in _NESTED and not has_no_type(target))


def _innermost(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _CALLS):
        node = node.this
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _operand(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    return node if annotated_type(node) in (target, None) else cast_to_spark_type(node, target)


def _arithmetic(node: exp.Binary, target: pa.DataType) -> exp.Expr:
    kind = kind_of(target)
    if kind == "date":
        days = node.expression
        is_interval = isinstance(days, exp.Interval)
        right = days if is_interval else cast_to_spark_type(days, pa.int32())
        return cast_to_spark_type(type(node)(this=node.this, expression=right), DATE)
    if kind not in _NUMBERS:
        return node
    left, right = node.this, node.expression
    if kind != "decimal":
        left, right = _operand(left, target), _operand(right, target)
    elif isinstance(node, exp.Mul):
        left = _widened_factor(left)
    if isinstance(node, exp.Mod) and kind != "decimal":
        return cast_to_spark_type(_call("spark_remainder", left, right), target)
    return cast_to_spark_type(type(node)(this=left, expression=right), target)


def _widened_factor(node: exp.Expr) -> exp.Expr:
    """A factor with room for the digits of a product."""
    data_type = annotated_type(node)
    if data_type is None:
        return node
    scale = data_type.scale if kind_of(data_type) == "decimal" else 0
    return cast_to_spark_type(node, pa.decimal128(38, scale))


def _quotient(node: exp.Div, target: pa.DataType) -> exp.Expr:
    if kind_of(target) == "decimal":
        return decimal_quotient(node.this, node.expression, target)
    return _call("spark_divide", _operand(node.this, DOUBLE), _operand(node.expression, DOUBLE))


def _integer_division(node: exp.IntDiv, target: pa.DataType) -> exp.Expr:
    left, right = (_operand(part, BIGINT) for part in (node.this, node.expression))
    return exp.IntDiv(this=left, expression=right)


def _negative(node: exp.Neg, target: pa.DataType) -> exp.Expr:
    return cast_to_spark_type(node, target) if isinstance(node.this, exp.Literal) else node


def _ceil_or_floor(node: exp.Ceil | exp.Floor, target: pa.DataType) -> exp.Expr:
    kind = kind_of(annotated_type(node.this) or target)
    if kind in INTEGERS:
        return cast_to_spark_type(node.this, target)
    if kind == "decimal":
        return cast_to_spark_type(node, target)
    name = "spark_ceil" if isinstance(node, exp.Ceil) else "spark_floor"
    return _call(name, _operand(node.this, DOUBLE))


def _round(node: exp.Round, target: pa.DataType) -> exp.Expr:
    if target != DOUBLE:
        return cast_to_spark_type(node, target)
    return _call("spark_round", node.this, node.args.get("decimals") or exp.Literal.number(0))


def _call_rewriter(name: str) -> Callable[[Any, pa.DataType], exp.Expr]:
    return lambda node, target: _call(name, node.this)


def _double_call_rewriter(name: str) -> Callable[[Any, pa.DataType], exp.Expr]:
    return lambda node, target: _call(name, _operand(node.this, DOUBLE))


def _logarithm(node: exp.Log, target: pa.DataType) -> exp.Expr:
    return _call(f"spark_log{node.this.name}", _operand(node.expression, DOUBLE))


def _average(node: exp.Avg, target: pa.DataType) -> exp.Expr | None:
    """An average of decimals is a quotient; what filters or windows it does so with both parts."""
    if kind_of(target) != "decimal":
        return None
    return node if isinstance(node.parent, _CALLS) else _decimal_average(node, target)


def _average_call(node: exp.Filter | exp.Window, target: pa.DataType) -> exp.Expr | None:
    is_average = isinstance(_innermost(node), exp.Avg) and kind_of(target) == "decimal"
    if not is_average:
        return None
    return node if isinstance(node.parent, _CALLS) else _decimal_average(node, target)


def _decimal_average(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    """The quotient of sum and count, each called as the average is."""
    parts = []
    summed = pa.decimal128(target.precision + 6, target.scale - 4)
    for kind, data_type in ((exp.Sum, summed), (exp.Count, BIGINT)):
        call = exp.Paren(this=node.copy())
        average = _innermost(call.this)
        average.replace(kind(this=average.this))
        made = cast_to_spark_type(call.this, data_type)
        annotate_type(made, data_type)
        parts.append(made)
    return decimal_quotient(parts[0], parts[1], target)


def _cast(node: exp.Cast, target: pa.DataType) -> exp.Expr:
    """A cast by what is cast: text is read as Spark reads it, fractions are cut off."""
    source = annotated_type(node.this)
    if source is None:
        return node
    one, other = kind_of(source), kind_of(target)
    made = cast_to_spark_type(_cast_operand(node.this, one, other), target)
    return _call("TRY", made) if isinstance(node, exp.TryCast) else made


def _cast_operand(node: exp.Expr, one: str, other: str) -> exp.Expr:
    if one == "string":
        return _parse_text(node, other)
    if other in INTEGERS and one in ("float", "double", "decimal"):
        return _call("trunc", node)
    if other in INTEGERS and one == "timestamp":
        return _call("unix_seconds", node)
    if other == "decimal" and one in ("float", "double"):
        return _call("spark_digits", node)
    if other == "string" and one == "timestamp":
        return cast_to_spark_type(node, pa.timestamp("us"))
    return node


def _parse_text(node: exp.Expr, other: str) -> exp.Expr:
    if other in INTEGERS:
        return _call("spark_integer_text", node)
    return _call(_TEXT_PARSERS[other], node) if other in _TEXT_PARSERS else node


def _anonymous(node: exp.Anonymous, target: pa.DataType) -> exp.Expr | None:
    if node.name.casefold() != "pmod":
        return None
    number, divisor = node.expressions
    return _call("pmod", cast_to_spark_type(number, target), cast_to_spark_type(divisor, target))


def _values(node: exp.Values, target: pa.DataType) -> None:
    """The values of each column in the type that they have in common."""
    for row in node.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        for item, field in zip(items, target, strict=True):
            if annotated_type(item) != field.type and _is_cast_when_met(field.type):
                item.replace(cast_to_spark_type(item.copy(), field.type))


def _array(node: exp.Array, target: pa.DataType) -> None:
    """The items in the type that they have in common."""
    common = target.value_type
    for item in node.expressions if not has_no_type(common) else ():
        if annotated_type(item) not in (common, None, pa.null()):
            item.replace(cast_to_spark_type(item.copy(), common))


def _parameter(node: exp.Placeholder, target: pa.DataType) -> exp.Expr | None:
    """The types that DuckDB does not see in a value."""
    is_seen = kind_of(target) not in ("array", "decimal", "timestamp")
    return None if is_seen else cast_to_spark_type(node, target)


def _reverse(node: exp.Reverse, target: pa.DataType) -> exp.Expr:
    return _call("spark_reverse", node.this) if target == STRING else node


_CAST_NODES = (
    exp.AddMonths,
    exp.BitLength,
    exp.BitwiseAndAgg,
    exp.BitwiseOrAgg,
    exp.BitwiseXorAgg,
    exp.DateDiff,
    exp.DateFromUnixDate,
    exp.Day,
    exp.DayOfMonth,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.DenseRank,
    exp.Extract,
    exp.Hour,
    exp.LastDay,
    exp.Length,
    exp.Minute,
    exp.Month,
    exp.Ntile,
    exp.Quarter,
    exp.Rank,
    exp.RowNumber,
    exp.Second,
    exp.StrPosition,
    exp.Sum,
    exp.TimestampTrunc,
    exp.UnixDate,
    exp.WeekOfYear,
    exp.Year,
)
"""Nodes whose type DuckDB has other ideas about."""
_TYPED_REWRITERS: dict[type[exp.Expr], Callable[[Any, pa.DataType], exp.Expr | None]] = {
    exp.Add: _arithmetic,
    exp.BitwiseAnd: _arithmetic,
    exp.BitwiseOr: _arithmetic,
    exp.BitwiseXor: _arithmetic,
    exp.Anonymous: _anonymous,
    exp.Array: _array,
    exp.Avg: _average,
    exp.Cast: _cast,
    exp.Ceil: _ceil_or_floor,
    exp.Div: _quotient,
    exp.Exp: _double_call_rewriter("exp"),
    exp.Filter: _average_call,
    exp.Floor: _ceil_or_floor,
    exp.IntDiv: _integer_division,
    exp.IsNan: _double_call_rewriter("spark_isnan"),
    exp.Ln: _double_call_rewriter("spark_ln"),
    exp.Log: _logarithm,
    exp.Lower: _call_rewriter("spark_lower"),
    exp.Mod: _arithmetic,
    exp.Mul: _arithmetic,
    exp.Neg: _negative,
    exp.Placeholder: _parameter,
    exp.Reverse: _reverse,
    exp.Round: _round,
    exp.Sign: _double_call_rewriter("spark_sign"),
    exp.Sqrt: _double_call_rewriter("sqrt"),
    exp.Sub: _arithmetic,
    exp.TryCast: _cast,
    exp.Upper: _call_rewriter("spark_upper"),
    exp.Values: _values,
    exp.Window: _average_call,
}
