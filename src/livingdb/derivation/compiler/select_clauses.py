"""One SELECT, clause by clause: FROM, WHERE, GROUP BY, windows, the items, DISTINCT, LIMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.aggregates import aggregates_in
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.compiler.group_by import apply_group_by
from livingdb.derivation.compiler.grouping_sets import GroupingSets, grouping_sets
from livingdb.derivation.compiler.joins import JoinedRelation, join_all
from livingdb.derivation.compiler.name_resolution import Scope, VisibleRelation
from livingdb.derivation.compiler.order_limit import add_limit_stage, is_limited
from livingdb.derivation.compiler.query_trees import output_name
from livingdb.derivation.compiler.set_operations import distinct_node
from livingdb.derivation.compiler.subqueries import Subqueries
from livingdb.derivation.compiler.window_functions import apply_windows
from livingdb.derivation.plan import Unplannable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Block, Compiler, Environment

__all__ = ["SelectCompiler"]

_CLAUSES = {
    "with_", "expressions", "from_", "joins", "where", "group", "having", "order", "limit",
    "offset", "distinct", "laterals", "qualify", "windows", "sort", "cluster", "distribute",
}  # fmt: skip


class SelectCompiler:
    """A SELECT on its way to a block."""

    def __init__(
        self, compiler: Compiler, tree: exp.Select, around: Environment, outer: Scope | None
    ):
        if any(value and key not in _CLAUSES for key, value in tree.args.items()):
            raise Unplannable("UNSUPPORTED_CLAUSE")
        if tree.args.get("from_") is None:
            raise Unplannable("NO_TABLE")
        self.compiler = compiler
        self.tree = _with_windows(tree)
        self.around = around
        self.scope = Scope(outer)
        self.flow = Flow(compiler.fresh_name, compiler.constants)
        self.joined_relations: list[JoinedRelation] = []
        self.subqueries = Subqueries(self)
        self.items: list[tuple[str, exp.Expr]] = []
        self.conditions: list[exp.Expr] = []
        self.groups: list[exp.Expr] | None = None
        self.sets: GroupingSets | None = None
        self.having: list[exp.Expr] = []
        self.qualify: list[exp.Expr] = []
        self.order: list[exp.Ordered] = []

    # --- clauses --------------------------------------------------------------------------------

    def build_block(self) -> Block:
        """The block the query is."""
        self.resolve_names()
        join_all(self, self.later_expressions())
        self.apply_where()
        if self.is_grouped:
            apply_group_by(self)
        for name, expression in list(self.subqueries.scalar_queries_in(self.later_expressions())):
            self.subqueries.add_column(name, expression)
        windows = [e for e in self.later_expressions() if e.find(exp.Window) is not None]
        if windows:
            apply_windows(self)
        for condition in self.qualify:
            self.flow.where(condition)
        return self._build_result()

    def resolve_names(self) -> None:
        """Find out what every name stands for."""
        tree = self.tree
        self._add_relations()
        where = tree.args.get("where")
        self.conditions = [
            self.resolve(part) for part in trees.conjuncts(where.this if where else None)
        ]
        for item in tree.expressions:
            self.items += self._resolve_item(item)
        self._resolve_groups()
        having, qualify = tree.args.get("having"), tree.args.get("qualify")
        self.scope.aliases |= {name.casefold(): made for name, made in self.items}
        self.scope.is_after_select = True
        self.having = [self.resolve(p) for p in trees.conjuncts(having.this if having else None)]
        self.qualify = [self.resolve(p) for p in trees.conjuncts(qualify.this if qualify else None)]
        order = tree.args.get("order")
        if is_limited(tree) and order is not None:
            self.order = [self._resolve_order(item) for item in order.expressions]
        if is_limited(tree) and any(tree.args.get(k) for k in ("sort", "cluster", "distribute")):
            raise Unplannable("UNSUPPORTED_CLAUSE")

    def later_expressions(self) -> list[exp.Expr]:
        """The expressions that come after WHERE."""
        items = [made for _, made in self.items]
        groups = self.groups or []
        return [*items, *groups, *self.having, *self.qualify, *(o.this for o in self.order)]

    @property
    def is_grouped(self) -> bool:
        """Whether rows come in groups."""
        if self.groups is not None or self.having:
            return True
        return any(True for e in self.later_expressions() for _ in aggregates_in(e))

    def resolve(self, expression: exp.Expr) -> exp.Expr:
        """An expression with names that say where their columns are; queries in it prepared."""
        root = exp.Paren(this=expression.copy())
        self.subqueries.prepare(root)
        for node in list(root.find_all(exp.Column)):
            if trees.is_resolved(node) or isinstance(node.this, exp.Star):
                continue
            node.replace(self.scope.column(node))
        return trees.unwrap(root)

    def _add_relations(self) -> None:
        tree = self.tree
        self._add_relation(tree.args["from_"].this, None)
        for join in tree.args.get("joins") or ():
            self._add_relation(join.this, join)
        for lateral in tree.args.get("laterals") or ():
            self._add_lateral(lateral)

    def _add_relation(self, source: exp.Expr, join: exp.Join | None) -> None:
        alias, block = self.compiler.relation(source, self.around)
        relation = self.compiler.fresh_name()
        seen = VisibleRelation(alias, relation, block.names)
        if any(other.alias == alias for other in self.scope.seen):
            raise Unplannable("AMBIGUOUS_RELATION")
        joined = JoinedRelation(relation, block.node)
        if join is not None:
            joined.resolve_condition(self, join, seen)
        if joined.kind not in ("SEMI", "ANTI"):
            self.scope.seen.append(seen)
        self.joined_relations.append(joined)

    def _add_lateral(self, lateral: exp.Expr) -> None:
        alias = lateral.args.get("alias")
        if not isinstance(lateral, exp.Lateral) or not lateral.args.get("view") or alias is None:
            raise Unplannable("LATERAL")
        names = [name.name for name in alias.columns]
        if not names:
            raise Unplannable("LATERAL_WITHOUT_NAMES")
        if not isinstance(lateral.this, exp.Explode) or isinstance(lateral.this, exp.Posexplode):
            raise Unplannable("LATERAL_FUNCTION")
        relation = self.compiler.fresh_name()
        made = lateral.copy()
        made.set("this", self.resolve(lateral.this))
        columns = [exp.to_identifier(name, quoted=True) for name in names]
        made.set(
            "alias",
            exp.TableAlias(this=exp.to_identifier(relation, quoted=True), columns=columns),
        )
        self.scope.seen.append(
            VisibleRelation(alias.name.casefold(), relation, [(name, name) for name in names])
        )
        self.joined_relations.append(JoinedRelation(relation, None, lateral=made))

    def _resolve_item(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        if item.is_star:
            star = item if isinstance(item, exp.Star) else item.this
            if any(star.args.get(key) for key in ("except_", "replace", "rename", "ilike")):
                raise Unplannable("STAR_EXCEPT")
            relation = item.table.casefold() if isinstance(item, exp.Column) else ""
            return self.scope.star(relation)
        if isinstance(item, exp.Aliases):
            raise Unplannable("SEVERAL_COLUMNS")
        name = output_name(item)
        inner = item.this if isinstance(item, exp.Alias) else item
        made = self.resolve(inner)
        if isinstance(item, exp.Alias):
            self.scope.aliases[name.casefold()] = made
        return [(name, made)]

    def _resolve_groups(self) -> None:
        group = self.tree.args.get("group")
        if group is None:
            return
        items = {name.casefold(): made for name, made in reversed(self.items)}
        if group.args.get("all"):
            self.groups = [
                made for _, made in self.items if not any(True for _ in aggregates_in(made))
            ]
            return
        self.scope.aliases = items
        self.sets = grouping_sets(group, self._resolve_group)
        if self.sets is not None:
            self.groups = list(self.sets.columns)
        else:
            self.groups = [self._resolve_group(part) for part in group.expressions]

    def _resolve_group(self, part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Literal) and part.name.isdecimal():
            return self.items[int(part.name) - 1][1].copy()
        return self.resolve(part)

    def _resolve_order(self, item: exp.Expr) -> exp.Ordered:
        if not isinstance(item, exp.Ordered):
            raise Unplannable("UNSUPPORTED_CLAUSE")
        made = item.copy()
        place = item.this
        if isinstance(place, exp.Literal) and place.name.isdecimal():
            made.set("this", self.items[int(place.name) - 1][1].copy())
            return made
        if isinstance(place, exp.Column) and not place.table:
            for name, found in self.items:
                if name.casefold() == place.name.casefold():
                    made.set("this", found.copy())
                    return made
        made.set("this", self.resolve(place))
        return made

    # --- what they make -------------------------------------------------------------------------

    def apply_where(self) -> None:
        """Keep the rows that meet the conditions; those with queries last."""
        held = []
        for condition in self.conditions:
            if self.subqueries.placeholders_in(condition):
                held.append(condition)
            else:
                self.flow.where(condition)
                self.compiler.note("filter", "linear")
        self.conditions = held
        while self.conditions:
            condition = self.conditions.pop(0)
            self.subqueries.apply_condition(
                condition, [*self.later_expressions(), *self.conditions]
            )

    def _build_result(self) -> Block:
        from livingdb.derivation.compiler.query_compiler import Block

        names: list[tuple[str, str]] = []
        items: list[tuple[str, exp.Expr]] = []
        taken: set[str] = set()
        for name, made in self.items:
            column = name
            while column.casefold() in taken:
                column = f"{column}_{len(items)}"
            taken.add(column.casefold())
            names.append((name, column))
            items.append((column, self.flow.substitute(made)))
        order = []
        extra = []
        for place, item in enumerate(self.order):
            wanted = self.flow.substitute(item.this)
            column = next((name for name, made in items if made == wanted), "")
            if not column:
                column = f"~o{place}"
                extra.append((column, wanted))
            made_item = item.copy()
            made_item.set("this", trees.column("", column))
            order.append(made_item)
        distinct = self.tree.args.get("distinct")
        if distinct is not None and (extra or distinct.args.get("on") is not None):
            raise Unplannable("UNSUPPORTED_CLAUSE")
        node = self.flow.project([*items, *extra])
        self.compiler.note("projection", "linear")
        block = Block(node, names)
        if distinct is not None:
            block = Block(distinct_node(node), names)
            self.compiler.note("distinct", "touched")
        if is_limited(self.tree):
            return add_limit_stage(self.compiler, block, self.tree, order)
        return block


def _with_windows(tree: exp.Select) -> exp.Select:
    """The query with the windows of its WINDOW clause where they are used."""
    named = tree.args.get("windows")
    made = tree.copy()
    made.parent = tree.parent
    if not named:
        return made
    found = {window.name.casefold(): window for window in named}
    for node in made.find_all(exp.Window):
        alias = node.args.get("alias")
        if alias is None or node.parent is made:
            continue
        window = found.get(alias.name.casefold())
        if window is None:
            raise Unplannable("UNKNOWN_WINDOW")
        node.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            value = window.args.get(part)
            if value is not None and not node.args.get(part):
                copied = [v.copy() for v in value] if isinstance(value, list) else value.copy()
                node.set(part, copied)
    made.set("windows", None)
    return made
