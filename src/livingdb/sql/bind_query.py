"""Bind the names of a query or an expression to tables and columns, by spans of its text.

The tree says what a name stands for and its tokens where it is; nothing is printed from it.  What
is not bound to one span is kept by holding the names of the tables around it (see
`TableBinding`); what cannot be read that way is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.bind_names import is_named_by_arguments
from livingdb.sql.bind_tables import FindTable, TableBinder, alias_columns
from livingdb.sql.bindings import (
    BoundQuery,
    BoundTable,
    ColumnBinding,
    OutputBinding,
    StarBinding,
    StarPart,
    UsingBinding,
    in_order,
)
from livingdb.sql.column_titles import title_of
from livingdb.sql.name_scopes import UNCLEAR, Found, Output, Outputs, Relation, Scope
from livingdb.sql.parse import parse_expression, parse_statement
from livingdb.sql.table_names import is_cte, is_range
from livingdb.sql.text_spans import item_span

__all__ = ["FindTable", "Resolution", "bind_expression", "bind_query", "resolve"]


def bind_query(text: str, tables: Mapping[str, BoundTable] | FindTable) -> BoundQuery:
    """The query with its names bound to the tables they stand for.

    `tables` are by the names the query may use, with a branch before a dot or without, or a
    function of a table in the tree.  `InvalidData`, `NotFound` or `Unsupported` says what is wrong.
    """
    find = tables if callable(tables) else _by_name(tables)
    return resolve(text, parse_statement(text), find).bound


def _by_name(tables: Mapping[str, BoundTable]) -> FindTable:
    known = {name.casefold(): table for name, table in tables.items()}

    def find(node: exp.Table) -> BoundTable:
        name = ".".join(part.name for part in node.parts)
        found = known.get(name.casefold())
        if found is None:
            raise NotFound(f"there is no table {name!r}; there are: {', '.join(sorted(tables))}")
        return found

    return find


def bind_expression(text: str, table: BoundTable) -> BoundQuery:
    """An expression over the columns of one table, with their names bound.

    `NotFound` for a column there is not; `Unsupported` for what cannot follow another name.
    """
    tree = parse_expression(text)
    if tree.find(exp.Query) is not None:
        raise Unsupported(f"{text!r}: an expression has no subqueries")
    for call in filter(is_named_by_arguments, tree.find_all(exp.Func)):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        raise Unsupported(f"{text!r}: {name.lower()} gives fields the names of columns")
    resolver = _QueryBinder(text, _no_table)
    spoken = {column.parts[0].name for column in tree.find_all(exp.Column)}
    exact = {column.name.casefold() for column in table.columns if column.name in spoken}
    columns = [c for c in table.columns if c.name in spoken or c.name.casefold() not in exact]
    scope = Scope(clause="WHERE")
    scope.add(Relation(0, "", [(column.name, column.id) for column in columns], table=0))
    resolver.expression(tree, scope)
    if resolver.unknown:
        known = ", ".join(column.name for column in table.columns)
        raise NotFound(f"{text!r}: there is no column {resolver.unknown[0]!r}; there are {known}")
    used = {item.column for item in resolver.bindings if isinstance(item, ColumnBinding)}
    kept = tuple(column for column in table.columns if column.id in used)
    return BoundQuery(text, (replace(table, columns=kept),), in_order(resolver.bindings))


def _no_table(node: exp.Table) -> BoundTable:
    raise Unsupported(f"{node.name!r}: an expression reads no tables")


@dataclass(frozen=True)
class Resolution:
    """A bound query; and what every name in it stands for, in order, however it is written.

    `places` says where the binding of each name begins; -1 for one that has none.
    """

    bound: BoundQuery
    trace: tuple[tuple[str, int, str], ...]
    places: tuple[int, ...]
    outputs: tuple[str, ...] | None


def resolve(text: str, tree: exp.Expr, find: FindTable) -> Resolution:
    """Bind a query, and say what its names stand for."""
    if not isinstance(tree, exp.Query):
        raise InvalidData("a stored query begins with SELECT, WITH, VALUES or FROM")
    resolver = _QueryBinder(text, find)
    outputs = resolver.query(tree, {}, None)
    resolver.hold_rest(tree)
    bound, numbers = resolver.build(tree)
    return Resolution(
        bound,
        tuple(
            (kind, numbers[of] if kind in ("column", "table") else of, name)
            for (kind, of, name), _ in resolver.trace
        ),
        tuple(place for _, place in resolver.trace),
        None if outputs is None else tuple(outputs),
    )


class _QueryBinder(TableBinder):
    """Binds the names in one query, clause by clause."""

    def __init__(self, text: str, find: FindTable):
        super().__init__(text, find)
        self._relations = 0

    # --- queries --------------------------------------------------------------------------------

    def query(
        self, tree: exp.Expr, ctes: Mapping[str, Outputs], outer: Scope | None
    ) -> Sequence[str] | None:
        """Bind what is in a query; the names of the columns it gives."""
        ctes = self._with_ctes(tree, ctes)
        if isinstance(tree, exp.Select):
            return self._select(tree, ctes, outer)
        if isinstance(tree, exp.SetOperation):
            outputs = self.query(tree.this, ctes, outer)
            self.query(tree.expression, ctes, outer)
        elif isinstance(tree, exp.Subquery):
            outputs = self.query(tree.this, ctes, outer)
        elif isinstance(tree, exp.Values):
            scope = Scope(outer, ctes)
            for row in tree.expressions:
                self.expression(row, scope)
            outputs = _values_columns(tree)
        else:
            self._hold_within(tree, ctes)
            return None
        scope = Scope(outer, ctes, are_outputs_known=outputs is not None, clause="ORDER BY")
        scope.outputs = [Output(name) for name in outputs or ()]
        self._order(tree, scope)
        return outputs

    def _with_ctes(self, tree: exp.Expr, ctes: Mapping[str, Outputs]) -> Mapping[str, Outputs]:
        clause = tree.args.get("with_")
        if clause is None:
            return ctes
        known = dict(ctes)
        for part in clause.expressions:
            inside = dict(known)
            if clause.args.get("recursive"):
                inside[part.alias.casefold()] = alias_columns(part) or None
            given = self.query(part.this, inside, None)
            known[part.alias.casefold()] = alias_columns(part) or given
        return known

    def _select(
        self, tree: exp.Select, ctes: Mapping[str, Outputs], outer: Scope | None
    ) -> Sequence[str] | None:
        scope = Scope(outer, ctes, is_distinct=tree.args.get("distinct") is not None)
        self._from(tree, scope)
        handled = {"with_", "from_", "joins", "laterals", "expressions", "order", "hint", "kind"}
        self._clause(tree, "where", scope, "WHERE")
        scope.clause = "SELECT"
        for item in tree.expressions:
            self._item(item, scope)
        for part in ("windows", "distinct"):
            self._clause(tree, part, scope, "WINDOW")
        self._clause(tree, "group", scope, "GROUP BY")
        self._clause(tree, "having", scope, "HAVING")
        self._clause(tree, "qualify", scope, "QUALIFY")
        self._order(tree, scope)
        handled |= {"where", "windows", "distinct", "group", "having", "qualify"}
        handled |= {"sort", "cluster", "distribute", "limit", "offset"}
        if any(value and key not in handled for key, value in tree.args.items()):
            scope.hold()
        if scope.is_held:
            self._held |= {r.table for r in scope.every if r.table is not None}
        return [item.name for item in scope.outputs] if scope.are_outputs_known else None

    def _clause(self, tree: exp.Expr, part: str, scope: Scope, clause: str) -> None:
        scope.clause = clause
        found = tree.args.get(part)
        for node in found if isinstance(found, list) else [found]:
            if isinstance(node, exp.Expr):
                self.expression(node, scope)

    def _order(self, tree: exp.Expr, scope: Scope) -> None:
        scope.clause = "ORDER BY"
        for part in ("order", "sort", "cluster", "distribute"):
            clause = tree.args.get(part)
            items = [] if clause is None else clause.expressions
            for item in items if isinstance(items, list) else [items]:
                inner = item.this if isinstance(item, exp.Ordered) else item
                if isinstance(inner, exp.Column):
                    self._column(inner, scope, is_bare=True)
                else:
                    self.expression(item, scope)
        for part in ("limit", "offset"):
            self._clause(tree, part, scope, "LIMIT")

    # --- FROM -----------------------------------------------------------------------------------

    def _from(self, tree: exp.Select, scope: Scope) -> None:
        clause = tree.args.get("from_")
        if clause is not None:
            scope.add(self._relation(clause.this, scope, _names_in(tree)))
        for join in tree.args.get("joins") or ():
            self._join(join, scope, _names_in(tree))
        for lateral in tree.args.get("laterals") or ():
            scope.add(self._lateral(lateral, scope))

    def _join(self, join: exp.Join, scope: Scope, called: Sequence[str]) -> None:
        relation = self._relation(join.this, scope, called)
        plain = {"this", "side", "kind", "on", "using"}
        if join.method or any(value and key not in plain for key, value in join.args.items()):
            scope.hold()
        merged = {}
        if join.method:
            mine = {name.casefold() for name, _ in relation.columns or ()}
            shared = [n for n in _star_names(scope.relations, scope) if n.casefold() in mine]
            merged = {n.casefold(): Found("merged", len(scope.every), n.casefold()) for n in shared}
            scope.has_stars = scope.has_stars and not join.method
        for name in join.args.get("using") or ():
            left, right = scope.plain(name.name.casefold()), relation.find(name.name.casefold())
            merged[name.name.casefold()] = self._using(name, left, right, scope)
        plain_columns = {name: scope.plain(name) for name in merged}
        scope.add(relation)
        scope.clause = "ON"
        if join.args.get("on") is not None:
            self.expression(join.args["on"], scope)
        if join.kind.upper() in ("SEMI", "ANTI"):
            # They are those of the left side, and come first in a star nevertheless.
            scope.relations.remove(relation)
            scope.merged |= {n: found for n, found in plain_columns.items() if found is not None}
        else:
            scope.merged |= merged

    def _using(
        self, name: exp.Expr, left: Found | None, right: Found | None, scope: Scope
    ) -> Found:
        start, end = self._span(name)
        given = [side for side in (left, right) if side is not None and side.kind == "column"]
        sides = tuple((side.of, side.name) for side in given)
        if left is None or right is None or UNCLEAR in (left, right):
            scope.hold()
        self.bindings.append(UsingBinding(start, end, sides))
        self._note(("using", -1, ""))
        for side in (left, right):
            self._note((side or UNCLEAR).meaning)
        return Found("merged", len(scope.every), name.name.casefold())

    def _relation(self, node: exp.Expr, scope: Scope, called: Sequence[str]) -> Relation:
        """Something in FROM.  `called` are all names there, in lower case."""
        self._relations += 1
        number = self._relations
        shown = alias_columns(node)
        if node.args.get("pivots") or node.args.get("joins"):
            self._hold_within(node, scope.ctes)
            return Relation(number, node.alias_or_name, None)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if is_cte(node):
                self._seen.add(id(node))
                known = scope.ctes.get(node.name.casefold())
                self._note(("with", -1, node.name.casefold()))
                return Relation(number, node.alias_or_name, _plain(shown or known))
            return self._table(node, number, scope, called)
        if isinstance(node, exp.Subquery):
            outputs = self.query(node, scope.ctes, None)
            return Relation(number, node.alias_or_name, _plain(shown or outputs))
        if isinstance(node, exp.Lateral):
            return self._lateral(node, scope)
        if isinstance(node, exp.Values):
            outputs = self.query(node, scope.ctes, None)
            return Relation(number, node.alias_or_name, _plain(shown or outputs))
        if isinstance(node, exp.Table) and is_range(node):
            return Relation(number, node.alias_or_name, _plain(shown or ["id"]))
        self._hold_within(node, scope.ctes)
        return Relation(number, node.alias_or_name, _plain(shown or None))

    def _table(self, node: exp.Table, number: int, scope: Scope, called: Sequence[str]) -> Relation:
        table = self._find(node)
        branch = node.db.casefold()
        name = node.alias_or_name
        is_twin = called.count(name.casefold()) > 1
        if branch and not node.alias and is_twin:
            name = f"{node.db}.{node.name}"
        self._seen.add(id(node))
        at = self._add_table(node, table, name, scope.ctes)
        self._note(("table", at, table.id))
        columns = [(column.name, column.id) for column in table.columns]
        shown = alias_columns(node)
        if not shown:
            return Relation(number, name, columns, at, "" if node.alias else branch)
        self._held.add(at)
        return Relation(number, name, _plain(shown))

    def _lateral(self, node: exp.Expr, scope: Scope) -> Relation:
        self._relations += 1
        number = self._relations
        shown = alias_columns(node)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Query):
            outputs = self.query(node.this, scope.ctes, scope)
            return Relation(number, node.alias_or_name, _plain(shown or outputs))
        before, scope.clause = scope.clause, "FROM"
        self.expression(node.this, scope)
        scope.clause = before
        return Relation(number, node.alias_or_name, _plain(shown or None))

    # --- items ----------------------------------------------------------------------------------

    def _item(self, item: exp.Expr, scope: Scope) -> None:
        if item.is_star:
            self._star(item, scope)
            return
        inner = item.this if isinstance(item, exp.Alias) else item
        is_named = isinstance(item, exp.Alias)
        if isinstance(inner, exp.Column):
            found = self._column(inner, scope, output=None if is_named else inner.name)
            name = item.alias if is_named else inner.name
            whole = found if found is not None and found.part == len(inner.parts) - 1 else None
            scope.outputs.append(Output(name, whole, is_named))
            return
        mark = len(self.bindings), len(self._occurrences)
        self.expression(inner, scope)
        if is_named:
            scope.outputs.append(Output(item.alias, None, True))
            return
        if isinstance(item, exp.Aliases):
            scope.outputs += [Output(name.name, None, True) for name in item.args["expressions"]]
            return
        title = title_of(item)
        if title is None:
            scope.are_outputs_known = False
            return
        scope.outputs.append(Output(title))
        is_bound = (len(self.bindings), len(self._occurrences)) != mark
        if is_bound and not isinstance(item, exp.Dot):
            self._add_output(item, title, scope)

    def _add_output(self, item: exp.Expr, name: str, scope: Scope) -> None:
        places = [self._span(node) for node in item.find_all(exp.Identifier) if node.meta]
        span = item_span(self.text, item, places)
        if span is None:
            scope.hold()
            return
        self.bindings.append(OutputBinding(span[1], span[1], span[0], name))

    def _star(self, item: exp.Expr, scope: Scope) -> None:
        star = item if isinstance(item, exp.Star) else item.this
        self._seen.add(id(item))
        meant, is_path = _star_relations(item, scope)
        if not meant and not self._is_struct(item, scope):
            known = ", ".join(relation.called for relation in scope.relations)
            shown = item.sql("spark")
            raise NotFound(f"{shown}: there is no such name in FROM; there are: {known}")
        is_special = any(star.args.get(key) for key in ("except_", "replace", "rename", "ilike"))
        is_known = not is_special and meant and all(r.columns is not None for r in meant)
        if not is_known or scope.merged or not scope.has_stars:
            if is_path:
                raise Unsupported(f"{item.sql('spark')}: give the table an alias")
            scope.hold()
            self._note(("star", -1, item.name))
            if is_known:
                merged = scope if isinstance(item, exp.Star) else Scope()
                scope.outputs += [Output(name) for name in _star_names(meant, merged)]
            else:
                scope.are_outputs_known = False
            return
        titles = [r.called.casefold() for r in scope.relations]
        for relation in meant:
            names = [name.casefold() for name, _ in relation.columns or ()]
            if not relation.called or titles.count(relation.called.casefold()) > 1:
                scope.hold()
            if len(set(names)) < len(names):
                scope.hold()
            for name, _ in relation.columns or ():
                found = relation.find(name.casefold())
                scope.outputs.append(Output(name, found))
                self._note((found or UNCLEAR).meaning)
        start, end = self._span(star)
        if isinstance(item, exp.Column):
            start = self._span(item.parts[0])[0]
        parts = tuple(_star_part(relation) for relation in meant)
        self.bindings.append(StarBinding(start, end, parts, is_path))

    def _is_struct(self, item: exp.Expr, scope: Scope) -> bool:
        """Whether a star may stand for the fields of a column."""
        is_known = all(relation.columns is not None for relation in scope.every)
        if not is_known or not isinstance(item, exp.Column):
            return True
        return scope.find([part.name.casefold() for part in item.parts]) is not None


def _star_relations(item: exp.Expr, scope: Scope) -> tuple[list[Relation], bool]:
    """The relations a star is of, and whether it names one with its branch."""
    if not isinstance(item, exp.Column):
        return list(scope.relations), False
    names = [part.name.casefold() for part in item.parts[:-1]]
    if len(names) == 1:
        return [r for r in scope.relations if r.called.casefold() == names[0]], False
    path = ".".join(names)
    found = [
        r
        for r in scope.relations
        if r.branch and path in (f"{r.branch}.{r.called.casefold()}", r.called.casefold())
    ]
    return found, bool(found)


def _star_names(relations: Sequence[Relation], scope: Scope) -> list[str]:
    """The names of the columns of relations, those that a join made one before the others."""
    names = [name for relation in relations for name, _ in relation.columns or ()]
    first = {name.casefold(): name for name in reversed(names) if name.casefold() in scope.merged}
    merged = [first[name] for name in scope.merged if name in first]
    return merged + [name for name in names if name.casefold() not in first]


def _star_part(relation: Relation) -> StarPart:
    is_table = relation.table is not None
    columns = tuple(column if is_table else name for name, column in relation.columns or ())
    return StarPart(relation.called, columns, relation.table)


def _names_in(tree: exp.Select) -> list[str]:
    """What the relations of FROM are called, in lower case."""
    return [node.alias_or_name.casefold() for node in _from_nodes(tree)]


def _from_nodes(tree: exp.Select) -> Iterator[exp.Expr]:
    clause = tree.args.get("from_")
    if clause is not None:
        yield clause.this
    for join in tree.args.get("joins") or ():
        yield join.this


def _plain(names: Outputs) -> list[tuple[str, str]] | None:
    return None if names is None else [(name, "") for name in names]


def _values_columns(tree: exp.Values) -> list[str]:
    shown = alias_columns(tree)
    first = tree.expressions[0] if tree.expressions else None
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return shown or [f"col{at}" for at in range(1, width + 1)]
