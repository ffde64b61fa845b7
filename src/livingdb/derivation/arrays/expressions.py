"""Expressions of exact types as operations on Arrow arrays, with exactly Spark's meaning.

Numbers are integers and decimals, beside them texts, dates, moments and truth values.  An
expression is taken only where every part of it is known here; what overflows is an error of
Arrow's, upon which the caller asks an engine, which says what is wrong as engines do.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.derivation.compiler.query_trees import columns_in
from livingdb.engines.portable.type_annotations import annotated_type

__all__ = ["ARRAY_ERRORS", "ArrayExpression", "ColumnRef", "Columns", "array_expression"]

ColumnRef: TypeAlias = tuple[str, str]
"""A source and a column of it."""
Value: TypeAlias = Any
"""An array, or a scalar that stands for one."""
Columns: TypeAlias = Callable[[str, str], pa.Array]
"""Finds the column of a source."""
Evaluate: TypeAlias = Callable[[Columns], Value]

ARRAY_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError)
"""What is raised where an engine has to say what a value is, or what is wrong with it."""

_WIDE_DIGITS = 76
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class _NotInArraysError(Exception):
    """A part of an expression is not known here."""


@dataclass(frozen=True)
class ArrayExpression:
    """An expression that arrays answer; `text` is the same for all that say the same.

    In `text` the only source has no name, so that it can be compared between queries.
    """

    type: pa.DataType
    columns: frozenset[ColumnRef]
    text: str
    evaluate: Evaluate

    @property
    def sources(self) -> frozenset[str]:
        """The sources it speaks of."""
        return frozenset(name for name, _ in self.columns)


def array_expression(node: exp.Expr) -> ArrayExpression | None:
    """The expression, whose parts have notes of their types; None if an engine is needed."""
    kind = annotated_type(node)
    if kind is None:
        return None
    try:
        evaluate = _compile(node)
    except _NotInArraysError:
        return None
    return ArrayExpression(kind, frozenset(columns_in(node)), _text(node), evaluate)


def _text(node: exp.Expr) -> str:
    made = node.copy()
    if len({name for name, _ in columns_in(made)}) == 1:
        for column in made.find_all(exp.Column):
            column.set("table", None)
    return str(made.sql("spark"))


def _compile(node: exp.Expr) -> Evaluate:
    rule = _RULES.get(type(node))
    if rule is None:
        raise _NotInArraysError
    return rule(node)


def _kind(node: exp.Expr) -> pa.DataType:
    found = annotated_type(node)
    if found is None:
        raise _NotInArraysError
    return found


# --- leaves ------------------------------------------------------------------------------------


def _column(node: exp.Expr) -> Evaluate:
    source, name = node.text("table"), node.name
    return lambda columns: columns(source, name)


def _literal(node: exp.Expr) -> Evaluate:
    return _constant(node, _kind(node))


def _constant(node: exp.Expr, kind: pa.DataType, sign: int = 1) -> Evaluate:
    text = str(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        found = _text_literal(text, kind)
    elif pa.types.is_integer(kind) and text.isdigit():
        found = pa.scalar(sign * int(text), kind)
    elif pa.types.is_decimal(kind):
        found = pa.scalar(sign * decimal.Decimal(text), kind)
    else:
        raise _NotInArraysError
    return lambda columns: found


def _text_literal(text: str, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind):
        return pa.scalar(text, kind)
    if not pa.types.is_date32(kind) or not _DAY.fullmatch(text):
        raise _NotInArraysError
    try:
        return pa.scalar(datetime.date.fromisoformat(text), kind)
    except ValueError:
        raise _NotInArraysError from None


def _boolean(node: exp.Expr) -> Evaluate:
    found = pa.scalar(bool(node.this))
    return lambda columns: found


def _inner(node: exp.Expr) -> Evaluate:
    return _compile(node.this)


# --- numbers -----------------------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_decimal128(kind))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Digits in all and behind the point that hold every number of a type."""
    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (19, 0)


def _as_type(node: exp.Expr, target: pa.DataType) -> Evaluate:
    """An expression, its values in another type that can hold them."""
    made, kind = _compile(node), _kind(node)
    if kind == target:
        return made
    if not (_is_number(kind) and (_is_number(target) or pa.types.is_decimal256(target))):
        raise _NotInArraysError
    if pa.types.is_integer(target) and not pa.types.is_integer(kind):
        raise _NotInArraysError
    return lambda columns: made(columns).cast(target)


def _negation(node: exp.Expr) -> Evaluate:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _constant(node.this, _kind(node), -1)
    made = _compile(node.this)
    if not pa.types.is_signed_integer(_kind(node)) or _kind(node) != _kind(node.this):
        raise _NotInArraysError
    return lambda columns: pc.negate_checked(made(columns))


def _arithmetic(node: exp.Expr) -> Evaluate:
    target = _kind(node)
    kinds = [_kind(side) for side in (node.this, node.expression)]
    if not all(map(_is_number, kinds)):
        raise _NotInArraysError
    if pa.types.is_integer(target):
        one, other = (_as_type(side, target) for side in (node.this, node.expression))
        calculate = _CHECKED[type(node)]
        return lambda columns: calculate(one(columns), other(columns))
    return _decimal_arithmetic(node, target, kinds)


def _decimal_arithmetic(node: exp.Expr, target: pa.DataType, kinds: list[pa.DataType]) -> Evaluate:
    """Exact in 256 bits; where Spark would round, an engine does."""
    scales = [_digits(kind)[1] for kind in kinds]
    is_product = isinstance(node, exp.Mul)
    scale = sum(scales) if is_product else max(scales)
    widths = [_digits(kind)[0] for kind in kinds]
    if not pa.types.is_decimal128(target) or scale != target.scale or sum(widths) >= _WIDE_DIGITS:
        raise _NotInArraysError
    sides = zip((node.this, node.expression), widths, scales, strict=True)
    one, other = (_as_type(side, pa.decimal256(width, own)) for side, width, own in sides)
    calculate = _PLAIN[type(node)]
    return lambda columns: calculate(one(columns), other(columns)).cast(target)


def _quotient(node: exp.Expr) -> Evaluate:
    """Whole numbers divided as floats; by zero, an engine is asked."""
    sides = node.this, node.expression
    is_whole = all(pa.types.is_signed_integer(_kind(side)) for side in sides)
    if not is_whole or not pa.types.is_float64(_kind(node)):
        raise _NotInArraysError
    one, other = (_compile(side) for side in sides)

    def divide(columns: Columns) -> Value:
        above, below = one(columns), other(columns)
        if pc.any(pc.and_(pc.equal(below, pa.scalar(0, below.type)), pc.is_valid(above))).as_py():
            raise pa.ArrowInvalid("divide by zero")
        return pc.divide(above.cast(pa.float64()), below.cast(pa.float64()))

    return divide


def _cast(node: exp.Expr) -> Evaluate:
    """To a wider type of whole numbers, or to what it is already."""
    target, kind = _kind(node), _kind(node.this)
    if type(node) is not exp.Cast:
        raise _NotInArraysError
    is_whole = pa.types.is_signed_integer(target) and pa.types.is_signed_integer(kind)
    if target != kind and not (is_whole and target.bit_width > kind.bit_width):
        raise _NotInArraysError
    if isinstance(node.this.unnest(), exp.Literal):
        raise _NotInArraysError
    return _as_type(node.this, target)


# --- truth -------------------------------------------------------------------------------------


def _meeting(kinds: list[pa.DataType]) -> pa.DataType:
    """The type in which values are compared exactly."""
    first = kinds[0]
    if all(kind == first for kind in kinds):
        if pa.types.is_floating(first) or pa.types.is_nested(first) or pa.types.is_null(first):
            raise _NotInArraysError
        return first
    if not all(map(_is_number, kinds)):
        raise _NotInArraysError
    if all(map(pa.types.is_integer, kinds)):
        return pa.int64()
    scale = max(_digits(kind)[1] for kind in kinds)
    whole = max(width - own for width, own in map(_digits, kinds))
    return pa.decimal256(whole + scale, scale)


def _comparison(node: exp.Expr) -> Evaluate:
    sides = node.this, node.expression
    meeting = _meeting([_kind(side) for side in sides])
    one, other = (_as_type(side, meeting) for side in sides)
    compare = _COMPARE[type(node)]
    return lambda columns: compare(one(columns), other(columns))


def _between(node: exp.Expr) -> Evaluate:
    if node.args.get("symmetric"):
        raise _NotInArraysError
    sides = node.this, node.args["low"], node.args["high"]
    meeting = _meeting([_kind(side) for side in sides])
    value, low, high = (_as_type(side, meeting) for side in sides)

    def evaluate(columns: Columns) -> Value:
        found = value(columns)
        return pc.and_kleene(
            pc.greater_equal(found, low(columns)), pc.less_equal(found, high(columns))
        )

    return evaluate


def _membership(node: exp.Expr) -> Evaluate:
    """Among literals, none of them null."""
    items = node.args.get("expressions") or []
    given = {name for name, value in node.args.items() if value}
    plain = all(isinstance(item.unnest(), (exp.Literal, exp.Neg)) for item in items)
    if given != {"this", "expressions"} or not plain:
        raise _NotInArraysError
    meeting = _meeting([_kind(each) for each in (node.this, *items)])
    value = _as_type(node.this, meeting)
    known = [_as_type(item, meeting)(_no_columns).as_py() for item in items]
    among = pa.array(known, meeting)

    def evaluate(columns: Columns) -> Value:
        found = value(columns)
        inside = pc.is_in(found, value_set=among)
        return pc.if_else(pc.is_valid(found), inside, pa.scalar(None, pa.bool_()))

    return evaluate


def _no_columns(source: str, name: str) -> pa.Array:
    raise _NotInArraysError


def _both(node: exp.Expr) -> Evaluate:
    one, other = _truth(node.this), _truth(node.expression)
    combine = pc.and_kleene if isinstance(node, exp.And) else pc.or_kleene
    return lambda columns: combine(one(columns), other(columns))


def _opposite(node: exp.Expr) -> Evaluate:
    made = _truth(node.this)
    return lambda columns: pc.invert(made(columns))


def _truth(node: exp.Expr) -> Evaluate:
    if not pa.types.is_boolean(_kind(node)):
        raise _NotInArraysError
    return _compile(node)


def _null_test(node: exp.Expr) -> Evaluate:
    if not isinstance(node.expression, exp.Null):
        raise _NotInArraysError
    made = _compile(node.this)
    return lambda columns: pc.is_null(made(columns))


# --- choices -----------------------------------------------------------------------------------


def _choice(node: exp.Expr) -> Evaluate:
    """CASE with conditions; all results are of its type, or whole numbers or decimals."""
    if node.args.get("this") is not None:
        raise _NotInArraysError
    target = _kind(node)
    cases = [(_truth(part.this), _as_type(part.args["true"], target)) for part in node.args["ifs"]]
    default = node.args.get("default") or exp.Null()
    last = None if isinstance(default.unnest(), exp.Null) else _as_type(default, target)
    nothing = pa.scalar(None, target)

    def evaluate(columns: Columns) -> Value:
        found = nothing if last is None else last(columns)
        for condition, result in reversed(cases):
            holds = pc.fill_null(condition(columns), False)
            found = pc.if_else(holds, result(columns), found)
        return found

    return evaluate


def _first_value(node: exp.Expr) -> Evaluate:
    target = _kind(node)
    parts = [_as_type(part, target) for part in (node.this, *node.args.get("expressions", ()))]
    return lambda columns: pc.coalesce(*(part(columns) for part in parts))


_CHECKED: Mapping[type[exp.Expr], Any] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_PLAIN: Mapping[type[exp.Expr], Any] = {exp.Add: pc.add, exp.Sub: pc.subtract, exp.Mul: pc.multiply}
_COMPARE: Mapping[type[exp.Expr], Any] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
}
_RULES: Mapping[type[exp.Expr], Callable[[exp.Expr], Evaluate]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Paren: _inner,
    exp.Neg: _negation,
    **dict.fromkeys(_CHECKED, _arithmetic),
    exp.Div: _quotient,
    exp.Cast: _cast,
    **dict.fromkeys(_COMPARE, _comparison),
    exp.Between: _between,
    exp.In: _membership,
    exp.And: _both,
    exp.Or: _both,
    exp.Not: _opposite,
    exp.Is: _null_test,
    exp.Case: _choice,
    exp.Coalesce: _first_value,
}
