"""Builders and predicates for sqlglot query trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.sql.column_titles import with_spark_titles

__all__ = [
    "and_all",
    "column",
    "column_types",
    "columns_in",
    "conjuncts",
    "is_column",
    "is_resolved",
    "mark_resolved",
    "mentioned_columns",
    "output_name",
    "parenthesize",
    "table",
    "unwrap",
    "with_alias",
]

_RESOLVED = "resolved"


def column(relation: str, name: str) -> exp.Column:
    """A column of a relation."""
    made = exp.column(name, table=relation, quoted=True)
    made.meta[_RESOLVED] = True
    return made


def mark_resolved(node: exp.Expr) -> exp.Expr:
    """Remember that a node was made here."""
    node.meta[_RESOLVED] = True
    return node


def is_resolved(node: exp.Expr) -> bool:
    """Whether a column or query was made here, and is not as somebody wrote it."""
    return bool(node.meta.get(_RESOLVED))


def table(name: str, alias: str | None = None) -> exp.Table:
    """A relation by its name."""
    found = exp.Table(this=exp.to_identifier(name, quoted=True))
    if alias is not None:
        found.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return found


def with_alias(expression: exp.Expr, name: str) -> exp.Alias:
    """An expression as a column of a result."""
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def and_all(conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """One condition that says all of them."""
    made: exp.Expr | None = None
    for condition in conditions:
        part: exp.Expr = condition.copy()
        if isinstance(part, exp.Or):
            part = exp.Paren(this=part)
        made = part if made is None else exp.And(this=made, expression=part)
    return made


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that all have to hold."""
    if condition is None:
        return
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren) and isinstance(condition.this, (exp.And, exp.Paren)):
        yield from conjuncts(condition.this)
    else:
        yield condition


def columns_in(*expressions: exp.Expr | None) -> Iterator[tuple[str, str]]:
    """The columns of relations that expressions speak of."""
    for expression in expressions:
        if expression is None:
            continue
        for node in expression.find_all(exp.Column):
            yield node.table, node.name


def is_column(expression: exp.Expr) -> bool:
    """Whether an expression is a column as it is."""
    return isinstance(expression, exp.Column)


def unwrap(root: exp.Paren) -> exp.Expr:
    """The expression that was put in parentheses, so that all of it could be replaced."""
    made: exp.Expr = root.this
    made.pop()
    return made


def mentioned_columns(query: exp.Expr, columns: Sequence[str]) -> frozenset[str]:
    """The columns of a table that a query may use: those whose names are anywhere in it."""
    is_whole = any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star))
    if is_whole or any(join.method for join in query.find_all(exp.Join)):
        return frozenset(columns)
    spoken = {node.name.casefold() for node in query.find_all(exp.Identifier)}
    return frozenset(name for name in columns if name.casefold() in spoken)


def column_types(
    select: exp.Select, schemas: Mapping[str, Mapping[str, pa.DataType | None]]
) -> dict[str, pa.DataType | None]:
    """The types of the columns of a query over relations; None where they are not known."""
    given = {
        name: pa.schema([(column, kind or pa.null()) for column, kind in types.items()])
        for name, types in schemas.items()
    }
    names = [item.alias for item in select.expressions]
    found = check_portability(select.copy(), given)
    if isinstance(found, PortableQuery):
        return _known_types(names, [kind for _, kind in found.columns])
    out: dict[str, pa.DataType | None] = {}
    for item in select.expressions:
        inner = item.this
        if isinstance(inner, exp.Column):
            out[item.alias] = schemas.get(inner.table, {}).get(inner.name)
            continue
        alone = select.copy()
        alone.set("expressions", [item.copy()])
        one = check_portability(alone, given)
        out[item.alias] = one.columns[0][1] if isinstance(one, PortableQuery) else None
    return out


def _known_types(
    names: Iterable[str], kinds: Iterable[pa.DataType]
) -> dict[str, pa.DataType | None]:
    return {
        name: None if pa.types.is_null(kind) else kind
        for name, kind in zip(names, kinds, strict=True)
    }


def parenthesize(found: exp.Expr, node: exp.Expr) -> exp.Expr:
    """The expression so that it stays one where it is put, in the place of a node."""
    is_alone = isinstance(found, (exp.Column, exp.Func, exp.Paren, exp.Literal, exp.Cast))
    is_free = isinstance(node.parent, (exp.Alias, exp.Paren)) or node.parent is None
    return found if is_alone or is_free else exp.Paren(this=found)


def output_name(item: exp.Expr) -> str:
    """The name Spark gives the column of an item."""
    select = exp.Select(expressions=[item.copy()])
    names = with_spark_titles(select, pa.table({"": pa.array([], pa.int64())})).column_names
    return str(names[0]) or str(item.alias_or_name) or "col"
