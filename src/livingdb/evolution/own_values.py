"""Which values of a version only that version holds: what others in step with it do not give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.row_alignment import AlignedRows, Mask, align_rows, keys_of
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.compare import differs

__all__ = ["OwnValues", "own_values"]

Tables = Mapping[str, Version]

OwnValues = Mapping[str, Mapping[str, int]]
"""For each table and column, in how many rows it has a value that nobody else has."""


def own_values(versions: Versions, held: Tables, given: Sequence[Tables]) -> OwnValues:
    """The values of tables that are in none of the tables made of what others hold.

    `given` are the same tables, each made of what another branch holds alone.
    """
    found: dict[str, dict[str, int]] = {}
    for name, version in held.items():
        if is_hidden(name) or any(
            name in tables and tables[name].address == version.address for tables in given
        ):
            continue
        counts = _count_own(versions, name, held, [tables for tables in given if name in tables])
        if counts:
            found[name] = counts
    return found


def _count_own(
    versions: Versions, name: str, held: Tables, given: Sequence[Tables]
) -> dict[str, int]:
    schema = versions.definition(held[name]).schema
    others = [VersionSide(versions, tables) for tables in given]
    counts = dict.fromkeys((column.name for column in schema.columns), 0)
    for batch in VersionSide(versions, held).scan(name):
        rows = pa.Table.from_batches([batch])
        twins = [_twin_rows(schema, name, rows, side) for side in others]
        for column in schema.columns:
            counts[column.name] += int(_is_own(rows, column.name, twins).sum())
    return {column: count for column, count in counts.items() if count}


def _twin_rows(schema: TableSchema, name: str, rows: pa.Table, side: VersionSide) -> AlignedRows:
    """The rows with the same keys on another side."""
    found = side.lookup(name, rows.select(list(schema.key)))
    return align_rows(schema, keys_of(schema, rows), found)


def _is_own(rows: pa.Table, column: str, twins: Sequence[AlignedRows]) -> Mask:
    mask: Mask = np.ones(rows.num_rows, bool)
    whole = AlignedRows(mask, rows)
    for twin in twins:
        mask = mask & (~twin.there | differs(whole.column(column), twin.column(column)))
    return mask
