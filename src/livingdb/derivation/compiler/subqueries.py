"""Subqueries in expressions: scalars become constants; IN, EXISTS and correlated ones semi-, anti-
or left joins.

Without ties to the row, a query for one value is a stage of its own, read as a constant.  With
ties, and with IN and EXISTS, the block falls apart by what is tied by equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.correlation import (
    CorrelatedQuery,
    block_expression,
    has_only_aggregates,
    is_monotone,
    is_simple,
    kept_keys,
    queries_in,
)
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.compiler.joins import equal_pairs, join_all
from livingdb.derivation.compiler.name_resolution import UnknownColumn
from livingdb.derivation.operators.additive_groups import AdditiveGroups, Slot
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.operators.value_lookups import is_comparable
from livingdb.derivation.plan import Unplannable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Block
    from livingdb.derivation.compiler.select_clauses import SelectCompiler

__all__ = ["Subqueries"]


class Subqueries:
    """The queries in the expressions of one SELECT."""

    def __init__(self, selecting: SelectCompiler):
        self._selecting = selecting
        self._correlated: dict[str, CorrelatedQuery] = {}

    # --- reading --------------------------------------------------------------------------------

    def prepare(self, root: exp.Expr) -> None:
        """Make stages or tied rows of the queries in an expression; signs stand in their place."""
        while True:
            node = next(queries_in(root), None)
            if node is None:
                return
            if isinstance(node, exp.Subquery):
                node.replace(self._scalar_expression(node))
            elif isinstance(node, exp.Exists):
                node.replace(self._exists_expression(node.this))
            elif isinstance(node, exp.In):
                self._replace_in(node, root)

    def placeholders_in(self, expression: exp.Expr) -> list[str]:
        """The signs of tied queries in an expression."""
        found = [str(node.this) for node in expression.find_all(exp.Placeholder)]
        done = self._selecting.flow.values
        return [
            name for name in dict.fromkeys(found) if name in self._correlated and name not in done
        ]

    def outer_expressions(self) -> list[exp.Expr]:
        """What tied queries that are not done yet need to know of the row."""
        done = self._selecting.flow.values
        return [
            expression
            for name, tied in self._correlated.items()
            if name not in done
            for expression in (
                *(outer for outer, _ in tied.pairs),
                *tied.rest,
                *([tied.value] if tied.value is not None else ()),
            )
        ]

    def scalar_queries_in(
        self, expressions: Iterable[exp.Expr]
    ) -> Iterator[tuple[str, CorrelatedQuery]]:
        """The tied queries for one value in expressions."""
        names = dict.fromkeys(name for e in expressions for name in self.placeholders_in(e))
        for name in names:
            if self._correlated[name].value is None:
                raise Unplannable("SUBQUERY_OUTSIDE_WHERE")
            yield name, self._correlated[name]

    def _scalar_expression(self, node: exp.Subquery) -> exp.Expr:
        block = self._uncorrelated_block(node.this)
        if block is None:
            return self._add_placeholder(self._correlated_query(node.this, "scalar"))
        if len(block.names) != 1:
            raise Unplannable("SUBQUERY_COLUMNS")
        return self._constant_expression(block.node, block.names[0][1])

    def _constant_expression(self, node: Node, column: str) -> exp.Expr:
        compiler = self._selecting.compiler
        leaf = compiler.add_stage(node)
        name = f"k{len(compiler.constants) + 1}"
        compiler.constants[name] = leaf
        compiler.note("scalar subquery", "linear")
        made = exp.Select(expressions=[trees.column(name, column)])
        made.set("from_", exp.From(this=trees.table(name, name)))
        return trees.mark_resolved(exp.Subquery(this=made))

    def _exists_expression(self, query: exp.Expr) -> exp.Expr:
        block = self._uncorrelated_block(query)
        if block is None:
            return self._add_placeholder(self._correlated_query(query, "exists"))
        compiler = self._selecting.compiler
        counted = self._add_count_stage(block.node, None)
        some = exp.GT(this=trees.column("n", "n"), expression=exp.Literal.number(0))
        made = LinearBlock({"n": counted}, [], [("c", some)])
        compiler.note("exists", "linear")
        return self._constant_expression(made, "c")

    def _add_count_stage(self, node: Node, column: str | None) -> Leaf:
        compiler = self._selecting.compiler
        flow = Flow(compiler.fresh_name, compiler.constants)
        relation = compiler.fresh_name()
        flow.add(relation, node)
        name = column or node.columns[0]
        rows = flow.project([("a0", flow.substitute(trees.column(relation, name)))])
        slots = [Slot("n", "rows"), *([Slot("c", "count", "a0")] if column else [])]
        return compiler.add_stage(AdditiveGroups(rows, [], slots))

    def _replace_in(self, node: exp.In, root: exp.Expr) -> None:
        query = node.args["query"]
        inner = query.this if isinstance(query, exp.Subquery) else query
        left = node.this
        values = left.expressions if isinstance(left, exp.Tuple) else [left]
        values = [self._selecting.resolve(value) for value in values]
        above: exp.Expr = node
        while isinstance(above.parent, exp.Paren) and above.parent is not root:
            above = above.parent
        is_negated = isinstance(above.parent, exp.Not)
        whole: exp.Expr = above.parent if is_negated and above.parent is not None else node
        if not is_monotone(whole, root):
            raise Unplannable("IN_WITHIN_EXPRESSION")
        block = self._uncorrelated_block(inner)
        if block is None:
            if is_negated:
                raise Unplannable("CORRELATED_NOT_IN")
            whole.replace(self._add_placeholder(self._correlated_query(inner, "in", values)))
            return
        if len(block.names) != len(values):
            raise Unplannable("SUBQUERY_COLUMNS")
        sign = self._add_placeholder(self._uncorrelated_in(block, values))
        whole.replace(self._not_in_condition(block, values, sign) if is_negated else sign)

    def _uncorrelated_in(self, block: Block, values: Sequence[exp.Expr]) -> CorrelatedQuery:
        compiler = self._selecting.compiler
        flow = Flow(compiler.fresh_name, compiler.constants)
        relation = compiler.fresh_name()
        flow.add(relation, block.node)
        items = [
            (f"k_{at}", flow.substitute(trees.column(relation, column)))
            for at, (_, column) in enumerate(block.names)
        ]
        pairs = [(value, f"k_{at}") for at, value in enumerate(values)]
        return CorrelatedQuery(flow.project(items), pairs, ())

    def _not_in_condition(
        self, block: Block, values: Sequence[exp.Expr], sign: exp.Expr
    ) -> exp.Expr:
        """NOT IN: there is nothing, or no null and nothing equal to a value that is known."""
        if len(values) != 1:
            raise Unplannable("NOT_IN_OF_SEVERAL")
        column = block.names[0][1]
        counted = self._add_count_stage(block.node, column)
        n, c = trees.column("n", "n"), trees.column("n", "c")
        empty = exp.EQ(this=n.copy(), expression=exp.Literal.number(0))
        known = exp.EQ(this=n, expression=c)
        facts = LinearBlock({"n": counted}, [], [("is_empty", empty), ("is_known", known)])
        leaf = self._selecting.compiler.add_stage(facts)
        is_empty = self._constant_expression(leaf, "is_empty")
        is_known = self._constant_expression(leaf, "is_known")
        there = exp.Not(this=exp.Is(this=values[0].copy(), expression=exp.Null()))
        certain = trees.and_all([is_known, there, exp.Not(this=sign)])
        return exp.Paren(this=exp.Or(this=is_empty, expression=exp.Paren(this=certain)))

    def _uncorrelated_block(self, query: exp.Expr) -> Block | None:
        """The block of a query that does not depend on the row; None if it does."""
        selecting = self._selecting
        try:
            return selecting.compiler.compile_query(query, selecting.around)
        except UnknownColumn:
            return None

    def _add_placeholder(self, tied: CorrelatedQuery) -> exp.Expr:
        name = f"~s{self._selecting.compiler.fresh_name()}"
        self._correlated[name] = tied
        return exp.Placeholder(this=name)

    def _correlated_query(
        self, query: exp.Expr, kind: str, values: Sequence[exp.Expr] = ()
    ) -> CorrelatedQuery:
        """The rows of a query that depends on the row around it."""
        from livingdb.derivation.compiler.select_clauses import SelectCompiler

        selecting = self._selecting
        if not isinstance(query, exp.Select) or not is_simple(query, kind):
            raise Unplannable("CORRELATED_SUBQUERY")
        inner = SelectCompiler(selecting.compiler, query, selecting.around, selecting.scope)
        inner.resolve_names()
        mine = inner.scope.relations() | {joined.relation for joined in inner.joined_relations}
        own: list[exp.Expr] = []
        tied: list[exp.Expr] = []
        for condition in inner.conditions:
            (own if _relations_in(condition, inner) <= mine else tied).append(condition)
        items = [made for _, made in inner.items] if kind != "exists" else []
        ons = [part for joined in inner.joined_relations for part in joined.on]
        if any(not _relations_in(part, inner) <= mine for part in [*ons, *items]):
            raise Unplannable("CORRELATED_SUBQUERY")
        if any(inner.subqueries.placeholders_in(part) for part in [*tied, *items]):
            raise Unplannable("CORRELATED_SUBQUERY")
        if kind == "scalar" and (len(items) != 1 or not has_only_aggregates(items[0])):
            raise Unplannable("CORRELATED_SCALAR")
        outer = selecting.scope.relations()
        pairs, rest = equal_pairs(tied, outer, mine)
        inner.conditions = own
        later = [*items, *tied]
        join_all(inner, later)
        inner.items = [(f"i{at}", made) for at, made in enumerate(later)]
        inner.apply_where()
        keys = [(f"k_{at}", pair.right) for at, pair in enumerate(pairs)]
        ends = [(pair.left, f"k_{at}") for at, pair in enumerate(pairs)]
        if kind == "in":
            if len(items) != len(values):
                raise Unplannable("SUBQUERY_COLUMNS")
            more = range(len(pairs), len(pairs) + len(items))
            keys += [(f"k_{at}", item) for at, item in zip(more, items, strict=True)]
            ends += [(value, f"k_{at}") for at, value in zip(more, values, strict=True)]
        rows = inner.flow.close([*rest, *(items if kind == "scalar" else ())], keys, settled=True)
        onto = [block_expression(part, inner.flow, "r", rows.columns) for part in rest]
        value = None
        if kind == "scalar":
            value = block_expression(items[0], inner.flow, "r", rows.columns)
        return CorrelatedQuery(rows, ends, onto, value)

    # --- applying -------------------------------------------------------------------------------

    def apply_condition(self, condition: exp.Expr, later: list[exp.Expr]) -> None:
        """Keep the rows that meet a condition with tied queries."""
        names = self.placeholders_in(condition)
        for name in names:
            if self._correlated[name].value is not None:
                self.add_column(name, self._correlated[name], [*later, condition])
        looked = self.placeholders_in(condition)
        if not looked:
            self._selecting.flow.where(condition)
            return
        if len(looked) > 1:
            raise Unplannable("SUBQUERIES_IN_ONE_CONDITION")
        self._add_correlated_node(looked[0], [*later, condition], condition)
        self._selecting.compiler.note("semi or anti join", "touched")

    def add_column(
        self, name: str, tied: CorrelatedQuery, later: Sequence[exp.Expr] | None = None
    ) -> None:
        """Add the value of a tied query to each row."""
        self._add_correlated_node(name, list(later or self._selecting.later_expressions()), None)
        self._selecting.compiler.note("correlated subquery", "touched")

    def _add_correlated_node(
        self, name: str, later: list[exp.Expr], condition: exp.Expr | None
    ) -> None:
        flow, tied = self._selecting.flow, self._correlated[name]
        outer = [flow.substitute(value) for value, _ in tied.pairs]
        needed = [*later, *self.outer_expressions()]
        if flow.laterals:
            flow.reopen(flow.close(needed))
            outer = [flow.substitute(value) for value, _ in tied.pairs]
        query = tied.query()
        for value in outer:
            if not {table for table, _ in trees.columns_in(value)} <= set(flow.sources):
                raise Unplannable("CORRELATED_DEEPLY")
        keys = [(f"k_{at}", value) for at, value in enumerate(outer)]
        left = flow.close(needed, keys, settled=True)
        usable = [
            at
            for at, (_, column) in enumerate(tied.pairs)
            if is_comparable(left.types.get(f"k_{at}"), tied.rows.types.get(column))
        ]
        if not usable:
            raise Unplannable("JOIN_KEY_TYPES" if outer else "CORRELATED_WITHOUT_EQUALITY")
        shown = [column for column in left.columns if column[:2] != "k_"]
        if not shown:
            shown = ["k_0"]
        items = [trees.with_alias(trees.column("l", column), column) for column in shown]
        columns = list(shown)
        made = exp.Select()
        if condition is None:
            column = f"s_{name[2:]}"
            items.append(trees.with_alias(block_expression(query, flow, "l", left.columns), column))
            columns.append(column)
        else:
            root = exp.Paren(this=condition.copy())
            for sign in list(root.find_all(exp.Placeholder)):
                if str(sign.this) == name:
                    sign.replace(query.copy())
            where = block_expression(root.this, flow, "l", left.columns)
            made.set("where", exp.Where(this=where))
        made.set("expressions", items)
        made.set("from_", exp.From(this=trees.table("l", "l")))
        schemas = {"l": left.types, "r": tied.rows.types}
        schemas |= {k: leaf.types for k, leaf in flow.constants.items()}
        node = PartitionedBlock(
            made,
            {"l": left, "r": tied.rows},
            {
                "l": [f"k_{at}" for at in usable],
                "r": [tied.pairs[at][1] for at in usable],
            },
            columns=columns,
            types=trees.column_types(made, schemas),
            key=left.key if left.key is not None and set(left.key) <= set(shown) else None,
            kept=kept_keys(left, shown, usable),
            origin={column: ("l", column) for column in shown},
            leading="l",
            by_row=True,
            required=left.required & frozenset(shown),
            constants=flow.constants,
        )
        relation = flow.reopen(node)
        if condition is None:
            flow.values[name] = trees.column(relation, columns[-1])


def _relations_in(expression: exp.Expr, selecting: SelectCompiler) -> set[str]:
    """The relations an expression speaks of, through the queries in it as well."""
    found = {table for table, _ in trees.columns_in(expression)}
    for name in selecting.subqueries.placeholders_in(expression):
        for part in selecting.subqueries._correlated[name].pairs:
            found |= {table for table, _ in trees.columns_in(part[0])}
    return found - set(selecting.compiler.constants) - {"r"}
