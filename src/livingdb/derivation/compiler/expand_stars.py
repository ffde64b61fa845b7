"""Stars in a view's query become the columns there are when it is made.

So a column that a table gets later does not change the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from livingdb.errors import NotFound
from livingdb.sql.table_names import is_cte

__all__ = ["expand_stars"]


def expand_stars(tree: exp.Expr, tables: Mapping[str, Sequence[str]]) -> None:
    """Replace the stars of every SELECT whose sources are known, the innermost first."""
    selects = list(tree.find_all(exp.Select))
    for select in reversed(selects):
        if any(_is_star(item) for item in select.expressions):
            _expand_select(select, tables)


def _is_star(item: exp.Expr) -> bool:
    is_all = isinstance(item, exp.Star)
    return is_all or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _expand_select(select: exp.Select, tables: Mapping[str, Sequence[str]]) -> None:
    sources = _sources(select, tables)
    if sources is None:
        return
    made: list[exp.Expr] = []
    for item in select.expressions:
        star = item if isinstance(item, exp.Star) else item.this
        if not _is_star(item):
            made.append(item)
            continue
        if star.args.get("except_") or star.args.get("replace") or star.args.get("rename"):
            return
        wanted = item.table.casefold() if isinstance(item, exp.Column) else None
        meant = [(n, columns) for n, columns in sources if wanted in (None, n.casefold())]
        if not meant:
            _check_struct(item, sources)
            made.append(item)
        made += [_column(name, column) for name, columns in meant for column in columns]
    select.set("expressions", made)


def _check_struct(star: exp.Column, sources: Sequence[tuple[str, Sequence[str]]]) -> None:
    """`NotFound` if what a star is of is no column either, whose fields it could mean."""
    name = star.table.casefold()
    if not any(name == column.casefold() for _, columns in sources for column in columns):
        known = ", ".join(source for source, _ in sources)
        raise NotFound(f"{star.table}.*: there is no {star.table!r} in FROM; there are: {known}")


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True))


def _sources(
    select: exp.Select, tables: Mapping[str, Sequence[str]]
) -> list[tuple[str, Sequence[str]]] | None:
    """What stands in FROM, in order, with its columns; None if that is not known."""
    clause = select.args.get("from_")
    joins = select.args.get("joins") or []
    if clause is None or select.args.get("laterals"):
        return None
    nodes = [clause.this]
    for join in joins:
        if join.args.get("using") or join.method or str(join.kind).upper() in ("SEMI", "ANTI"):
            return None
        nodes.append(join.this)
    found = []
    for node in nodes:
        columns = _columns(select, node, tables)
        if columns is None or not node.alias_or_name:
            return None
        found.append((node.alias_or_name, columns))
    return found


def _columns(
    select: exp.Select, node: exp.Expr, tables: Mapping[str, Sequence[str]]
) -> Sequence[str] | None:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return [str(column.name) for column in alias.args["columns"]]
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        return _output_names(node.this)
    if not isinstance(node, exp.Table) or node.args.get("joins"):
        return None
    if not is_cte(node):
        return tables.get(node.name)
    scope: exp.Expr | None = select
    while scope is not None:
        clause = scope.args.get("with_")
        for part in clause.expressions if clause is not None else ():
            if part.alias.casefold() == node.name.casefold():
                if part.args["alias"].args.get("columns"):
                    return [str(column.name) for column in part.args["alias"].args["columns"]]
                return _output_names(part.this)
        scope = scope.parent
    return None


def _output_names(query: exp.Expr) -> Sequence[str] | None:
    """The names of a query's columns; None if one has none, or there is a star left."""
    if not isinstance(query, exp.Query):
        return None
    titles = [item.alias_or_name for item in query.selects]
    return None if any(name in ("", "*") for name in titles) else titles
