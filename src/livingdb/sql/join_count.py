"""How many joins an engine has to put in order at once for a statement.

Engines take subqueries and WITH clauses apart and order the joins of all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

__all__ = ["count_joins"]


def count_joins(tree: exp.Expr, most: int) -> int:
    """The joins of a statement and of what it reads from; `most` and one if there are more.

    What a WITH clause names counts wherever it is read.  The sides of a UNION, and the items after
    SELECT, are planned each by itself: of these the largest counts.
    """
    counted: dict[int, int] = {}
    named: dict[str, int] = {}
    pending = [(tree, False)]
    while pending:
        node, is_entered = pending.pop()
        if not is_entered:
            pending.append((node, True))
            pending += [(child, False) for child in reversed(_children(node))]
            continue
        count = min(_count(node, counted, named), most + 1)
        counted[id(node)] = count
        if isinstance(node, exp.CTE):
            named[node.alias.casefold()] = count
    return counted[id(tree)]


def _children(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node, what it names in a WITH clause before what reads it."""
    return sorted(node.iter_expressions(), key=lambda child: not isinstance(child, exp.With))


def _count(node: exp.Expr, counted: dict[int, int], named: dict[str, int]) -> int:
    def total(children: Iterable[exp.Expr]) -> int:
        return sum(counted[id(child)] for child in children)

    if isinstance(node, exp.Table):
        read = 0 if node.db or node.catalog else named.get(node.name.casefold(), 0)
        return read + total(node.iter_expressions())
    children = [child for child in node.iter_expressions() if not isinstance(child, exp.With)]
    if isinstance(node, exp.SetOperation):
        return max((counted[id(child)] for child in children), default=0)
    if isinstance(node, exp.Select):
        items = {id(item) for item in node.expressions}
        largest = max((counted[item] for item in items), default=0)
        return largest + total(child for child in children if id(child) not in items)
    return total(children) + isinstance(node, exp.Join)
