"""The rows of a table for which a condition in SQL holds."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.engine_choice import answer_request
from livingdb.engines.request import Request, Source
from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.condition_ranges import ranges_of
from livingdb.sql.parameters import bind_parameters
from livingdb.sql.parse import parse_condition
from livingdb.sql.table_conditions import find_column
from livingdb.sql.table_names import check_columns
from livingdb.tables.letter_case import alike_names, column_names
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column
from livingdb.trees.scan import ALL, Span

__all__ = ["select_where"]

_TABLE = "given"


def select_where(
    rows: RowSet,
    where: str,
    columns: Sequence[str] | None = None,
    engine: str | None = None,
    *,
    within: Span = ALL,
    most: int | None = None,
) -> pa.Table:
    """The rows for which the condition holds, in key order, in the table's own types.

    `engine` is one that is to answer whatever is asked; None: the one that suits.  `within` are
    the keys of the rows that are looked at, and `most` is how many are wanted: no more is computed
    than these need.
    """
    try:
        return _select_where(rows, where, columns, engine, within, most)
    except RecursionError:
        raise InvalidData("the condition is nested too deeply") from None


def _select_where(
    rows: RowSet,
    where: str,
    columns: Sequence[str] | None,
    engine: str | None,
    within: Span,
    most: int | None,
) -> pa.Table:
    schema = rows.schema
    chosen = (
        list(schema.visible_columns) if columns is None else [schema.column(c) for c in columns]
    )
    shown = {column.name for column in schema.visible_columns}
    for column in chosen:
        if column.name not in shown:
            raise Unsupported(f"the column {column.name!r} is hidden: no condition goes with it")
    condition = parse_condition(where)
    bind_parameters(condition, None)
    if condition.find(exp.Query, exp.AggFunc, exp.Window):
        raise Unsupported("a condition on one table has no subqueries, aggregates or windows")
    check_columns(condition, [column_names(schema)])

    def owner(column: exp.Column) -> Column | None:
        return None if column.table else find_column(schema, column.name)

    wanted = chosen or list(schema.visible_columns[:1])
    items: list[exp.Expr] = [exp.column(column.name, quoted=True) for column in wanted]
    is_unclear = bool(alike_names(column_names(schema)))
    query = exp.select(*([exp.Star()] if is_unclear else items)).from_(_TABLE).where(condition)
    if most is not None:
        query = query.limit(most)
    source = Source(rows, ranges_of(condition, owner, {}), span=within)
    found, _ = answer_request(Request(query, {_TABLE: source}), engine)
    if is_unclear:
        visible = [column.name for column in schema.visible_columns]
        found = found.select([visible.index(column.name) for column in wanted])
    if not chosen:
        return found.select([])
    fields = pa.schema([column.field for column in chosen])
    arrays = [found.column(at).cast(field.type) for at, field in enumerate(fields)]
    return pa.Table.from_arrays(arrays, schema=fields)
