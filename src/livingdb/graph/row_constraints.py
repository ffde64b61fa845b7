"""What a schema says of each row by itself: computed and read-only columns, NOT NULL, checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.sql.expressions import Expression
from livingdb.tables.batches import flat
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.keys import member

__all__ = [
    "check_conditions",
    "check_not_null",
    "check_rows",
    "first_key",
    "with_computed",
    "with_fixed",
]

Mask = npt.NDArray[np.bool_]


def with_fixed(rows: RowSet, changes: Delta) -> Delta:
    """The changes with the columns that their writer could not name.

    A column that is read-only keeps its value where the row is there already; a computed one is
    computed from the row as it will be.
    """
    schema = rows.schema
    fixed = [column for column in schema.columns if column.is_fixed]
    if not fixed or not len(changes) or bool((changes.ops == DELETE).all()):
        return changes
    names = [column.name for column in schema.stored_columns]
    found, old = rows.lookup(changes.keys, names)
    changes = _keep_read_only(schema, changes, found, old)
    keys, after = changes.apply(changes.keys[found], old)
    whole = with_computed(schema, pa.Table.from_arrays(list(after), names=names))
    places = np.flatnonzero(member(changes.keys, keys))
    columns, present = list(changes.columns), list(changes.present)
    spread = pa.array(np.cumsum(member(changes.keys, keys)) - 1, mask=~member(changes.keys, keys))
    for column in fixed:
        if column.computed is None:
            continue
        at = schema.position(column.name)
        columns[at] = flat(whole.column(column.name)).take(spread)
        carried = np.zeros(len(changes), bool)
        carried[places] = True
        present[at] = carried if bool((changes.ops != UPSERT).any()) else None
    return replace(changes, columns=tuple(columns), present=tuple(present))


def _keep_read_only(
    schema: TableSchema,
    changes: Delta,
    found: Mask,
    old: list[pa.Array],
) -> Delta:
    """Upserts of rows that are there leave their read-only columns as they are."""
    columns = list(changes.columns)
    spread = pa.array(np.cumsum(found) - 1, mask=~found)
    for column in schema.columns:
        at = schema.position(column.name)
        held = columns[at]
        if column.read_only and held is not None:
            columns[at] = choose(held, old[at].take(spread), found)
    return replace(changes, columns=tuple(columns))


def with_computed(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Whole rows with their computed columns as the expressions give them."""
    for column in schema.columns:
        if column.computed is not None:
            at = rows.schema.get_field_index(column.name)
            values = Expression(column.computed).values(rows, column.type)
            rows = rows.set_column(at, column.field, values)
    return rows


def check_conditions(name: str, rows: RowSet, changes: Delta) -> None:
    """`InvalidData` names the first changed row that breaks a condition of its table."""
    schema = rows.schema
    touched = changes.keys[changes.ops != DELETE]
    _, arrays = rows.lookup(touched, schema.whole.names)
    try:
        check_rows(schema, pa.Table.from_arrays(arrays, schema=schema.whole))
    except InvalidData as error:
        raise InvalidData(f"table {name!r}: {error}") from None


def check_rows(schema: TableSchema, rows: pa.Table) -> None:
    """`InvalidData` names the first condition of a schema that a row breaks, and the row's key."""
    for name, text in schema.checks:
        wrong = Expression(text).false_mask(rows)
        if wrong.any():
            raise InvalidData(
                f"the row with the key {first_key(schema, rows, wrong)} breaks "
                f"the check {name!r}: {text}"
            )


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


def first_key(schema: TableSchema, rows: pa.Table, where: Mask) -> str:
    """The key of the first row that the mask names, to be shown."""
    at = int(where.argmax())
    values = tuple(rows.column(name)[at].as_py() for name in schema.key)
    return repr(values[0] if len(values) == 1 else values)
