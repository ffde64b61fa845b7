"""Bind the names of a query or an expression to tables and columns, by spans of its text.

The tree says what a name stands for and its tokens where it is; nothing is printed from it.  What
is not bound to one span is kept by holding the names of the tables around it (see
`TableBinding`); what cannot be read that way is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.bindings import (
    Binding,
    BoundQuery,
    BoundTable,
    ColumnBinding,
    OutputBinding,
    StarBinding,
    StarPart,
    TableBinding,
    UsingBinding,
    VariableBinding,
    in_order,
)
from livingdb.sql.column_titles import title_of
from livingdb.sql.name_scopes import UNCLEAR, Found, Output, Outputs, Relation, Scope
from livingdb.sql.parse import parse_expression, parse_statement, tokenize
from livingdb.sql.table_names import is_cte, is_range, table_nodes
from livingdb.sql.text_spans import item_span

__all__ = ["FindTable", "Resolution", "bind_expression", "bind_query", "resolve"]

FindTable = Callable[[exp.Table], BoundTable]
"""The table that a name in FROM stands for; it raises `NotFound` if there is none."""

_NAMING = (exp.Dot, exp.Window)
"""Nodes with names that are no columns' or variables', but for the first of their parts."""
_NAMED_BY_ARGUMENTS = ("arrays_zip",)
"""Functions whose result has fields named by their arguments, which cannot be given names."""


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
    for call in tree.find_all(exp.Func):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        if name.casefold() in _NAMED_BY_ARGUMENTS:
            raise Unsupported(f"{text!r}: {name.lower()} gives fields the names of columns")
    resolver = _Resolver(text, _no_table)
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
    resolver = _Resolver(text, find)
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


class _Resolver:
    """Walks one query."""

    def __init__(self, text: str, find: FindTable):
        self.text = text
        self.bindings: list[Binding] = []
        self.tables: dict[str, BoundTable] = {}
        self.trace: list[tuple[tuple[str, int, str], int]] = []
        self._find = find
        self._occurrences: list[TableBinding] = []
        self._nodes: set[int] = set()
        self._held: set[int] = set()
        self.unknown: list[str] = []
        self._relations = 0
        self._groups = 0

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
                inside[part.alias.casefold()] = _alias_columns(part) or None
            given = self.query(part.this, inside, None)
            known[part.alias.casefold()] = _alias_columns(part) or given
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
        shown = _alias_columns(node)
        if node.args.get("pivots") or node.args.get("joins"):
            self._hold_within(node, scope.ctes)
            return Relation(number, node.alias_or_name, None)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if is_cte(node):
                self._nodes.add(id(node))
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
        self._nodes.add(id(node))
        at = self._add_table(node, table, name, scope.ctes)
        self._note(("table", at, table.id))
        columns = [(column.name, column.id) for column in table.columns]
        shown = _alias_columns(node)
        if not shown:
            return Relation(number, name, columns, at, "" if node.alias else branch)
        self._held.add(at)
        return Relation(number, name, _plain(shown))

    def _add_table(
        self, node: exp.Table, table: BoundTable, name: str, ctes: Mapping[str, Outputs]
    ) -> int:
        known = self.tables.setdefault(table.id, table)
        if known != table:
            raise InvalidData(f"the table {table.name!r} has two definitions in one query")
        parts = [*node.parts]
        start, end = self._span(parts[0])[0], self._span(parts[-1])[1]
        if node.args.get("version") is not None:
            end = self._end_of_version(node, end)
        is_aliased = bool(node.alias)
        if node.args.get("sample") is not None and not is_aliased:
            raise Unsupported(f"{node.name!r}: in a stored query a sample takes an alias")
        if is_aliased and _alias_columns(node):
            self._held.add(len(self._occurrences))
        written = ".".join(part.name for part in parts)
        is_path = node.args.get("version") is not None
        is_path = is_path or written.casefold() != table.name.casefold()
        binding = TableBinding(
            start, end, table.id, name, is_aliased, is_path, shadows=tuple(sorted(ctes))
        )
        self._occurrences.append(binding)
        return len(self._occurrences) - 1

    def _end_of_version(self, node: exp.Table, end: int) -> int:
        """Where `VERSION AS OF …` ends: after the literal that follows these words."""
        words = [token for token in tokenize(self.text) if token.start >= end]
        is_literal = isinstance(node.args["version"].expression, exp.Literal)
        for at, token in enumerate(words if is_literal else ()):
            if token.text.upper() == "OF" and at + 1 < len(words):
                return int(words[at + 1].end) + 1
        raise Unsupported(f"{node.name!r}: the end of VERSION AS OF cannot be told; quote the ref")

    def _lateral(self, node: exp.Expr, scope: Scope) -> Relation:
        self._relations += 1
        number = self._relations
        shown = _alias_columns(node)
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
        self._nodes.add(id(item))
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

    # --- expressions ----------------------------------------------------------------------------

    def expression(
        self, node: exp.Expr, scope: Scope, variables: Mapping[str, int] | None = None
    ) -> None:
        """Bind the names in an expression."""
        known = variables or {}
        if node.is_star and isinstance(node, (exp.Column, exp.Star)):
            if not isinstance(node.parent, exp.Count) or isinstance(node, exp.Column):
                scope.hold()
        elif isinstance(node, exp.Column):
            self._column(node, scope, variables=known)
        elif isinstance(node, exp.Query):
            self.query(node, scope.ctes, scope)
        elif isinstance(node, exp.Lambda):
            self._lambda(node, scope, known)
        elif isinstance(node, exp.Identifier):
            self._variable(node, scope, known)
        elif isinstance(node, exp.PropertyEQ):
            self._field(node, scope, known)
        elif not isinstance(node, exp.DataType):
            if isinstance(node, exp.Func) and _is_named_by_arguments(node):
                scope.hold()
            for child in node.iter_expressions():
                self.expression(child, scope, known)

    def _lambda(self, node: exp.Lambda, scope: Scope, variables: Mapping[str, int]) -> None:
        inner = dict(variables)
        for name in node.expressions:
            self._groups += 1
            inner[name.name.casefold()] = self._groups
            self._variable(name, scope, inner)
        self.expression(node.this, scope, inner)

    def _field(self, node: exp.PropertyEQ, scope: Scope, variables: Mapping[str, int]) -> None:
        """A field of a struct that is made; from what it is made it may have its name."""
        value, name = node.expression, node.this.name
        last = value.this if isinstance(value, exp.Column) else value
        is_implicit = "start" in node.this.meta and node.this.meta == last.meta
        if isinstance(value, exp.Column):
            self._column(value, scope, output=name if is_implicit else None, variables=variables)
        elif isinstance(value, exp.Identifier):
            self._variable(value, scope, variables, name if is_implicit else None)
        else:
            self.expression(value, scope, variables)

    def _variable(
        self,
        node: exp.Identifier,
        scope: Scope,
        variables: Mapping[str, int],
        output: str | None = None,
    ) -> None:
        """Bind the name of a variable.  Engines differ about `x.y`, if a relation is called `x`."""
        name = node.name.casefold()
        group = variables.get(name)
        is_dotted = isinstance(node.parent, exp.Dot)
        if group is None or (node.arg_key != "this" and isinstance(node.parent, _NAMING)):
            return
        if is_dotted and scope.has_relation(name):
            scope.hold()
        self._note(("variable", group, ""))
        self.bindings.append(VariableBinding(*self._span(node), group, output))

    def _column(
        self,
        node: exp.Column,
        scope: Scope,
        *,
        is_bare: bool = False,
        output: str | None = None,
        variables: Mapping[str, int] | None = None,
    ) -> Found | None:
        """Bind the name of a column.  `output` is the name that something has from it."""
        self._nodes.add(id(node))
        parts = node.parts
        names = [part.name.casefold() for part in parts]
        group = (variables or {}).get(names[0])
        if group is not None:
            if len(parts) > 1 and scope.has_relation(names[0]):
                scope.hold()
            self._note(("variable", group, ""))
            output = output if len(parts) == 1 else None
            self.bindings.append(VariableBinding(*self._span(parts[0]), group, output))
            return None
        found = scope.find(names, is_bare) or UNCLEAR
        if found == UNCLEAR:
            scope.hold()
            self.unknown.append(parts[0].name)
        if found.kind != "column":
            self._note(found.meaning)
            return found
        start, end = self._span(parts[found.part])
        if found.is_path:
            start = self._span(parts[0])[0]
        self._note(found.meaning, start)
        is_whole = found.part == len(parts) - 1
        self.bindings.append(
            ColumnBinding(
                start,
                end,
                found.of,
                found.name,
                is_qualified=found.part > 0 and not found.is_path,
                is_path=found.is_path,
                output=output if is_whole else None,
            )
        )
        return found

    def _note(self, meaning: tuple[str, int, str], place: int = -1) -> None:
        self.trace.append((meaning, place))

    # --- what is not bound ----------------------------------------------------------------------

    def _hold_within(self, tree: exp.Expr, ctes: Mapping[str, Outputs]) -> None:
        """Keep all names of the tables in a part of FROM that is not looked into."""
        self._nodes |= {id(column) for column in tree.find_all(exp.Column)}
        for node in sorted(table_nodes(tree), key=lambda table: self._span(table.parts[0])):
            if isinstance(node.this, exp.Identifier):
                self._nodes.add(id(node))
                self._held.add(self._add_table(node, self._find(node), node.alias_or_name, ctes))

    def hold_rest(self, tree: exp.Expr) -> None:
        """Keep all names, if something in the query was not seen."""
        hints = {id(node) for hint in tree.find_all(exp.Hint) for node in hint.walk()}
        for table in tree.find_all(exp.Table):
            if id(table) in self._nodes | hints or not isinstance(table.this, exp.Identifier):
                continue
            raise Unsupported(f"{table.name!r} stands where a stored query reads no table")
        columns = {id(node) for node in tree.find_all(exp.Column)} - hints
        stars = {id(n) for n in tree.find_all(exp.Column) if isinstance(n.this, exp.Star)}
        if columns - stars - self._nodes:
            self._held |= set(range(len(self._occurrences)))

    def _span(self, node: exp.Expr) -> tuple[int, int]:
        """Where a name is in the text."""
        place = node.meta
        if "start" in place:
            start, end = int(place["start"]), int(place["end"]) + 1
            if self.text[start:end].strip("`").replace("``", "`") == node.name.strip("`"):
                return start, end
        raise Unsupported(f"where {node.name!r} stands in the query cannot be told")

    def build(self, tree: exp.Expr) -> tuple[BoundQuery, Mapping[int, int]]:
        """The bound query, and the numbers of tables in the order of the text by those given."""
        order = sorted(range(len(self._occurrences)), key=lambda n: self._occurrences[n].start)
        numbers = {old: new for new, old in enumerate(order)}
        moved = [_renumbered(item, numbers) for item in self.bindings]
        for old, item in enumerate(self._occurrences):
            is_held = old in self._held
            uses = self._held_uses(tree, item) if is_held else _uses(moved, numbers[old])
            moved.append(replace(item, is_held=is_held, uses=tuple(sorted(uses))))
        return BoundQuery(self.text, tuple(self.tables.values()), in_order(moved)), numbers

    def _held_uses(self, tree: exp.Expr, item: TableBinding) -> set[str]:
        """The columns a query may need of a table whose names are held: all that it mentions."""
        stars = (n for n in tree.find_all(exp.Star) if not isinstance(n.parent, exp.Count))
        is_all = any(True for _ in stars) or any(j.method for j in tree.find_all(exp.Join))
        named = {node.name.casefold() for node in tree.find_all(exp.Identifier)}
        columns = self.tables[item.table].columns
        return {c.id for c in columns if is_all or c.name.casefold() in named}


def _renumbered(item: Binding, numbers: Mapping[int, int]) -> Binding:
    if isinstance(item, ColumnBinding):
        return replace(item, of=numbers[item.of])
    if isinstance(item, UsingBinding):
        return replace(item, sides=tuple((numbers[of], column) for of, column in item.sides))
    if isinstance(item, StarBinding):
        parts = [p if p.of is None else replace(p, of=numbers[p.of]) for p in item.parts]
        return replace(item, parts=tuple(parts))
    return item


def _uses(bindings: Sequence[Binding], number: int) -> set[str]:
    found: set[str] = set()
    for item in bindings:
        if isinstance(item, ColumnBinding) and item.of == number:
            found.add(item.column)
        elif isinstance(item, UsingBinding):
            found |= {column for of, column in item.sides if of == number}
        elif isinstance(item, StarBinding):
            found |= {column for p in item.parts if p.of == number for column in p.columns}
    return found


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


def _alias_columns(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    return [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []


def _plain(names: Outputs) -> list[tuple[str, str]] | None:
    return None if names is None else [(name, "") for name in names]


def _values_columns(tree: exp.Values) -> list[str]:
    shown = _alias_columns(tree)
    first = tree.expressions[0] if tree.expressions else None
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return shown or [f"col{at}" for at in range(1, width + 1)]


def _is_named_by_arguments(call: exp.Func) -> bool:
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    return name.casefold() in _NAMED_BY_ARGUMENTS
