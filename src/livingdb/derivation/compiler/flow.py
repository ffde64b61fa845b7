"""A flow: the inner joins and predicates of a SELECT gathered so far, until they become one linear
block.

Inner joins and conditions gather in it until something needs them as one block.  Expressions keep
speaking of the relations in FROM; `substitute` puts the columns in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node

__all__ = ["Flow"]

_NO_COLUMN = "_1"
"""What stands for a row of which no column matters."""


class Flow:
    """Sources under inner joins, with conditions."""

    def __init__(self, fresh: Callable[[], str], constants: Mapping[str, Leaf]):
        self.sources: dict[str, Node] = {}
        self.conditions: list[exp.Expr] = []
        self.laterals: list[exp.Expr] = []
        self.places: dict[tuple[str, str], exp.Expr] = {}
        self.values: dict[str, exp.Expr] = {}
        self.fresh_name = fresh
        self.constants = constants

    def add(self, relation: str, node: Node) -> None:
        """Join a node; what is linear itself becomes part of this block."""
        if not isinstance(node, LinearBlock) or not _is_inlinable(node):
            self.sources[relation] = node
            return
        renamed = {name: self.fresh_name() for name in node.sources}
        for name, source in node.sources.items():
            self.sources[renamed[name]] = source
        for condition in node.conditions:
            self.conditions.append(_rename_relations(condition, renamed))
        for name, item in node.projections:
            self.places[relation, name] = _rename_relations(item, renamed)

    def where(self, condition: exp.Expr) -> None:
        """Keep only the rows that meet a condition."""
        self.conditions.append(self.substitute(condition))

    def substitute(self, expression: exp.Expr) -> exp.Expr:
        """The expression over the sources as they are by now."""
        root = exp.Paren(this=expression.copy())
        for _ in range(100):
            is_settled = True
            for node in list(root.find_all(exp.Column, exp.Placeholder)):
                found = self._place(node)
                if found is not None:
                    node.replace(trees.parenthesize(found.copy(), node))
                    is_settled = False
            if is_settled:
                break
        return trees.unwrap(root)

    def _place(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Placeholder):
            return self.values.get(str(node.this))
        return self.places.get((node.text("table"), node.name))

    def close(
        self,
        later: Iterable[exp.Expr],
        extra: Sequence[tuple[str, exp.Expr]] = (),
        with_keys: bool = False,
        settled: bool = False,
    ) -> LinearBlock:
        """The block so far, with the columns that later expressions speak of.

        A column is called by the name of its relation and its own.  With `settled`, columns that
        are calculated are calculated here: the other side of an outer join may make them null.
        """
        later = list(later)
        if settled:
            extra = [*extra, *self._computed_columns(later)]
        spoken: dict[tuple[str, str], None] = {}
        for expression in later:
            for place in trees.columns_in(self.substitute(expression)):
                if place[0] in self.sources or self._is_lateral(place[0]):
                    spoken[place] = None
        if with_keys and all(node.key is not None for node in self.sources.values()):
            for name, node in self.sources.items():
                spoken |= {(name, column): None for column in node.key or ()}
        if not spoken and not extra:  # only how many rows there are matters
            extra = [(_NO_COLUMN, exp.Literal.number(1))]
        items = [(f"{name}_{column}", trees.column(name, column)) for name, column in spoken]
        return self.project([*items, *((name, self.substitute(item)) for name, item in extra)])

    def _computed_columns(self, later: Sequence[exp.Expr]) -> list[tuple[str, exp.Expr]]:
        """The columns of relations that are expressions by now."""
        found: dict[str, exp.Expr] = {}
        for name, column in trees.columns_in(*later):
            made = self.substitute(trees.column(name, column))
            tables = {table for table, _ in trees.columns_in(made)}
            if not isinstance(made, exp.Column) and tables & set(self.sources):
                found[f"{name}_{column}"] = made
        return list(found.items())

    def project(self, projections: Sequence[tuple[str, exp.Expr]]) -> LinearBlock:
        """The block so far, with these columns."""
        return LinearBlock(
            self.sources, self.conditions, projections, self.laterals, self.constants
        )

    def reopen(self, node: Node, names: Iterable[str] | None = None) -> str:
        """Go on from a node whose columns are called as `close` calls them; its name."""
        relation = self.fresh_name()
        for column in node.columns if names is None else names:
            source, _, name = column.partition("_")
            self.places[source, name] = trees.column(relation, column)
        self.sources = {relation: node}
        self.conditions, self.laterals = [], []
        return relation

    def _is_lateral(self, name: str) -> bool:
        return any(lateral.args["alias"].name == name for lateral in self.laterals)


def _is_inlinable(node: LinearBlock) -> bool:
    """Whether a linear block can become part of another.

    A literal in an expression is not quite a column that holds it: it has its own digits.
    """
    if node.laterals or node._explodes():
        return False
    return all(
        any(table in node.sources for table, _ in trees.columns_in(item))
        for _, item in node.projections
    )


def _rename_relations(expression: exp.Expr, renamed: Mapping[str, str]) -> exp.Expr:
    made = expression.copy()
    for node in made.find_all(exp.Column):
        if node.table in renamed:
            node.set("table", exp.to_identifier(renamed[node.table], quoted=True))
    return made
