"""Nodes in DuckDB's words where their types are known: operands and results in Spark's types.

Without notes of types (see `notes`) nodes are left to `duckdb_text` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.type_annotations import noted
from livingdb.engines.spark_types import BIGINT, DATE, DOUBLE, INTEGERS, STRING, kind_of

__all__ = ["exact", "given", "is_given"]

_NAMES = {
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "double": "DOUBLE",
    "float": "REAL",
    "int": "INT",
    "smallint": "SMALLINT",
    "string": "TEXT",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "tinyint": "TINYINT",
}
_NUMBERS = (*INTEGERS, "decimal", "float", "double")
_READ = {
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


def exact(node: exp.Expr, target: pa.DataType) -> exp.Expr | None:
    """The node so that it means what Spark means for these types; None if it does so already."""
    reword = _EXACT.get(type(node))
    return None if reword is None else reword(node, target)


def is_given(node: exp.Expr, target: pa.DataType) -> bool:
    """Whether the result may be of another type in DuckDB, and has to be brought to Spark's."""
    if isinstance(node.parent, _CALLS):
        return False
    if isinstance(node, _CHOICES):
        return kind_of(target) in _NUMBERS
    if isinstance(node, _CALLS):
        return isinstance(_innermost(node), _GIVEN)
    return isinstance(node, _GIVEN)


def _innermost(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _CALLS):
        node = node.this
    return node


def given(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    """The node's result in Spark's type."""
    kind = kind_of(target)
    name = f"DECIMAL({target.precision}, {target.scale})" if kind == "decimal" else _NAMES[kind]
    return exp.Cast(this=node, to=exp.DataType.build(name, "duckdb"))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _operand(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    return node if noted(node) in (target, None) else given(node, target)


def _arithmetic(node: exp.Binary, target: pa.DataType) -> exp.Expr:
    kind = kind_of(target)
    if kind == "date":
        days = node.expression
        is_interval = isinstance(days, exp.Interval)
        right = days if is_interval else given(days, pa.int32())
        return given(type(node)(this=node.this, expression=right), DATE)
    if kind not in _NUMBERS:
        return node
    left, right = node.this, node.expression
    if kind != "decimal":
        left, right = _operand(left, target), _operand(right, target)
    elif isinstance(node, exp.Mul):
        left = _wide(left)
    if isinstance(node, exp.Mod) and kind != "decimal":
        return given(_call("spark_remainder", left, right), target)
    return given(type(node)(this=left, expression=right), target)


def _wide(node: exp.Expr) -> exp.Expr:
    """A factor with room for the digits of a product."""
    data_type = noted(node)
    if data_type is None:
        return node
    scale = data_type.scale if kind_of(data_type) == "decimal" else 0
    return given(node, pa.decimal128(38, scale))


def _quotient(node: exp.Div, target: pa.DataType) -> exp.Expr:
    return _call("spark_divide", _operand(node.this, DOUBLE), _operand(node.expression, DOUBLE))


def _whole_quotient(node: exp.IntDiv, target: pa.DataType) -> exp.Expr:
    left, right = (_operand(part, BIGINT) for part in (node.this, node.expression))
    return exp.IntDiv(this=left, expression=right)


def _negative(node: exp.Neg, target: pa.DataType) -> exp.Expr:
    return given(node, target) if isinstance(node.this, exp.Literal) else node


def _next_whole(node: exp.Ceil | exp.Floor, target: pa.DataType) -> exp.Expr:
    kind = kind_of(noted(node.this) or target)
    if kind in INTEGERS:
        return given(node.this, target)
    if kind == "decimal":
        return given(node, target)
    name = "spark_ceil" if isinstance(node, exp.Ceil) else "spark_floor"
    return _call(name, _operand(node.this, DOUBLE))


def _rounded(node: exp.Round, target: pa.DataType) -> exp.Expr:
    if target != DOUBLE:
        return given(node, target)
    return _call("spark_round", node.this, node.args.get("decimals") or exp.Literal.number(0))


def _named(name: str) -> Callable[[Any, pa.DataType], exp.Expr]:
    return lambda node, target: _call(name, node.this)


def _of_double(name: str) -> Callable[[Any, pa.DataType], exp.Expr]:
    return lambda node, target: _call(name, _operand(node.this, DOUBLE))


def _logarithm(node: exp.Log, target: pa.DataType) -> exp.Expr:
    return _call(f"spark_log{node.this.name}", _operand(node.expression, DOUBLE))


def _cast(node: exp.Cast, target: pa.DataType) -> exp.Expr:
    """A cast by what is cast: text is read as Spark reads it, fractions are cut off."""
    source = noted(node.this)
    if source is None:
        return node
    one, other = kind_of(source), kind_of(target)
    made = given(_source(node.this, one, other), target)
    return _call("TRY", made) if isinstance(node, exp.TryCast) else made


def _source(node: exp.Expr, one: str, other: str) -> exp.Expr:
    if one == "string":
        return _read(node, other)
    if other in INTEGERS and one in ("float", "double", "decimal"):
        return _call("trunc", node)
    if other in INTEGERS and one == "timestamp":
        return _call("unix_seconds", node)
    if other == "decimal" and one in ("float", "double"):
        return _call("spark_digits", node)
    if other == "string" and one == "timestamp":
        return given(node, pa.timestamp("us"))
    return node


def _read(node: exp.Expr, other: str) -> exp.Expr:
    if other in INTEGERS:
        return _call("spark_integer_text", node)
    return _call(_READ[other], node) if other in _READ else node


def _anonymous(node: exp.Anonymous, target: pa.DataType) -> exp.Expr | None:
    if node.name.casefold() != "pmod":
        return None
    number, divisor = node.expressions
    return _call("pmod", given(number, target), given(divisor, target))


def _reversed(node: exp.Reverse, target: pa.DataType) -> exp.Expr:
    return _call("spark_reverse", node.this) if target == STRING else node


_GIVEN = (
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
_EXACT: dict[type[exp.Expr], Callable[[Any, pa.DataType], exp.Expr | None]] = {
    exp.Add: _arithmetic,
    exp.BitwiseAnd: _arithmetic,
    exp.BitwiseOr: _arithmetic,
    exp.BitwiseXor: _arithmetic,
    exp.Anonymous: _anonymous,
    exp.Cast: _cast,
    exp.Ceil: _next_whole,
    exp.Div: _quotient,
    exp.Exp: _of_double("exp"),
    exp.Floor: _next_whole,
    exp.IntDiv: _whole_quotient,
    exp.IsNan: _of_double("spark_isnan"),
    exp.Ln: _of_double("spark_ln"),
    exp.Log: _logarithm,
    exp.Lower: _named("spark_lower"),
    exp.Mod: _arithmetic,
    exp.Mul: _arithmetic,
    exp.Neg: _negative,
    exp.Reverse: _reversed,
    exp.Round: _rounded,
    exp.Sign: _of_double("spark_sign"),
    exp.Sqrt: _of_double("sqrt"),
    exp.Sub: _arithmetic,
    exp.TryCast: _cast,
    exp.Upper: _named("spark_upper"),
}
