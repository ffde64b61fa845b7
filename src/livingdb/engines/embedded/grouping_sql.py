"""GROUP BY with several sets as DuckDB reads it: each set written out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.spark_casts import cast_to_spark_type
from livingdb.engines.portable.grouping_sets import Sets, is_grouping_call, sets_of
from livingdb.engines.portable.signature_matching import NotPortable

__all__ = ["write_grouping_sets"]


def write_grouping_sets(select: exp.Select) -> exp.Expr:
    """The query with its sets written out, which is what Spark means by them.

    There is no group without rows, not even of the set that holds no column.
    """
    group = select.args.get("group")
    try:
        sets = None if group is None else sets_of(select, by_alias=False)
    except NotPortable:
        return select
    if sets is None or not sets.columns:
        return select
    for call in list(_grouping_calls(select)):
        bits = exp.Grouping(expressions=_columns_asked_for(call, sets))
        is_one = isinstance(call, exp.Grouping)
        call.replace(cast_to_spark_type(bits, pa.int8()) if is_one else bits)
    written = [
        exp.Tuple(expressions=[sets.columns[at].copy() for at in sorted(some)])
        for some in sets.sets
    ]
    select.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=written)]))
    if not all(sets.sets):
        has_rows = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
        having = select.args.get("having")
        condition = has_rows if having is None else exp.and_(having.this, has_rows)
        select.set("having", exp.Having(this=condition))
    return select


def _columns_asked_for(call: exp.Expr, sets: Sets) -> list[exp.Expr]:
    if not call.expressions:
        return [column.copy() for column in sets.columns]
    places = [(argument, sets.place(argument)) for argument in call.expressions]
    return [item if at is None else sets.columns[at].copy() for item, at in places]


def _grouping_calls(select: exp.Select) -> Iterator[exp.Expr]:
    """Calls of `grouping` and `grouping_id` that are about this query."""
    for node in select.walk(prune=lambda each: each is not select and isinstance(each, exp.Query)):
        if is_grouping_call(node):
            yield node
