"""A query as it is written, for what can only be answered in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable import Portable, portable
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    from livingdb.derivation.compiler import Compiler, Environment
    from livingdb.derivation.nodes import Leaf

__all__ = ["written"]


def written(
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
        query.set("with_", exp.With(expressions=clauses))
    hidden = {name.casefold() for name in around.blocks}
    hidden |= {part.alias.casefold() for part in query.find_all(exp.CTE)}
    reads: dict[str, Leaf] = {}
    for node in query.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier) or node.name.casefold() in hidden:
            continue
        leaf = compiler._table(node.name).node
        assert hasattr(leaf, "name")
        reads[leaf.name] = leaf  # type: ignore[assignment]
        if not node.alias and node.name != leaf.name:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", exp.to_identifier(leaf.name, quoted=True))
    columns = _columns(query, list(reads.values()))
    return query, columns, list(reads.values())


def _columns(query: exp.Query, reads: list[Leaf]) -> list[str]:
    """The names of the columns, which every item has to have."""
    schemas = {
        leaf.name: pa.schema([(n, kind or pa.null()) for n, kind in leaf.types.items()])
        for leaf in reads
    }
    known = portable(query.copy(), schemas)
    if isinstance(known, Portable) and all(name for name, _ in known.columns):
        return [name for name, _ in known.columns]
    return _spoken(query, {name.casefold(): schema.names for name, schema in schemas.items()})


def _spoken(query: exp.Expr, tables: dict[str, list[str]]) -> list[str]:
    tables = dict(tables)
    clause = query.args.get("with_")
    for part in clause.expressions if clause is not None else ():
        tables[part.alias.casefold()] = _aliased(part, _spoken(part.this, tables))
    if isinstance(query, (exp.Subquery, exp.SetOperation)):
        return _spoken(query.this, tables)
    found: list[str] = []
    for item in query.args.get("expressions") or ():
        if not item.is_star:
            found.append(_title(item))
            continue
        wanted = item.table.casefold() if isinstance(item, exp.Column) else ""
        sources = [query.args["from_"].this, *(j.this for j in query.args.get("joins") or ())]
        for source in sources:
            if wanted and source.alias_or_name.casefold() != wanted:
                continue
            if isinstance(source, exp.Table):
                columns = tables.get(source.name.casefold(), [])
            else:
                columns = _spoken(source, tables)
            found += _aliased(source, columns)
    return found


def _aliased(part: exp.Expr, columns: list[str]) -> list[str]:
    alias = part.args.get("alias")
    names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
    return names or columns


def _title(item: exp.Expr) -> str:
    if isinstance(item, (exp.Alias, exp.Column, exp.Dot)):
        return str(item.alias_or_name)
    return item.sql("spark", normalize_functions="lower", comments=False)
