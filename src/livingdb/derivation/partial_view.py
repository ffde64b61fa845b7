"""Views of which only a part is stored: the rows for which a condition holds, the hot ones.

The condition compares columns of the view with constants, so that a read that asks for nothing
but hot rows is known by the ranges it asks for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from livingdb.derivation.compiler.query_trees import conjuncts
from livingdb.derivation.view import View
from livingdb.engines.pruning import scan_bounds
from livingdb.errors import InvalidData
from livingdb.sql.condition_ranges import ranges_of
from livingdb.sql.parse import parse_condition
from livingdb.sql.table_conditions import find_column
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.virtual_forest import Piece

__all__ = ["cold_pieces", "hot_view", "rest_query"]

_OPPOSITES: dict[type[exp.Expr], tuple[type[exp.Binary], ...]] = {
    exp.GT: (exp.LTE,),
    exp.GTE: (exp.LT,),
    exp.LT: (exp.GTE,),
    exp.LTE: (exp.GT,),
    exp.EQ: (exp.LT, exp.GT),
}


def hot_view(view: View) -> View:
    """The view of the rows that are stored."""
    query = _select_all(view).where(parse_condition(view.hot)).sql("spark", comments=False)
    return replace(view, query=query, materialize="full", bindings=None)


def rest_query(view: View) -> str:
    """The query that gives the other rows."""
    is_hot = exp.Coalesce(this=exp.paren(parse_condition(view.hot)), expressions=[exp.false()])
    return _select_all(view).where(exp.not_(is_hot)).sql("spark", comments=False)


def _select_all(view: View) -> exp.Select:
    return exp.select("*").from_(view.tree().subquery("livingdb_view"))


@lru_cache(maxsize=1024)
def cold_pieces(schema: TableSchema, where: str) -> tuple[Piece, ...]:
    """Where rows of a table lie for which the condition does not hold; `InvalidData`: no telling.

    Rows with nulls in columns that the condition compares are not counted: a read that meets them
    asks for no range of such a column, and so meets a piece, too.
    """

    def owner(column: exp.Column) -> Column | None:
        return None if column.table else find_column(schema, column.name)

    found: list[Piece] = []
    for part in conjuncts(parse_condition(where)):
        against = _negation(part.unnest())
        outside = {} if against is None else ranges_of(against, owner, {})
        if not outside:
            raise InvalidData(
                f"materialize='where {where}': {part.sql('spark')} does not compare a column of "
                "the view with a constant; write comparisons (=, <, <=, >, >=, BETWEEN, IN), "
                "with AND between them"
            )
        ((name, ranges),) = outside.items()
        if not ranges:
            raise InvalidData(
                f"materialize='where {where}': {part.sql('spark')} compares with the least or the "
                "greatest value there is, and tells no rows apart; leave it out"
            )
        for item in ranges:
            known = scan_bounds(schema, {name: (item,)})
            found.append((known.spans, known.filters))
    return tuple(found)


def _negation(part: exp.Expr) -> exp.Expr | None:
    """What holds where a comparison does not, nulls aside; None if it is no comparison."""
    kinds = _OPPOSITES.get(type(part))
    if kinds is not None:
        sides = part.this, part.expression
        return exp.or_(*(kind(this=sides[0].copy(), expression=sides[1].copy()) for kind in kinds))
    if isinstance(part, exp.Between) and not part.args.get("symmetric"):
        below = exp.LT(this=part.this.copy(), expression=part.args["low"].copy())
        above = exp.GT(this=part.this.copy(), expression=part.args["high"].copy())
        return exp.or_(below, above)
    if isinstance(part, exp.In) and part.expressions and not part.args.get("query"):
        others = (exp.EQ(this=part.this.copy(), expression=item) for item in part.expressions)
        return exp.and_(*(_negation(other) for other in others))
    return None
