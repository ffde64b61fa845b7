"""Requested rows as predicates on the expressions that make them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees

__all__ = ["NOTHING", "RequestedRows", "is_comparable", "one_of_condition"]

NOTHING = exp.false()
"""The condition that no row meets."""

_CLOSE = "1e-9"


@dataclass(frozen=True)
class RequestedRows:
    """Rows of a query's answer: values of some of its columns, which are told by position."""

    rows: pa.Table
    positions: tuple[int, ...]

    def select_columns(self, positions: Sequence[int]) -> RequestedRows:
        """Some of the columns."""
        places = [self.positions.index(position) for position in positions]
        return RequestedRows(self.rows.select(places), tuple(positions))


def is_comparable(kind: pa.DataType) -> bool:
    """Whether values of the type can be compared for equality in SQL."""
    return not (pa.types.is_map(kind) or pa.types.is_null(kind))


def one_of_condition(
    expressions: Sequence[exp.Expr], rows: pa.Table, name: str, nulls_match_all: bool = False
) -> exp.Expr:
    """The condition that the expressions have the values of one of the rows; null is null here.

    `name` is the relation that holds the rows if there are several; its columns are `c0`, `c1`, ….
    `nulls_match_all`: a null among the rows stands for every value.
    """
    if not rows.num_rows:
        return NOTHING.copy()
    if not expressions:
        return exp.true()
    if rows.num_rows == 1:
        parts = [
            _value_condition(expression, rows.column(place)[0], nulls_match_all)
            for place, expression in enumerate(expressions)
        ]
        if all(part is not None for part in parts):
            return trees.and_all([part for part in parts if part is not None]) or exp.true()
    conditions: list[exp.Expr] = []
    for place, expression in enumerate(expressions):
        value = trees.column(name, f"c{place}")
        same = _equal_condition(expression, value, rows.schema.field(place).type)
        if nulls_match_all:
            empty = exp.Is(this=value.copy(), expression=exp.Null())
            same = exp.Paren(this=exp.Or(this=same, expression=empty))
        conditions.append(same)
    inner = exp.select(exp.Literal.number(1)).from_(trees.table(name, name))
    return exp.Exists(this=inner.where(trees.and_all(conditions)))


def _equal_condition(expression: exp.Expr, value: exp.Expr, kind: pa.DataType) -> exp.Expr:
    left = _parenthesize(expression)
    same = exp.NullSafeEQ(this=left, expression=value)
    if not pa.types.is_floating(kind) or isinstance(expression, exp.Column):
        return same
    # Sums of floats depend on the order of the rows in their last places.
    gap = exp.Abs(this=exp.Sub(this=left.copy(), expression=value.copy()))
    size = exp.Abs(this=value.copy())
    bound = exp.Mul(this=exp.Cast(this=exp.Literal.string(_CLOSE), to=_double()), expression=size)
    return exp.Paren(this=exp.Or(this=same, expression=exp.LTE(this=gap, expression=bound)))


def _double() -> exp.DataType:
    return exp.DataType.build("double", dialect="spark")


def _parenthesize(expression: exp.Expr) -> exp.Expr:
    made = expression.copy()
    return made if isinstance(made, exp.Column) else exp.Paren(this=made)


def _value_condition(
    expression: exp.Expr, value: pa.Scalar, nulls_match_all: bool
) -> exp.Expr | None:
    """The condition that an expression is a value that can be written out; None if it cannot."""
    left = _parenthesize(expression)
    if not value.is_valid:
        if nulls_match_all:
            return exp.true()
        return exp.Is(this=left, expression=exp.Null())
    literal = _literal(value.as_py())
    return None if literal is None else exp.EQ(this=left, expression=literal)


def _literal(value: object) -> exp.Expr | None:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        number: exp.Expr = exp.Literal.number(abs(value))
        if abs(value) >= 2**63:
            return None
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, str):
        plain = value.isprintable() and "\\" not in value and "'" not in value
        return exp.Literal.string(value) if plain else None
    if type(value) is datetime.date:
        text = exp.Literal.string(value.isoformat())
        return exp.Cast(this=text, to=exp.DataType.build("date", dialect="spark"))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        number = exp.Literal.number(f"{abs(value):f}")
        return exp.Neg(this=number) if value < 0 else number
    return None
