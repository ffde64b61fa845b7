"""Normalises a view's query for tracing: CTEs inlined, columns qualified, relation names unique.

Names of WITH clauses are replaced by what they stand for, every column says which relation it is
of, and no two relations of the query have the same name, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from livingdb.derivation.compiler import parentheses

__all__ = [
    "Untraceable",
    "has_aggregate",
    "is_correlated",
    "is_grouped",
    "normalize_query",
    "own_nodes",
    "relation_names",
    "relations_of",
    "selects_of",
    "without_alias",
    "without_parentheses",
]


class Untraceable(Exception):
    """A query of which nothing can be said but which tables it reads."""


def normalize_query(query: exp.Query, schemas: Mapping[str, pa.Schema]) -> exp.Query:
    """The query with every name spelled out; `Untraceable` if that cannot be done."""
    from sqlglot.optimizer.qualify import qualify

    made = parentheses.without_parentheses(query)
    _inline_ctes(made)
    known: dict[str, object] = {
        name: {field.name: "unknown" for field in schema} for name, schema in schemas.items()
    }
    try:
        found = qualify(made, dialect="spark", schema=known, isolate_tables=False)
    except SqlglotError as error:
        raise Untraceable(str(error)) from None
    _restore_names(found, schemas)
    _number_relations(found)
    _flatten_subqueries(found)
    return found


# --- WITH -----------------------------------------------------------------------------------


def _inline_ctes(tree: exp.Expr) -> None:
    """Put what a WITH clause defines where its names stand, the innermost clauses first."""
    holders = [node for node in tree.find_all(exp.Query) if node.args.get("with_")]
    for holder in reversed(holders):
        clause = holder.args["with_"]
        if clause.args.get("recursive"):
            raise Untraceable("WITH RECURSIVE")
        parts = list(clause.expressions)
        for place, part in enumerate(parts):
            for scope in (*parts[place + 1 :], *_bodies(holder)):
                _replace_references(scope, part)
        holder.set("with_", None)


def _bodies(holder: exp.Expr) -> Iterator[exp.Expr]:
    """Everything a WITH clause is for."""
    for key, value in holder.args.items():
        if key == "with_":
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.Expr):
                yield item


def _replace_references(scope: exp.Expr, part: exp.CTE) -> None:
    for table in list(scope.find_all(exp.Table)):
        same = isinstance(table.this, exp.Identifier) and not table.db
        if not same or table.name.casefold() != part.alias.casefold():
            continue
        alias = table.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(table.name, quoted=True))
        names = part.args["alias"].args.get("columns")
        if names and not alias.args.get("columns"):
            alias.set("columns", [name.copy() for name in names])
        joins = table.args.get("joins")
        if joins or table.args.get("pivots") or table.args.get("sample"):
            raise Untraceable("a WITH name that is more than a name")
        made = exp.Subquery(this=part.this.copy(), alias=alias.copy())
        table.replace(made)


# --- names ----------------------------------------------------------------------------------


def _restore_names(tree: exp.Expr, schemas: Mapping[str, pa.Schema]) -> None:
    """Let tables have the names they have, in their case."""
    names = {name.casefold(): name for name in schemas}
    for table in tree.find_all(exp.Table):
        name = names.get(table.name.casefold())
        if name is None:
            raise Untraceable(f"{table.sql('spark')} is no table")
        table.set("this", exp.to_identifier(name, quoted=True))


def _number_relations(tree: exp.Expr) -> None:
    """Give every relation a name of its own."""
    made: list[tuple[exp.Expr, str]] = []
    renamed: dict[tuple[int, str], str] = {}
    for select in tree.find_all(exp.Select):
        for node in (*(n for n, _ in relations_of(select)), *(select.args.get("laterals") or ())):
            old = node.alias_or_name.casefold()
            if not old or (id(select), old) in renamed:
                raise Untraceable("a relation without a name of its own")
            renamed[id(select), old] = f"r{len(renamed)}"
            made.append((node, renamed[id(select), old]))
    for column in tree.find_all(exp.Column):
        if not column.table:
            continue
        around: exp.Expr | None = column.parent
        while around is not None:
            name = renamed.get((id(around), column.table.casefold()))
            if name is not None:
                column.set("table", exp.to_identifier(name, quoted=True))
                break
            around = around.parent
    for node, name in made:
        alias = node.args.get("alias") or exp.TableAlias()
        alias.set("this", exp.to_identifier(name, quoted=True))
        node.set("alias", alias)


# --- queries in FROM ------------------------------------------------------------------------


def _flatten_subqueries(tree: exp.Expr) -> None:
    """Read tables themselves, where queries in FROM do no more than name their columns.

    And keep some of their rows, if nothing else stands in FROM.
    """
    for select in reversed(list(tree.find_all(exp.Select))):
        for node, join in relations_of(select):
            inner = node.this if isinstance(node, exp.Subquery) else None
            if not isinstance(inner, exp.Select) or not _is_projection(inner):
                continue
            where = inner.args.get("where")
            is_alone = join is None and len(relations_of(select)) == 1
            if where is not None and (not is_alone or select.args.get("laterals")):
                continue
            _inline_table(tree, select, node, inner)


def _is_projection(select: exp.Select) -> bool:
    parts = {key for key, value in select.args.items() if value}
    plain = all(isinstance(without_alias(item), exp.Column) for item in select.expressions)
    table = select.args["from_"].this if "from_" in parts else None
    return plain and isinstance(table, exp.Table) and parts <= {"expressions", "from_", "where"}


def _inline_table(tree: exp.Expr, select: exp.Select, node: exp.Expr, inner: exp.Select) -> None:
    """Put the table of a query in its place."""
    table = inner.args["from_"].this
    given = [column.name for column in node.args["alias"].args.get("columns") or ()]
    shown = given or [item.alias_or_name for item in inner.expressions]
    names = {
        name.casefold(): without_alias(item).this
        for name, item in zip(shown, inner.expressions, strict=True)
    }
    for column in list(tree.find_all(exp.Column)):
        if column.table == node.alias:
            column.set("this", names[column.name.casefold()].copy())
            column.set("table", exp.to_identifier(table.alias, quoted=True))
    where = inner.args.get("where")
    if where is not None:
        select.where(where.this.copy(), copy=False)
    node.replace(table.copy())


# --- parts ----------------------------------------------------------------------------------


def relations_of(select: exp.Select) -> list[tuple[exp.Expr, exp.Join | None]]:
    """What stands in FROM, each with the join that brings it in."""
    clause = select.args.get("from_")
    if clause is None:
        return []
    return [(clause.this, None), *((join.this, join) for join in select.args.get("joins") or ())]


def relation_names(tree: exp.Expr) -> set[str]:
    """The names of the relations that a query has, wherever in it."""
    names: set[str] = set()
    for select in tree.find_all(exp.Select):
        names |= {node.alias for node, _ in relations_of(select)}
        names |= {node.alias for node in select.args.get("laterals") or ()}
    return names


def is_correlated(query: exp.Expr) -> bool:
    """Whether a query speaks of rows of one around it."""
    inside = relation_names(query)
    return any(c.table and c.table not in inside for c in query.find_all(exp.Column))


def without_parentheses(query: exp.Expr) -> exp.Expr:
    """The query that others stand around as parentheses."""
    while isinstance(query, (exp.Subquery, exp.Paren)):
        query = query.this
    return query


def selects_of(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs of set operations that a row may come from."""
    query = without_parentheses(query)
    if isinstance(query, exp.Select):
        yield query
    elif isinstance(query, exp.SetOperation):
        yield from selects_of(query.this)
        if not isinstance(query, exp.Except):
            yield from selects_of(query.expression)


def without_alias(item: exp.Expr) -> exp.Expr:
    """An item of SELECT without its name."""
    return cast("exp.Expr", item.this) if isinstance(item, exp.Alias) else item


def own_nodes(root: exp.Expr, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of these kinds in an expression, but not in queries within it."""
    if isinstance(root, kinds):
        yield root
    for child in root.iter_expressions():
        if not isinstance(child, exp.Query) or isinstance(child, kinds):
            yield from own_nodes(child, *kinds)


def has_aggregate(expression: exp.Expr) -> bool:
    """Whether an expression has an aggregate that is no window's."""
    for node in own_nodes(expression, exp.AggFunc):
        above, inside = node.parent, False
        while above is not None and above is not expression.parent:
            if isinstance(above, exp.Window):
                inside = _is_window_function(above, node)
                break
            above = above.parent
        if not inside:
            return True
    return False


def _is_window_function(window: exp.Window, node: exp.Expr) -> bool:
    """Whether an aggregate is what a window computes, not what it is computed from."""
    called = window.this
    while isinstance(called, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        called = called.this
    return called is node


def is_grouped(select: exp.Select) -> bool:
    """Whether the rows of a SELECT come in groups."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    roots = [*select.expressions]
    for clause in ("qualify", "order"):
        if select.args.get(clause) is not None:
            roots.append(select.args[clause])
    return any(has_aggregate(root) for root in roots)
