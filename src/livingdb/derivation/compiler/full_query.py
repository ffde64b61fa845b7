"""The query as written, over stored tables, for what is only recomputed in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.query_trees import output_name
from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.errors import InvalidData
from livingdb.sql.table_names import is_cte

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Compiler, Environment
    from livingdb.derivation.operators.node import Leaf

__all__ = ["build_full_query"]


def build_full_query(
    compiler: Compiler, tree: exp.Expr, around: Environment
) -> tuple[exp.Query, list[str], list[Leaf]]:
    """The query over tables by their names, the columns it gives, and the tables it reads."""
    query = tree.copy()
    query.pop()
    if isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    if not isinstance(query, exp.Query):
        raise InvalidData("a view is a query")
    own = query.args.get("with_")
    if around.clauses:
        clauses = [clause.copy() for clause in around.clauses]
        if own is not None:
            clauses += own.expressions
        recursive = None if own is None else own.args.get("recursive")
        query.set("with_", exp.With(expressions=clauses, recursive=recursive))
    _name_items(query)
    reads: dict[str, Leaf] = {}
    for node in query.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier) or is_cte(node):
            continue
        leaf = compiler.leaf(node.name)
        reads[leaf.name] = leaf
        if not node.alias:
            alias = node.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(node.name, quoted=True))
            node.set("alias", alias)
        node.set("this", exp.to_identifier(leaf.name, quoted=True))
    columns = _column_names(query, list(reads.values()))
    return query, columns, list(reads.values())


def _name_items(query: exp.Expr) -> None:
    """Give each item that has no name the one Spark gives it."""
    while isinstance(query, (exp.Subquery, exp.SetOperation)):
        query = query.this
    several = (exp.Aliases, exp.Explode, exp.Posexplode, exp.Inline)
    for item in query.args.get("expressions") or () if isinstance(query, exp.Select) else ():
        if item.is_star or isinstance(item, (exp.Alias, exp.Column, exp.Dot, *several)):
            continue
        name = output_name(item)
        item.replace(trees.with_alias(item.copy(), name))


def _column_names(query: exp.Query, reads: list[Leaf]) -> list[str]:
    """The names of the columns, which every item has to have."""
    schemas = {
        leaf.name: pa.schema([(n, kind or pa.null()) for n, kind in leaf.types.items()])
        for leaf in reads
    }
    known = check_portability(query.copy(), schemas)
    if isinstance(known, PortableQuery) and all(name for name, _ in known.columns):
        return [name for name, _ in known.columns]
    return _output_columns(
        query, {name.casefold(): schema.names for name, schema in schemas.items()}
    )


def _output_columns(query: exp.Expr, tables: dict[str, list[str]]) -> list[str]:
    tables = dict(tables)
    clause = query.args.get("with_")
    for part in clause.expressions if clause is not None else ():
        tables[part.alias.casefold()] = _alias_columns(part, _output_columns(part.this, tables))
    if isinstance(query, (exp.Subquery, exp.SetOperation)):
        return _output_columns(query.this, tables)
    found: list[str] = []
    for item in query.args.get("expressions") or ():
        if not item.is_star:
            found.append(output_name(item))
            continue
        wanted = item.table.casefold() if isinstance(item, exp.Column) else ""
        sources = [query.args["from_"].this, *(j.this for j in query.args.get("joins") or ())]
        for source in sources:
            if wanted and source.alias_or_name.casefold() != wanted:
                continue
            if isinstance(source, exp.Table):
                columns = tables.get(source.name.casefold(), [])
            else:
                columns = _output_columns(source, tables)
            found += _alias_columns(source, columns)
    return found


def _alias_columns(part: exp.Expr, columns: list[str]) -> list[str]:
    alias = part.args.get("alias")
    names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
    return names or columns
