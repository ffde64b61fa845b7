"""Data from outside: any tabular value becomes sorted, typed, checked changes.

Bad input raises before anything is written, and says which column and which row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.types import normalise_array
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.changes import DELETE, PATCH, UPSERT, Changes
from livingdb.trees.keys import KeyArray
from livingdb.trees.shape import Shape

__all__ = ["as_table", "deletes", "patches", "sorted_rows", "upserts"]


def as_table(data: object) -> pa.Table:
    """Tabular data as an Arrow table: Arrow, pandas, polars, DuckDB, dicts or lists of dicts."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return pa.table(data)
        if hasattr(data, "to_arrow_table"):
            return as_table(data.to_arrow_table())
        if hasattr(data, "iloc") and hasattr(data, "columns"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
            return _from_rows(list(data))
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
        raise InvalidData(f"the data cannot be read as a table: {error}") from None
    raise InvalidData(
        f"{type(data).__name__} is no table; give Arrow, pandas or polars data, a dict of "
        "columns or a list of dicts"
    )


def _from_rows(rows: list[Any]) -> pa.Table:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidData(f"row {number} is {type(row).__name__}, not a dict")
        names.update(dict.fromkeys(row))
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def upserts(schema: TableSchema, shape: Shape, data: object) -> Changes:
    """Changes that upsert these rows; columns the data does not name get their defaults."""
    columns, keys = sorted_rows(schema, shape, data)
    ops = np.full(len(keys), UPSERT, np.int8)
    return Changes(shape, keys, ops, tuple(columns), (None,) * len(columns))


def sorted_rows(schema: TableSchema, shape: Shape, data: object) -> tuple[list[pa.Array], KeyArray]:
    """Whole rows as stored columns, sorted by key, and their keys."""
    table = _checked_names(schema, as_table(data))
    columns = [
        _typed(table, column)
        if column.name in table.column_names
        else _filled(column, table.num_rows)
        for column in schema.stored
    ]
    return _sorted(schema, shape, columns)


def patches(schema: TableSchema, shape: Shape, data: object) -> Changes:
    """Changes that set only the columns the data names, of rows that exist."""
    table = _checked_names(schema, as_table(data))
    named = [column for column in schema.stored if column.name in table.column_names]
    sorted_columns, keys = _sorted(schema, shape, [_typed(table, column) for column in named])
    by_name = {column.name: array for column, array in zip(named, sorted_columns, strict=True)}
    columns = tuple(by_name.get(column.name) for column in schema.stored)
    ops = np.full(len(keys), PATCH, np.int8)
    return Changes(shape, keys, ops, columns, (None,) * len(columns))


def deletes(schema: TableSchema, shape: Shape, keys: object) -> Changes:
    """Changes that delete rows: key values, tuples, an Arrow array, or data with the key."""
    table = _keys_table(schema, keys)
    columns = [_typed(table, column) for column in schema.key_columns]
    sorted_columns, encoded = _sorted(schema, shape, columns)
    missing = (None,) * (len(schema.stored) - len(columns))
    ops = np.full(len(encoded), DELETE, np.int8)
    return Changes(shape, encoded, ops, (*sorted_columns, *missing), (None,) * len(schema.stored))


def _keys_table(schema: TableSchema, keys: object) -> pa.Table:
    names = schema.key
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_struct(keys.type):
            return _checked_names(schema, pa.table(keys.flatten(), keys.type.names), only=names)
        return pa.table({names[0]: keys})
    if hasattr(keys, "__arrow_c_stream__") or isinstance(keys, (Mapping, pa.RecordBatch)):
        return _checked_names(schema, as_table(keys), only=names)
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        keys = [keys]
    items = list(keys)
    if items and isinstance(items[0], Mapping):
        return _checked_names(schema, as_table(items), only=names)
    if len(names) == 1:
        items = [item if isinstance(item, (tuple, list)) else (item,) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != len(names):
            raise InvalidData(f"key {number}: expected a value for each of {', '.join(names)}")
    columns = {}
    for position, column in enumerate(schema.key_columns):
        try:
            columns[column.name] = pa.array([item[position] for item in items], column.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InvalidData(f"key column {column.name!r}: {error}") from None
    return pa.table(columns)


def _checked_names(
    schema: TableSchema, table: pa.Table, only: Sequence[str] | None = None
) -> pa.Table:
    known = [column.name for column in schema.columns]
    seen: set[str] = set()
    for name in table.column_names:
        if name not in known:
            raise InvalidData(
                f"column {name!r} is not in the table; its columns are {', '.join(known)}"
            )
        if name in seen:
            raise InvalidData(f"column {name!r} is in the data twice")
        seen.add(name)
    for name in schema.key:
        if name not in seen:
            raise InvalidData(f"the key column {name!r} is missing from the data")
    return table.select(list(only)) if only is not None else table


def _typed(table: pa.Table, column: Column) -> pa.Array:
    given = table.column(column.name)
    if pa.types.is_null(given.type):
        array = pa.nulls(len(given), column.type)
    else:
        array = normalise_array(given, column.type, column.name)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidData(f"column {column.name!r}: {error}") from None
    if array.null_count and not column.nullable:
        row = pc.index(array.is_null(), pa.scalar(True)).as_py()
        raise InvalidData(f"column {column.name!r}, row {row}: null, but the column is NOT NULL")
    return array


def _filled(column: Column, rows: int) -> pa.Array:
    """The column where the data does not name it."""
    if column.default is not None:
        value = pa.scalar(column.default, column.type)
        return pa.repeat(value, rows) if rows else pa.array([], column.type)
    if not column.nullable and rows:
        raise InvalidData(
            f"column {column.name!r} is NOT NULL, has no default and is missing from the data"
        )
    return pa.nulls(rows, column.type)


def _sorted(
    schema: TableSchema, shape: Shape, columns: list[pa.Array]
) -> tuple[list[pa.Array], KeyArray]:
    keys = shape.keys(columns)
    if len(keys) < 2 or bool((keys[:-1] < keys[1:]).all()):
        return columns, keys
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    twins = np.flatnonzero(keys[:-1] == keys[1:])
    if len(twins):
        first, second = int(order[twins[0]]), int(order[twins[0] + 1])
        shown = {name: columns[i][first].as_py() for i, name in enumerate(schema.key)}
        raise DuplicateKey(f"rows {first} and {second} of the data have the same key {shown}")
    taken = pa.array(order)
    return [column.take(taken) for column in columns], keys
