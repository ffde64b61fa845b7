"""Looking for values of one block in the columns of another."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from livingdb.derivation.operators.node import Node
from livingdb.derivation.weighted_rows import as_types, concat_rows, distinct_rows, is_groupable

__all__ = ["distinct_values", "fit_types", "is_comparable"]


def is_comparable(one: pa.DataType | None, other: pa.DataType | None) -> bool:
    """Whether values of one type can be looked up among those of another."""
    if one is None or other is None or not is_groupable(one):
        return False
    return bool(one == other or (pa.types.is_integer(one) and pa.types.is_integer(other)))


def fit_types(values: pa.Table, node: Node) -> pa.Table:
    """Values in the types of the columns they are looked for in."""
    fields = [(n, node.types.get(n) or values.schema.field(n).type) for n in values.column_names]
    return as_types(values, pa.schema(fields))


def distinct_values(
    parts: Sequence[tuple[pa.Table, Sequence[str]]], names: Sequence[str]
) -> pa.Table:
    """The distinct values of some columns of several tables, under common names.

    Integers of different widths meet in the widest type.
    """
    found = [
        pa.Table.from_arrays([rows.column(column) for column in columns], names=list(names))
        for rows, columns in parts
    ]
    wide = [
        table.cast(pa.schema([(f.name, _wide_type(f.type)) for f in table.schema]))
        for table in found
    ]
    if len(found) > 1 and any(table.schema != found[0].schema for table in found):
        found = wide
    return distinct_rows(concat_rows(found))


def _wide_type(data_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(data_type) else data_type
