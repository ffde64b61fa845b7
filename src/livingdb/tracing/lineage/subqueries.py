"""Queries inside expressions, and whether what they read makes a row be there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from livingdb.derivation.column_lineage.normalize_query import relations_of

__all__ = ["InnerQuery", "inner_queries"]


@dataclass(frozen=True)
class InnerQuery:
    """A query inside an expression; `compared` is what IN looks for in it."""

    query: exp.Expr
    compared: tuple[exp.Expr, ...] = ()


def inner_queries(select: exp.Select) -> Iterator[InnerQuery]:
    """The queries in a SELECT's expressions whose rows its own rows are there because of.

    Rows that a condition wants to be absent are not among them.
    """
    conditions: list[exp.Expr] = []
    for clause in ("where", "having", "qualify"):
        found = select.args.get(clause)
        if found is not None:
            conditions.append(found.this)
    for _, join in relations_of(select):
        if join is not None and join.args.get("on") is not None:
            conditions.append(join.args["on"])
    for condition in conditions:
        yield from _in_condition(condition, True)
    for item in (*select.expressions, *_groups(select)):
        yield from _in_value(item)


def _groups(select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    return [] if group is None else list(group.expressions)


def _in_condition(node: exp.Expr, positive: bool) -> Iterator[InnerQuery]:
    """Those in a condition that has to be true, or false if it is not `positive`."""
    if isinstance(node, (exp.And, exp.Or)):
        yield from _in_condition(node.this, positive)
        yield from _in_condition(node.expression, positive)
    elif isinstance(node, exp.Paren):
        yield from _in_condition(node.this, positive)
    elif isinstance(node, exp.Not):
        yield from _in_condition(node.this, not positive)
    elif isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        if positive:
            yield from _in_value(node)
        elif isinstance(node, exp.In):
            yield from _in_value(node.this)
    elif _compares_all(node):
        return
    else:
        yield from _in_value(node)


def _compares_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Binary) and isinstance(node.expression, exp.All)


def _in_value(node: exp.Expr) -> Iterator[InnerQuery]:
    """All of those in an expression whose value matters."""
    if isinstance(node, exp.Exists):
        yield InnerQuery(node.this)
        return
    if isinstance(node, exp.In) and node.args.get("query"):
        left = node.this
        while isinstance(left, exp.Paren):
            left = left.this
        compared = left.expressions if isinstance(left, exp.Tuple) else [left]
        yield InnerQuery(node.args["query"], tuple(compared))
        yield from _in_value(node.this)
        return
    if isinstance(node, exp.Query):
        yield InnerQuery(node)
        return
    for child in node.iter_expressions():
        yield from _in_value(child)
