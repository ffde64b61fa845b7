"""Semi-join of a stored table with a few values, by key ranges where its key allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.engines.index_lookup import keys_holding
from livingdb.engines.value_ranges import prefix_successor
from livingdb.tables.batches import flat, large_batches
from livingdb.tables.row_hash import encoded_rows
from livingdb.tables.rows import RowSet
from livingdb.trees.keys import KeyArray, KeyCodec
from livingdb.trees.scan import Span

__all__ = ["matching_rows", "matching_rows_in"]

_MOST_SPANS = 4096
_ROWS_A_SPAN = 2048


def matching_rows(rows: RowSet, values: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows whose columns, those of `values`, hold one of its rows; null is null here.

    Of some columns only, if they are named.
    """
    names = values.column_names
    wanted = rows.schema.arrow.names if columns is None else list(columns)
    empty = pa.schema([rows.schema.whole.field(name) for name in wanted]).empty_table()
    if not values.num_rows:
        return empty
    if set(names) == set(rows.schema.key):
        return _matching_by_key(rows, values, wanted)
    read = [*wanted, *(name for name in names if name not in wanted)]
    keys = keys_holding(rows, {name: flat(values.column(name)) for name in names})
    if keys is not None:
        schema = pa.schema([rows.schema.whole.field(name) for name in read])
        found = pa.Table.from_arrays(rows.lookup(keys, read)[1], schema=schema)
        return matching_rows_in(found, values).select(wanted)
    parts = [empty]
    for span in _spans(rows, values):
        for batch in large_batches(rows.batches(read, span)):
            parts.append(matching_rows_in(pa.Table.from_batches([batch]), values).select(wanted))
    return pa.concat_tables(parts)


def matching_rows_in(table: pa.Table, values: pa.Table) -> pa.Table:
    """The same for rows in memory."""
    names = values.column_names
    if len(names) > 1:
        table = _narrowed(table, values)
    mine = [flat(table.column(name)) for name in names]
    theirs = [flat(values.column(name)).cast(table.schema.field(name).type) for name in names]
    if len(names) == 1 and not _lacks_unique_encoding(mine[0].type):
        return table.filter(pc.is_in(mine[0], value_set=theirs[0]))
    return table.filter(pc.is_in(encoded_rows(mine), value_set=encoded_rows(theirs)))


def _narrowed(table: pa.Table, values: pa.Table) -> pa.Table:
    """The rows that may be among them by one column: the one with the most different values."""
    known = {
        name: flat(values.column(name)).unique()
        for name in values.column_names
        if not _lacks_unique_encoding(table.schema.field(name).type)
    }
    if not known:
        return table
    name = max(known, key=lambda column: len(known[column]))
    column = table.column(name)
    return table.filter(pc.is_in(column, value_set=known[name].cast(column.type)))


def _lacks_unique_encoding(data_type: pa.DataType) -> bool:
    """Whether equal values may have different bits, or the values parts."""
    return bool(pa.types.is_floating(data_type) or pa.types.is_nested(data_type))


def _matching_by_key(rows: RowSet, values: pa.Table, wanted: list[str]) -> pa.Table:
    columns = [
        flat(values.column(column.name)).cast(column.type) for column in rows.schema.key_columns
    ]
    possible = np.ones(values.num_rows, bool)
    for column, array in zip(rows.schema.key_columns, columns, strict=True):
        if not column.nullable and array.null_count:
            possible &= array.is_valid().to_numpy(zero_copy_only=False)
    if not possible.all():
        columns = [array.filter(pa.array(possible)) for array in columns]
    keys = np.unique(rows.forest.shape.keys(columns))
    _, arrays = rows.lookup(keys, wanted)
    schema = pa.schema([rows.schema.whole.field(name) for name in wanted])
    return pa.Table.from_arrays(arrays, schema=schema)


def _spans(rows: RowSet, values: pa.Table) -> list[Span]:
    """The ranges of keys that can hold such rows: few enough to be worth it, else all."""
    whole = [Span()]
    names = set(values.column_names)
    columns = []
    for column in rows.schema.key_columns:
        if column.name not in names or column.nullable:
            break
        columns.append(column)
    if not columns or values.num_rows > _MOST_SPANS:
        return whole
    count = rows.forest.count_rows(rows.root)
    if values.num_rows * _ROWS_A_SPAN > count:
        return whole
    wanted = [flat(values.column(column.name)).cast(column.type) for column in columns]
    valid = np.ones(values.num_rows, bool)
    for array in wanted:
        valid &= array.is_valid().to_numpy(zero_copy_only=False)
    wanted = [array.filter(pa.array(valid)) for array in wanted]
    codec = KeyCodec([column.type for column in columns])
    return _prefix_ranges(rows.forest.shape.codec, codec, np.unique(codec.encode(wanted)))


def _prefix_ranges(whole: KeyCodec, prefix: KeyCodec, keys: KeyArray) -> list[Span]:
    """The keys that begin with each of these."""
    spans = []
    for key in prefix.to_binary(keys).to_pylist():
        low = key[8 - prefix.width :] if prefix.packed and prefix.width else bytes(key)
        if prefix.width is not None:
            low = low.ljust(prefix.width, b"\0")
        high = prefix_successor(low)
        spans.append(
            Span(_range_bound(whole, low), None if high is None else _range_bound(whole, high))
        )
    return spans


def _range_bound(codec: KeyCodec, bound: bytes) -> object:
    if codec.packed:
        assert codec.width is not None
        return np.uint64(int.from_bytes(bound.ljust(codec.width, b"\0"), "big"))
    return np.bytes_(bound.rstrip(b"\0"))
