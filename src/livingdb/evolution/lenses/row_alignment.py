"""Aligns rows of several tables by key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.tables.batches import flat
from livingdb.tables.schema import TableSchema
from livingdb.trees.keys import KeyArray, align, search

__all__ = ["AlignedRows", "Mask", "align_rows", "distinct_keys", "empty_rows", "keys_of"]

Mask = npt.NDArray[np.bool_]


def empty_rows(schema: TableSchema) -> pa.Table:
    """No rows of a table."""
    return schema.whole.empty_table()


def keys_of(schema: TableSchema, rows: pa.Table) -> KeyArray:
    """The keys of rows, encoded so that they sort and compare."""
    return schema.key_codec.encode([flat(rows.column(name)) for name in schema.key])


def distinct_keys(schema: TableSchema, *parts: pa.Table) -> pa.Table:
    """The keys of all rows of some tables with these key columns, each key once, sorted."""
    names = list(schema.key)
    whole = pa.concat_tables([part.select(names) for part in parts])
    _, first = np.unique(keys_of(schema, whole), return_index=True)
    return whole.take(pa.array(first))


class AlignedRows:
    """The rows of a table brought in the order of some keys; null where there is none."""

    def __init__(self, there: Mask, rows: pa.Table):
        self.there = there
        """Which keys have a row."""
        self.rows = rows
        """One row for each key."""

    def column(self, name: str) -> pa.Array:
        """One column."""
        return flat(self.rows.column(name))


def align_rows(
    schema: TableSchema, keys: KeyArray, rows: pa.Table, key_names: Sequence[str] | None = None
) -> AlignedRows:
    """The rows in the order of the keys.  `key_names` if the rows call their keys otherwise."""
    names = list(key_names or schema.key)
    held = schema.key_codec.encode([flat(rows.column(name)) for name in names])
    wanted, held = align(keys, held)
    order = np.argsort(held, kind="stable")
    there = np.zeros(len(keys), bool)
    places = np.zeros(len(keys), np.int64)
    if len(held):
        at = np.minimum(search(held[order], wanted), len(held) - 1)
        there = np.asarray(held[order][at] == wanted, bool)
        places = order[at]
    taken = rows.take(pa.array(places, mask=~there))
    return AlignedRows(there, taken)
