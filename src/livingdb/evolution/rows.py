"""Rows side by side: the rows of several tables that have the same keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose, differs
from livingdb.trees.keys import KeyArray, KeyCodec, align, search

__all__ = ["Mask", "Matched", "empty_rows", "key_rows", "keys_of", "match", "pick", "unequal"]

Mask = npt.NDArray[np.bool_]


def empty_rows(schema: TableSchema) -> pa.Table:
    """No rows of a table."""
    return schema.arrow.empty_table()


def keys_of(schema: TableSchema, rows: pa.Table) -> KeyArray:
    """The keys of rows, encoded so that they sort and compare."""
    codec = KeyCodec([column.type for column in schema.key_columns])
    columns = [rows.column(name).combine_chunks() for name in schema.key]
    return codec.encode([_flat(column) for column in columns])


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def key_rows(schema: TableSchema, *parts: pa.Table) -> pa.Table:
    """The keys of all rows of some tables with these key columns, each key once, sorted."""
    names = list(schema.key)
    whole = pa.concat_tables([part.select(names) for part in parts])
    _, first = np.unique(keys_of(schema, whole), return_index=True)
    return whole.take(pa.array(first))


class Matched:
    """The rows of a table brought in the order of some keys; null where there is none."""

    def __init__(self, there: Mask, rows: pa.Table):
        self.there = there
        """Which keys have a row."""
        self.rows = rows
        """One row for each key."""

    def column(self, name: str) -> pa.Array:
        """One column."""
        return _flat(self.rows.column(name).combine_chunks())

    def kept(self) -> pa.Table:
        """Only the rows that are there."""
        return self.rows.filter(pa.array(self.there))


def match(
    schema: TableSchema, keys: KeyArray, rows: pa.Table, key_names: Sequence[str] | None = None
) -> Matched:
    """The rows in the order of the keys.  `key_names` if the rows call their keys otherwise."""
    names = list(key_names or schema.key)
    codec = KeyCodec([column.type for column in schema.key_columns])
    held = codec.encode([_flat(rows.column(name).combine_chunks()) for name in names])
    wanted, held = align(keys, held)
    order = np.argsort(held, kind="stable")
    there = np.zeros(len(keys), bool)
    places = np.zeros(len(keys), np.int64)
    if len(held):
        at = np.minimum(search(held[order], wanted), len(held) - 1)
        there = np.asarray(held[order][at] == wanted, bool)
        places = order[at]
    taken = rows.take(pa.array(places, mask=~there))
    return Matched(there, taken)


def pick(first: pa.Array, second: pa.Array, take_second: Mask) -> pa.Array:
    """Of two columns the values of the second where the mask says so, else of the first."""
    return choose(first, second, take_second)


def unequal(first: pa.Array, second: pa.Array) -> Mask:
    """Where two columns hold different values; nulls are equal to each other, as is NaN."""
    return differs(first, second)
