"""Which portable expressions are *total*: they give a value for all values of their types.

Others are partial: whole numbers and decimals may be too large, nothing divides by zero, and not
every text is a number.  What is not listed here is taken to be partial.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.portability import check_portability
from livingdb.engines.portable.type_annotations import annotated_type
from livingdb.engines.spark_types import INTEGERS, kind_of

__all__ = ["is_never_null", "is_total"]

_LEAVES = (exp.Column, exp.Literal, exp.Null, exp.Boolean)
_CONNECTIVES = (exp.And, exp.Or, exp.Not, exp.Paren, exp.Is)
_TEXT = (
    *(exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.BitLength, exp.Reverse),
    *(exp.Substring, exp.Left, exp.Right, exp.Replace, exp.Concat, exp.DPipe),
    *(exp.StrPosition, exp.Like, exp.StartsWith, exp.EndsWith, exp.Contains, exp.MD5),
)
_DAYS = (
    *(exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfYear, exp.DayOfWeek),
    *(exp.WeekOfYear, exp.Quarter, exp.Hour, exp.Minute, exp.Second),
)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Case, exp.If)
_NULL_SAFE = (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
_FLOATING = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs)
_INEXACT = ("float", "double")
_CASTS: dict[str, tuple[str, ...]] = {
    "boolean": ("string", *INTEGERS, "double"),
    **{kind: ("boolean", "string", *INTEGERS[at:], *_INEXACT) for at, kind in enumerate(INTEGERS)},
    "float": ("double", "boolean"),
    "double": ("string", "boolean"),
    "decimal": ("string", "double", "boolean"),
    "date": ("string",),
    "timestamp": ("date", "timestamp_ntz"),
    "timestamp_ntz": ("date", "timestamp"),
}
"""From a kind to those that it can always be cast to."""


def is_total(expression: exp.Expr, schema: pa.Schema) -> bool:
    """Whether an expression over the columns of a schema gives something for every row."""
    tree = _typed_tree(expression, schema)
    return tree is not None and _is_total(tree)


def is_never_null(expression: exp.Expr, schema: pa.Schema) -> bool:
    """Whether an expression is not null in any row whose NOT NULL columns are not."""
    tree = _typed_tree(expression, schema)
    return tree is not None and _is_never_null(tree, schema)


def _typed_tree(expression: exp.Expr, schema: pa.Schema) -> exp.Expr | None:
    """The expression with the types of its parts noted; None if it is not portable."""
    query = exp.select(exp.alias_(expression.copy(), "value")).from_("row")
    if isinstance(check_portability(query, {"row": schema}), str):
        return None
    found: exp.Expr = query.selects[0].this
    return found


def _is_total(node: exp.Expr) -> bool:
    if isinstance(node, _LEAVES):
        return True
    parts = _parts(node)
    if not all(map(_is_total, parts)):
        return False
    if isinstance(node, exp.TryCast):
        return True
    if isinstance(node, exp.Cast):
        source, target = (annotated_type(each) for each in (node.this, node))
        return source == target or _kind(target) in _CASTS.get(_kind(source), ())
    if isinstance(node, _FLOATING) or (isinstance(node, exp.Div) and _is_nonzero(parts[1])):
        return _kind(annotated_type(node)) in _INEXACT
    if isinstance(node, (*_COMPARISONS, *_CHOICES, *_NULL_SAFE)):
        return _meet_safely(parts)
    return isinstance(node, (*_CONNECTIVES, *_TEXT, *_DAYS))


def _is_nonzero(node: exp.Expr) -> bool:
    """Whether it is a number that one can divide by."""
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0.0


def _is_never_null(node: exp.Expr, schema: pa.Schema) -> bool:
    if isinstance(node, exp.Column):
        return not schema.field(node.name).nullable
    if isinstance(node, (exp.Literal, exp.Boolean, *_NULL_SAFE)):
        return True
    if isinstance(node, (exp.Null, exp.Nullif, exp.TryCast)):
        return False
    if isinstance(node, exp.Coalesce):
        return any(_is_never_null(part, schema) for part in _parts(node))
    if isinstance(node, (exp.Case, exp.If)):
        results = _results(node)
        return results is not None and all(_is_never_null(part, schema) for part in results)
    if isinstance(node, (exp.Cast, *_CONNECTIVES, *_TEXT, *_DAYS, *_COMPARISONS, *_FLOATING)):
        return all(_is_never_null(part, schema) for part in _parts(node))
    return False


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The expressions that an expression is made of."""
    if isinstance(node, exp.Cast):
        return [node.this]
    if isinstance(node, exp.Case):
        whens = [part for each in node.args["ifs"] for part in (each.this, each.args["true"])]
        return [part for part in (node.this, *whens, node.args.get("default")) if part is not None]
    return [part for part in node.iter_expressions() if not isinstance(part, exp.Var)]


def _results(node: exp.Case | exp.If) -> list[exp.Expr] | None:
    """What a choice may give; None if that may be nothing."""
    if isinstance(node, exp.If):
        found = [node.args["true"], node.args.get("false")]
    else:
        found = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
    return None if None in found else found


def _meet_safely(parts: list[exp.Expr]) -> bool:
    """Whether values that meet need no cast that may fail."""
    types = {annotated_type(part) for part in parts}
    groups = {_group(data_type) for data_type in types} - {"boolean", "null"}
    return len(groups) <= 1 and sum(_kind(data_type) == "decimal" for data_type in types) <= 1


def _group(data_type: pa.DataType | None) -> str:
    kind = _kind(data_type)
    return "number" if kind in (*INTEGERS, *_INEXACT) else kind


def _kind(data_type: pa.DataType | None) -> str:
    return "unknown" if data_type is None else kind_of(data_type)
