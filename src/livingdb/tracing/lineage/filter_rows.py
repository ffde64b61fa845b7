"""Rows of one table for which plain comparisons hold, found without a query."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.engines.pruning import scan_bounds
from livingdb.sql.comparison import comparison_of
from livingdb.sql.condition_ranges import ranges_of_all
from livingdb.sql.parameters import constant
from livingdb.sql.table_conditions import find_column
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column

__all__ = ["filter_rows"]

Plain = tuple[str, pa.Scalar]
"""A column, and the value that it has."""


def filter_rows(rows: RowSet, condition: exp.Expr | None) -> tuple[pa.Table, bool] | None:
    """The rows for which the comparisons of columns with values in a condition hold.

    And whether the condition is nothing else.  None if it has no such comparison.
    """
    parts = list(trees.conjuncts(condition))
    plain = [found for part in parts if (found := _plain_comparison(rows, part)) is not None]
    if not plain:
        return None

    def owner(column: exp.Column) -> Column | None:
        return find_column(rows.schema, column.name)

    part = scan_bounds(rows.schema, ranges_of_all(parts, owner, {}))
    schema = rows.schema.arrow
    kept = [
        batch
        for span in part.spans
        for read in rows.batches(schema.names, span, part.filters)
        for batch in _filter_batch(read, plain)
    ]
    rest = [part for part in parts if not _is_trivial(part)]
    return pa.Table.from_batches(kept, schema=schema), len(plain) == len(rest)


def _filter_batch(batch: pa.RecordBatch, plain: Sequence[Plain]) -> Iterator[pa.RecordBatch]:
    mask = None
    for name, value in plain:
        column = batch.column(name)
        same = pc.equal(column, value) if value.is_valid else pc.is_null(column)
        mask = same if mask is None else pc.and_(mask, same)
    found = batch.filter(mask)
    if found.num_rows:
        yield found


def _is_trivial(part: exp.Expr) -> bool:
    return isinstance(part, exp.Boolean) and bool(part.this)


def _plain_comparison(rows: RowSet, part: exp.Expr) -> Plain | None:
    """A column and the value that a condition says it has, both of the same type."""
    part = part.unnest()
    found = comparison_of(part)
    is_null = isinstance(part, exp.Is) and isinstance(part.expression, exp.Null)
    node = part.this if is_null else None if found is None else found.column
    column = find_column(rows.schema, node.name) if isinstance(node, exp.Column) else None
    if column is None:
        return None
    if is_null:
        return column.name, pa.scalar(None, column.type)
    if found is None or found.operator != "=":
        return None
    value = constant(found.operand, {})
    if value is None or not _has_type(column.type, value):
        return None
    try:
        return column.name, pa.scalar(value, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


def _has_type(kind: pa.DataType, value: object) -> bool:
    """Whether a value is of a type whose equal values have equal bits."""
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if pa.types.is_date32(kind):
        return type(value) is datetime.date
    if pa.types.is_decimal(kind):
        return isinstance(value, decimal.Decimal)
    return bool(pa.types.is_boolean(kind)) and isinstance(value, bool)
