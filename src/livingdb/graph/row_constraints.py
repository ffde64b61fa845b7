"""What a schema says of each row by itself: computed and read-only columns, NOT NULL, checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.arrow_values import as_mask, taken_rows
from livingdb.errors import BrokenConstraint, InvalidData
from livingdb.sql.expressions import Expression
from livingdb.tables.batches import flat
from livingdb.tables.row_projection import NullValue
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.compare import choose
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.keys import member

__all__ = [
    "check_conditions",
    "check_delta_not_null",
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
    spread = taken_rows(np.cumsum(member(changes.keys, keys)) - 1, ~member(changes.keys, keys))
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
    spread = taken_rows(np.cumsum(found) - 1, ~found)
    for column in schema.columns:
        at = schema.position(column.name)
        held = columns[at]
        if column.read_only and held is not None:
            columns[at] = choose(held, old[at].take(spread), found)
    return replace(changes, columns=tuple(columns))


def with_computed(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Whole rows with their computed columns as the expressions give them."""
    for column in _in_order_of_need(schema):
        at = rows.schema.get_field_index(column.name)
        rows = rows.set_column(at, column.field, _computed_values(schema, column, rows))
    return rows


def _in_order_of_need(schema: TableSchema) -> list[Column]:
    """The computed columns, each after those that it is computed of."""
    waiting = {column.name: column for column in schema.columns if column.computed is not None}
    found: list[Column] = []
    while waiting:
        ready = [
            column
            for column in waiting.values()
            if not Expression(str(column.computed)).columns & waiting.keys() - {column.name}
        ]
        if not ready:  # which no schema is made with
            raise InvalidData(f"the computed columns {', '.join(waiting)} need each other")
        found += ready
        for column in ready:
            del waiting[column.name]
    return found


def _computed_values(schema: TableSchema, column: Column, rows: pa.Table) -> pa.Array:
    """What a computed column holds; `InvalidData` names the first row that it has nothing for."""
    assert column.computed is not None
    expression = Expression(column.computed)
    try:
        return expression.values(rows, column.type)
    except InvalidData:
        _, failed = expression.attempt(rows)
        if not failed.any():
            raise
        raise InvalidData(
            f"column {column.name!r}: {column.computed} cannot be computed for the row with the "
            f"key {first_key(schema, rows, failed)}"
        ) from None


def check_conditions(
    name: str,
    schema: TableSchema,
    open_rows: Callable[[], RowSet],
    changes: Delta,
    kept: Callable[[], Collection[str]] | None = None,
) -> None:
    """`InvalidData` names the first changed row that breaks a condition of its table.

    `kept` tells the names of those that the changes are known to keep.
    """
    due = _touched_checks(schema, changes)
    if due and kept is not None:
        known = kept()
        due = [check for check in due if check[0] not in known]
    limited = schema.limited_columns
    if not due and (not limited or limited.isdisjoint(_carried_columns(schema, changes))):
        return
    needed = limited.union(schema.key, *(Expression(text).columns for _, text in due))
    names = [name for name in schema.whole.names if name in needed]
    if changes.inserts_whole_rows:
        arrays = [changes.columns[schema.position(name)] for name in names]
    else:
        _, arrays = open_rows().lookup(changes.keys[changes.ops != DELETE], names)
    try:
        check_rows(schema, pa.Table.from_arrays(arrays, names=names), due)
    except InvalidData as error:
        kind = BrokenConstraint if isinstance(error, BrokenConstraint) else InvalidData
        raise kind(f"table {name!r}: {error}") from None


def _touched_checks(schema: TableSchema, changes: Delta) -> list[tuple[str, str]]:
    """The conditions that changes may break: rows come, or change in what one is about."""
    if changes.counts[UPSERT]:
        return list(schema.checks)
    carried = _carried_columns(schema, changes)
    return [check for check in schema.checks if carried & Expression(check[1]).columns]


def _carried_columns(schema: TableSchema, changes: Delta) -> set[str]:
    pairs = zip(schema.stored_columns, changes.columns, strict=True)
    return {column.name for column, values in pairs if values is not None}


def check_rows(
    schema: TableSchema, rows: pa.Table, checks: Sequence[tuple[str, str]] | None = None
) -> None:
    """`InvalidData` names the first condition of a schema that a row breaks, and the row's key.

    `checks`: those of its conditions that may be broken; default all.
    """
    for column in schema.columns:
        if column.limit is not None:
            values = flat(rows.column(column.name))
            is_long = pc.greater(pc.utf8_length(values), column.limit).fill_null(False)
            long: Mask = is_long.to_numpy(zero_copy_only=False)
            if long.any():
                raise BrokenConstraint(
                    f"column {column.name!r}: {values[int(long.argmax())].as_py()!r:.80} in the "
                    f"row with the key {first_key(schema, rows, long)} does not fit "
                    f"{column.type_name}"
                )
    for name, text in schema.checks if checks is None else checks:
        wrong = Expression(text).false_mask(rows)
        if wrong.any():
            raise BrokenConstraint(
                f"the row with the key {first_key(schema, rows, wrong)} breaks "
                f"the check {name!r}: {text}"
            )


def check_not_null(name: str, schema: TableSchema, rows: pa.Table) -> None:
    """`InvalidData` names a column of a table that is null where it may not be, and the key."""
    for column in schema.columns:
        values = rows.column(column.name)
        if column.generated is not None:  # what a row has none of is drawn when it is written
            continue
        if values.null_count and not column.nullable:
            wrong = as_mask(values.is_null())
            raise NullValue(name, column.name, 0).at_key(first_key(schema, rows, wrong))


def check_delta_not_null(name: str, schema: TableSchema, changes: Delta) -> None:
    """`InvalidData` names a column that changes make null where it may not be, and the key."""
    for position, column in enumerate(schema.stored_columns):
        values = changes.columns[position]
        if column.nullable or values is None or not values.null_count:
            continue
        wrong = changes.carries(position) & as_mask(values.is_null())
        if wrong.any():
            keys = [k for k in changes.columns[: len(schema.key)] if k is not None]
            rows = pa.Table.from_arrays(keys, names=list(schema.key))
            raise NullValue(name, column.name, 0).at_key(first_key(schema, rows, wrong))


def first_key(schema: TableSchema, rows: pa.Table, where: Mask) -> str:
    """The key of the first row that the mask names, to be shown; "?" if the rows have no key."""
    at = int(where.argmax())
    if not set(schema.key) <= set(rows.column_names):
        return "?"
    values = tuple(rows.column(name)[at].as_py() for name in schema.key)
    return repr(values[0] if len(values) == 1 else values)
