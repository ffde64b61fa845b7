"""ORDER BY and LIMIT: an order alone means nothing in a view; with a limit it chooses rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.name_resolution import Scope
from livingdb.derivation.plan import Unplannable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Block, Compiler

__all__ = ["add_limit_stage", "apply_limit", "is_limited"]


def is_limited(tree: exp.Expr) -> bool:
    """Whether a query gives only some of its rows."""
    return tree.args.get("limit") is not None or tree.args.get("offset") is not None


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
    """A stage that is answered in full, over the stage of the rows it chooses from."""
    from livingdb.derivation.compiler.query_compiler import Block

    for clause in ("limit", "offset"):
        part = tree.args.get(clause)
        if part is not None and not isinstance(part, (exp.Limit, exp.Offset)):
            raise Unplannable("UNSUPPORTED_CLAUSE")
    source, reads = compiler.full_source(block.node, "r")
    columns = [column for _, column in block.names]
    query = exp.Select(
        expressions=[trees.with_alias(trees.column("r", name), name) for name in columns]
    )
    query.set("from_", exp.From(this=source))
    if order:
        items = [item.copy() for item in order]
        for item in items:
            for node in item.find_all(exp.Column):
                node.set("table", exp.to_identifier("r", quoted=True))
        query.set("order", exp.Order(expressions=items))
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
