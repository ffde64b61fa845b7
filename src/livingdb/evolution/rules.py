"""What a schema says of each row by itself: computed columns, NOT NULL and checks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.rows import Mask
from livingdb.sql.expressions import Expression
from livingdb.tables.schema import TableSchema

__all__ = ["breaks", "check_not_null", "check_rows", "first_key", "with_computed"]


def with_computed(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Rows with their computed columns as the expressions give them."""
    for at, column in enumerate(schema.columns):
        if column.computed is not None:
            values = Expression(column.computed).values(rows, column.type)
            rows = rows.set_column(at, column.field, values)
    return rows


def breaks(condition: Expression, rows: pa.Table) -> Mask:
    """Where rows make a condition false; null does not."""
    found = condition.values(rows, pa.bool_())
    mask: Mask = ~found.fill_null(True).to_numpy(zero_copy_only=False)
    return mask


def check_not_null(schema: TableSchema, rows: pa.Table) -> None:
    """`InvalidData` names a column that is null where it may not be, and the row's key."""
    for column in schema.columns:
        values = rows.column(column.name)
        if values.null_count and not column.nullable:
            wrong = np.asarray(values.is_null().to_numpy(), bool)
            raise InvalidData(
                f"column {column.name!r}: null in the row with the key "
                f"{first_key(schema, rows, wrong)}, but the column is NOT NULL"
            )


def check_rows(schema: TableSchema, rows: pa.Table) -> None:
    """`InvalidData` names the first column or check that a row breaks, and its key."""
    check_not_null(schema, rows)
    for name, text in schema.checks:
        wrong = breaks(Expression(text), rows)
        if wrong.any():
            raise InvalidData(
                f"the row with the key {first_key(schema, rows, wrong)} breaks "
                f"the check {name!r}: {text}"
            )


def first_key(schema: TableSchema, rows: pa.Table, where: Mask) -> str:
    """The key of the first row that the mask names, to be shown."""
    at = int(where.argmax())
    values = tuple(rows.column(name)[at].as_py() for name in schema.key)
    return repr(values[0] if len(values) == 1 else values)
