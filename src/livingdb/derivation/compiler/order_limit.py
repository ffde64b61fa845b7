"""ORDER BY and LIMIT: an order alone means nothing in a view; with a limit it chooses rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.name_resolution import Scope
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.top_rows import LaterRows, TopRows
from livingdb.derivation.plan import Unplannable
from livingdb.derivation.weighted_rows import is_groupable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Block, Compiler

__all__ = ["add_limit_stage", "apply_limit", "is_limited", "with_settled_ties"]


def is_limited(tree: exp.Expr) -> bool:
    """Whether a query gives only some of its rows."""
    return tree.args.get("limit") is not None or tree.args.get("offset") is not None


def with_settled_ties(query: exp.Query, kinds: Sequence[pa.DataType]) -> exp.Query:
    """The query with rows that are alike in its order by all its columns, as stages have them."""
    if not is_limited(query) or not all(is_groupable(kind) for kind in kinds):
        return query
    made = query.copy()
    order = made.args.get("order")
    ties = [
        exp.Ordered(this=exp.Literal.number(at + 1), nulls_first=True) for at in range(len(kinds))
    ]
    given = [] if order is None else order.expressions
    made.set("order", exp.Order(expressions=[*given, *ties]))
    return made


def apply_limit(compiler: Compiler, block: Block, tree: exp.Expr, scope: Scope) -> Block:
    """The rows of a set operation that its LIMIT leaves."""
    if not is_limited(tree):
        return block
    order = tree.args.get("order")
    items = []
    for item in order.expressions if order is not None else ():
        place = item.this
        made = item.copy()
        if isinstance(place, exp.Literal) and place.name.isdecimal():
            made.set("this", trees.column("", block.names[int(place.name) - 1][1]))
        else:
            for node in list(made.find_all(exp.Column)):
                node.replace(scope.column(node))
        items.append(made)
    return add_limit_stage(compiler, block, tree, items)


def add_limit_stage(
    compiler: Compiler, block: Block, tree: exp.Expr, order: Sequence[exp.Expr]
) -> Block:
    """A stage of the rows that are chosen, which is kept if all its columns have an order."""
    from livingdb.derivation.compiler.query_compiler import Block

    for clause in ("limit", "offset"):
        part = tree.args.get(clause)
        if part is not None and not isinstance(part, (exp.Limit, exp.Offset)):
            raise Unplannable("UNSUPPORTED_CLAUSE")
    items = [item.copy() for item in order]
    for item in items:
        for node in item.find_all(exp.Column):
            node.set("table", exp.to_identifier("r", quoted=True))
    limit, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"))
    kinds = [block.node.types.get(name) for name in block.node.columns]
    if limit is None or not all(kind is not None and is_groupable(kind) for kind in kinds):
        return _add_full_stage(compiler, block, tree, items)
    compiler.note("order by … limit", "touched")
    rows = _candidates(compiler, block.node)
    made = compiler.add_stage(TopRows(rows, items, limit + (offset or 0)))
    if offset:
        made = compiler.add_stage(LaterRows(made, items, limit, offset))
    return Block(made, block.names)


def _number(clause: exp.Expr | None) -> int | None:
    """How many rows LIMIT or OFFSET says, if it is a number."""
    count = None if clause is None else clause.expression
    is_number = isinstance(count, exp.Literal) and not count.is_string and count.name.isdecimal()
    return int(count.name) if is_number and count is not None else None


def _candidates(compiler: Compiler, node: Node) -> Node:
    """The rows to choose from: a stage, unless they are as easily read from what is stored."""
    is_plain = isinstance(node, Leaf) or (isinstance(node, LinearBlock) and len(node.sources) == 1)
    is_stored = is_plain and all(isinstance(below, Leaf) for below in node.inputs().values())
    return node if is_stored else compiler.add_stage(node)


def _add_full_stage(
    compiler: Compiler, block: Block, tree: exp.Expr, order: Sequence[exp.Expr]
) -> Block:
    """A stage that is answered in full, over the stage of the rows it chooses from."""
    from livingdb.derivation.compiler.query_compiler import Block

    source, reads = compiler.full_source(block.node, "r")
    columns = [column for _, column in block.names]
    query = exp.Select(
        expressions=[trees.with_alias(trees.column("r", name), name) for name in columns]
    )
    query.set("from_", exp.From(this=source))
    if order:
        query.set("order", exp.Order(expressions=list(order)))
    for clause in ("limit", "offset"):
        part = tree.args.get(clause)
        if part is not None:
            query.set(clause, part.copy())
    key = block.node.key
    if key is not None and not (key and set(key) <= set(columns)):
        key = None
    compiler.note("order by … limit", "full", "TOP_K")
    made = compiler.add_full_stage(query, reads, columns, key, "TOP_K")
    return Block(made, block.names)
