"""Correlated subqueries: what they correlate on, and finding them in expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.aggregates import aggregates_in
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Node
from livingdb.derivation.plan import Unplannable

__all__ = [
    "CorrelatedQuery",
    "block_expression",
    "has_only_aggregates",
    "is_monotone",
    "is_simple",
    "kept_keys",
    "queries_in",
]


@dataclass(frozen=True)
class CorrelatedQuery:
    """A query that depends on the row: its rows, and what is equal to what.

    `pairs` are expressions of the outer row and columns of the rows `r`; `rest` are further
    conditions.  `value` is what a query for one value gives; without it, rows are looked for.
    """

    rows: Node
    pairs: Sequence[tuple[exp.Expr, str]]
    rest: Sequence[exp.Expr]
    value: exp.Expr | None = None

    def query(self) -> exp.Expr:
        """The query over the relation `r`; `l` has the row, and `k_…` what is equal in it."""
        conditions: list[exp.Expr] = [
            exp.EQ(this=trees.column("r", column), expression=trees.column("l", f"k_{at}"))
            for at, (_, column) in enumerate(self.pairs)
        ]
        where = trees.and_all([*conditions, *self.rest])
        item = self.value or exp.Literal.number(1)
        made = exp.Select(expressions=[item.copy()], where=exp.Where(this=where))
        made.set("from_", exp.From(this=trees.table("r", "r")))
        return exp.Exists(this=made) if self.value is None else exp.Subquery(this=made)


def block_expression(
    expression: exp.Expr, flow: Flow, name: str, columns: Sequence[str] = ()
) -> exp.Expr:
    """An expression over the columns of a block that the flow was closed to.

    What is among its columns already is not calculated again.
    """
    whole = exp.Paren(this=expression.copy())
    for node in list(whole.find_all(exp.Column)):
        if f"{node.table}_{node.name}" in columns:
            node.replace(trees.column(name, f"{node.table}_{node.name}"))
    root = exp.Paren(this=flow.substitute(trees.unwrap(whole)))
    for node in list(root.find_all(exp.Column)):
        if node.table in flow.sources:
            node.replace(trees.column(name, f"{node.table}_{node.name}"))
    return trees.unwrap(root)


def kept_keys(left: LinearBlock, shown: Sequence[str], usable: Sequence[int]) -> dict[str, int]:
    items = dict(left.projections)
    found = {}
    for at, number in enumerate(usable):
        for column in shown:
            if items[column] == items[f"k_{number}"]:
                found[column] = at
    return found


def queries_in(root: exp.Expr) -> Iterator[exp.Expr]:
    """The queries in an expression that are not in others and not prepared yet."""
    for child in root.iter_expressions():
        if isinstance(child, (exp.Any, exp.All)) and child.find(exp.Query) is not None:
            raise Unplannable("QUANTIFIED")
        if isinstance(child, exp.Subquery):
            if trees.is_resolved(child):
                continue
            yield child
        elif (isinstance(child, exp.Exists) and not isinstance(child.expression, exp.Lambda)) or (
            isinstance(child, exp.In) and child.args.get("query") is not None
        ):
            yield child
        else:
            yield from queries_in(child)


def is_monotone(node: exp.Expr, root: exp.Expr) -> bool:
    """Whether it is the same for a condition if the node is null or false."""
    above = node.parent
    while above is not None and above is not root:
        if not isinstance(above, (exp.And, exp.Or, exp.Paren)):
            return False
        above = above.parent
    return True


def is_simple(query: exp.Select, kind: str) -> bool:
    plain = {"expressions", "from_", "joins", "where"}
    if kind != "scalar":
        plain |= {"distinct", "order"}
    return not any(value and key not in plain for key, value in query.args.items())


def has_only_aggregates(item: exp.Expr) -> bool:
    """Whether a value is made of aggregates alone."""
    inside = {id(node) for call in aggregates_in(item) for node in call.find_all(exp.Column)}
    some = any(True for _ in aggregates_in(item))
    return some and all(id(node) in inside for node in item.find_all(exp.Column))
