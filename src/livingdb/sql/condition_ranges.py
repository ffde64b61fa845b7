"""From conditions to ranges: what a WHERE says about the columns of one table.

Only comparisons of a column with values count, joined by AND and OR.  Each of them is false or
null where the column is null, so that rows outside the ranges never pass the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.value_ranges import (
    Ranges,
    comparison_ranges,
    intersect_ranges,
    prefix_ranges,
    union_ranges,
)
from livingdb.sql.comparison import comparison_of
from livingdb.sql.parameters import constant
from livingdb.tables.schema import Column

__all__ = ["Owner", "ranges_of", "ranges_of_all"]

Owner: TypeAlias = Callable[[exp.Column], Column | None]
"""Tells the column of the table that a name in the condition stands for; None if of another."""

ColumnRanges: TypeAlias = dict[str, Ranges]

_MAX_DEPTH = 200


def ranges_of(
    condition: exp.Expr | None,
    owner: Owner,
    parameters: Mapping[str, object],
    depth: int = 0,
) -> ColumnRanges:
    """The ranges in which a row's columns lie if the condition holds for it."""
    if condition is None or depth > _MAX_DEPTH:
        return {}
    if isinstance(condition, (exp.Paren, exp.Where)):
        return ranges_of(condition.this, owner, parameters, depth + 1)
    if isinstance(condition, exp.And):
        wanted: ColumnRanges = {}
        for part in condition.flatten():
            wanted = _intersect_columns(wanted, ranges_of(part, owner, parameters, depth + 1))
        return wanted
    if isinstance(condition, exp.Or):
        parts = [ranges_of(part, owner, parameters, depth + 1) for part in condition.flatten()]
        common = set(parts[0]).intersection(*parts[1:])
        return {name: union_ranges(part[name] for part in parts) for name in common}
    column, ranges = _comparison(condition, owner, parameters)
    return {} if column is None or ranges is None else {column.name: ranges}


def ranges_of_all(
    conditions: Iterable[exp.Expr], owner: Owner, parameters: Mapping[str, object]
) -> ColumnRanges:
    """The ranges in which a row's columns lie if all the conditions hold for it."""
    wanted: ColumnRanges = {}
    for condition in conditions:
        wanted = _intersect_columns(wanted, ranges_of(condition, owner, parameters))
    return wanted


def _intersect_columns(first: ColumnRanges, second: ColumnRanges) -> ColumnRanges:
    both = {**first, **second}
    for name in set(first) & set(second):
        both[name] = intersect_ranges(first[name], second[name])
    return both


def _comparison(
    node: exp.Expr, owner: Owner, parameters: Mapping[str, object]
) -> tuple[Column | None, Ranges | None]:
    """A column and where it lies if the comparison holds."""
    compared_with = comparison_of(node)
    if compared_with is not None and compared_with.operator != "<>":
        column = owner(compared_with.column)
        if column is None:
            return None, None
        operator = "=" if compared_with.operator == "<=>" else compared_with.operator
        return column, _constant_ranges(column.type, operator, compared_with.operand, parameters)
    column = owner(node.this) if isinstance(node.this, exp.Column) else None
    if column is None:
        return None, None
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = _constant_ranges(column.type, ">=", node.args["low"], parameters)
        high = _constant_ranges(column.type, "<=", node.args["high"], parameters)
        if low is None or high is None:
            return column, low if high is None else high
        return column, intersect_ranges(low, high)
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        items = [_constant_ranges(column.type, "=", item, parameters) for item in node.expressions]
        known = [item for item in items if item is not None]
        return column, union_ranges(known) if len(known) == len(items) else None
    if isinstance(node, exp.Like):
        return column, _like(column, constant(node.expression, parameters))
    return None, None


def _constant_ranges(
    data_type: pa.DataType,
    operator: str,
    node: exp.Expr,
    parameters: Mapping[str, object],
) -> Ranges | None:
    value = constant(node, parameters)
    return None if value is None else comparison_ranges(data_type, operator, value)


def _like(column: Column, pattern: object) -> Ranges | None:
    """The strings that start as the pattern does before its first wildcard."""
    if not isinstance(pattern, str) or "\\" in pattern:
        return None
    stem = pattern.split("%", 1)[0].split("_", 1)[0]
    return prefix_ranges(column.type, stem)
