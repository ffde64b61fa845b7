"""Data from outside: any tabular value becomes sorted, typed, checked changes.

Bad input raises before anything is written, and says which column and which row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.arrow_values import taken_rows
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.tables.fit import fit
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.tabular import Tabular, Values, as_tabular, is_table
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.keys import KeyArray
from livingdb.trees.shape import Shape

__all__ = ["carried_upserts", "deletes", "patches", "sorted_rows", "upserts", "whole_rows"]

Mask = npt.NDArray[np.bool_]

_LARGE_BYTES = 64 << 20
"""From this size on what was freed is given back at once, as Arrow would keep it for a while."""


def upserts(schema: TableSchema, shape: Shape, data: object) -> Delta:
    """Changes that upsert these rows; what a row does not name gets its default."""
    columns, keys, _ = _sort_copies(schema, shape, whole_rows(schema, data))
    ops = np.full(len(keys), UPSERT, np.int8)
    return Delta(shape, keys, ops, tuple(columns), (None,) * len(columns))


def carried_upserts(schema: TableSchema, shape: Shape, rows: pa.Table) -> Delta:
    """Changes that upsert rows which another side gives: all columns, also fixed ones."""
    columns, keys, _ = _sort_by_key(schema, shape, whole_rows(schema, rows, fixed=True))
    ops = np.full(len(keys), UPSERT, np.int8)
    return Delta(shape, keys, ops, tuple(columns), (None,) * len(columns))


def sorted_rows(schema: TableSchema, shape: Shape, data: object) -> tuple[list[pa.Array], KeyArray]:
    """Whole rows as stored columns, sorted by key, and their keys."""
    columns, keys, _ = _sort_by_key(schema, shape, whole_rows(schema, data))
    return columns, keys


def whole_rows(schema: TableSchema, data: object, fixed: bool = False) -> list[pa.Array]:
    """Whole rows as stored columns, in the order they come.

    `fixed`: they may name columns that users do not write.
    """
    given = _check_columns(schema, as_tabular(data), fixed=fixed)
    return [_filled_column(given, column) for column in schema.stored_columns]


def patches(schema: TableSchema, shape: Shape, data: object) -> Delta:
    """Changes that set only the columns a row names, of rows that exist."""
    given = _check_columns(schema, as_tabular(data))
    named = [column for column in schema.stored_columns if column.name in given.columns]
    arrays = [
        fit(given.columns[column.name], column, given.absent.get(column.name)) for column in named
    ]
    sorted_columns, keys, order = _sort_copies(schema, shape, arrays)
    by_name = {column.name: array for column, array in zip(named, sorted_columns, strict=True)}
    columns = tuple(by_name.get(column.name) for column in schema.stored_columns)
    present = tuple(_presence_mask(given, column, order) for column in schema.stored_columns)
    return Delta(shape, keys, np.full(len(keys), PATCH, np.int8), columns, present)


def _presence_mask(
    given: Tabular, column: Column, order: npt.NDArray[np.int64] | None
) -> Mask | None:
    """Which of the sorted rows name the column; None if all do (or none does)."""
    absent = given.absent.get(column.name)
    if absent is None:
        return None
    return ~absent if order is None else ~absent[order]


def deletes(schema: TableSchema, shape: Shape, keys: object) -> Delta:
    """Changes that delete rows: key values, tuples, an Arrow array, or data with the key."""
    given = _keys(schema, keys)
    columns = [fit(given.columns[column.name], column) for column in schema.key_columns]
    sorted_columns, encoded, _ = _sort_copies(schema, shape, columns)
    missing = (None,) * (len(schema.stored_columns) - len(columns))
    ops = np.full(len(encoded), DELETE, np.int8)
    return Delta(
        shape, encoded, ops, (*sorted_columns, *missing), (None,) * len(schema.stored_columns)
    )


def _keys(schema: TableSchema, keys: object) -> Tabular:
    """The key columns of what a user names rows by."""
    names = schema.key
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_struct(keys.type):
            fields = pa.table(keys.flatten(), [field.name for field in keys.type])
            return _check_columns(schema, as_tabular(fields), only=names)
        if len(names) > 1:
            raise InvalidData(f"{keys.type} keys: expected structs of {', '.join(names)}")
        return Tabular(len(keys), {names[0]: keys})
    if isinstance(keys, Mapping) or is_table(keys):
        return _check_columns(schema, as_tabular(keys), only=names)
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        keys = [keys]
    items = list(keys)
    if items and isinstance(items[0], Mapping):
        return _check_columns(schema, as_tabular(items), only=names)
    if len(names) == 1:
        items = [item if isinstance(item, (tuple, list)) else (item,) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != len(names):
            raise InvalidData(f"key {number}: expected a value for each of {', '.join(names)}")
    columns: dict[str, Values] = {
        name: [item[position] for item in items] for position, name in enumerate(names)
    }
    return Tabular(len(items), columns)


def _check_columns(
    schema: TableSchema,
    given: Tabular,
    only: Sequence[str] | None = None,
    fixed: bool = False,
) -> Tabular:
    if not given.columns and not given.rows:
        return Tabular(0, {name: [] for name in schema.key})
    known = {column.name for column in schema.columns}
    for name in given.columns:
        if name not in known:
            shown = ", ".join(column.name for column in schema.visible_columns)
            raise InvalidData(f"column {name!r} is not in the table; its columns are {shown}")
    if only is None and not fixed:
        _check_fixed(schema, given)
    for name in schema.key:
        if name not in given.columns:
            raise InvalidData(f"the key column {name!r} is missing from the data")
        if name in given.absent:
            row = int(given.absent[name].argmax())
            raise InvalidData(f"row {row}: the key column {name!r} is missing")
    return given.select(only) if only is not None else given


def _check_fixed(schema: TableSchema, given: Tabular) -> None:
    for column in schema.columns:
        if column.is_fixed and column.name in given.columns:
            why = f"is computed as {column.computed}" if column.computed else "is read-only here"
            raise InvalidData(f"column {column.name!r} {why}: leave it out")


def _filled_column(given: Tabular, column: Column) -> pa.Array:
    """The column of whole rows: its default where a row does not name it."""
    values = given.columns.get(column.name)
    if values is None:
        return _default(column, given.rows)
    absent = given.absent.get(column.name)
    if absent is None:
        return fit(values, column)
    if column.default is None and not column.nullable:
        raise InvalidData(
            f"column {column.name!r}, row {int(absent.argmax())}: missing, but the column is "
            "NOT NULL and has no default"
        )
    filled = pa.concat_arrays([fit(values, column, absent), _default(column, 1)])
    return filled.take(pa.array(np.where(absent, given.rows, np.arange(given.rows))))


def _default(column: Column, rows: int) -> pa.Array:
    """The column where the data does not name it."""
    if column.default is not None:
        return pa.array([column.default], column.type).take(pa.array(np.zeros(rows, np.int64)))
    if column.generated is not None and rows and not column.nullable:
        raise InvalidData(
            f"column {column.name!r} draws its values from a counter, which is not at hand here: "
            "insert the rows without Spark, or give the values"
        )
    if not column.nullable and rows and not column.is_fixed:
        raise InvalidData(
            f"column {column.name!r} is NOT NULL, has no default and is missing from the data"
        )
    return pa.nulls(rows, column.type)


def _sort_copies(
    schema: TableSchema, shape: Shape, columns: list[pa.Array]
) -> tuple[list[pa.Array], KeyArray, npt.NDArray[np.int64] | None]:
    """The same as `_sort_by_key`, in memory of our own: who gave the rows may write to theirs.

    Columns that are copied take the places of those given, so that nobody holds both.
    """
    columns, keys, order = _sort_by_key(schema, shape, columns)
    if order is None:
        for position in range(len(columns)):
            column = columns[position]
            columns[position] = pa.concat_arrays([column, column.slice(0, 0)])
        del column
        if sum(column.nbytes for column in columns) >= _LARGE_BYTES:
            pa.default_memory_pool().release_unused()
        keys = keys.copy()
    return columns, keys, order


def _sort_by_key(
    schema: TableSchema, shape: Shape, columns: list[pa.Array]
) -> tuple[list[pa.Array], KeyArray, npt.NDArray[np.int64] | None]:
    """The rows sorted by key, their keys, and the order they came in (None: this one)."""
    keys = shape.keys(columns)
    if len(keys) < 2 or bool((keys[:-1] < keys[1:]).all()):
        return columns, keys, None
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    twins = np.flatnonzero(keys[:-1] == keys[1:])
    if len(twins):
        first, second = int(order[twins[0]]), int(order[twins[0] + 1])
        shown = {name: columns[i][first].as_py() for i, name in enumerate(schema.key)}
        raise DuplicateKey(f"rows {first} and {second} of the data have the same key {shown}")
    taken = taken_rows(order)
    return [column.take(taken) for column in columns], keys, order
