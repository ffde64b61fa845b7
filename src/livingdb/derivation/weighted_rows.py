"""Weighted rows (Z-sets): Arrow tables whose last column says how often each row comes or goes.

Nulls are alike here, and so are all NaNs and both zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.arrow_values import as_numbers, taken_rows
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.row_numbers import Numbers, normalize_floats, row_numbers
from livingdb.tables.batches import flat

__all__ = [
    "as_types",
    "cancels_out",
    "concat_rows",
    "consolidate",
    "difference",
    "distinct_rows",
    "expand_weights",
    "gone_and_come",
    "is_groupable",
    "semi_join",
    "with_weight",
]


_FEW_ROWS = 1000
"""Up to which rows are numbered sooner than grouped."""


def is_groupable(data_type: pa.DataType) -> bool:
    """Whether rows can be looked up, joined and grouped by values of the type."""
    return not pa.types.is_nested(data_type)


def with_weight(rows: pa.Table, weight: int) -> pa.Table:
    """The rows, each with the weight."""
    weights = pa.array(np.full(rows.num_rows, weight, np.int64))
    return rows.append_column(WEIGHT, weights)


def gone_and_come(
    names: Sequence[str], gone: Sequence[pa.Array], come: Sequence[pa.Array]
) -> pa.Table:
    """Rows that go and rows that come, both with these columns, each with its weight."""
    counts = [len(some[0]) if some else 0 for some in (gone, come)]
    chunks = [some for some, count in zip((gone, come), counts, strict=True) if count] or [gone]
    kinds = [part.type for part in chunks[0]]
    columns = [
        pa.chunked_array([part if part.type == kind else part.cast(kind) for part in parts], kind)
        for kind, parts in zip(kinds, zip(*chunks, strict=True), strict=True)
    ]
    weights = np.repeat(np.array([-1, 1]), counts)
    return pa.Table.from_arrays([*columns, pa.array(weights)], names=[*names, WEIGHT])


def concat_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows of tables with the same columns; types follow the first table with rows."""
    filled = [_as_nullable(table) for table in tables if table.num_rows] or list(tables[:1])
    if len(filled) == 1:
        return filled[0]
    schema = filled[0].schema
    return pa.concat_tables(
        [table if table.schema == schema else table.cast(schema) for table in filled]
    )


def consolidate(rows: pa.Table) -> pa.Table:
    """Equal rows as one with the sum of their weights, without those that cancel out."""
    rows = _as_nullable(rows)
    if not rows.num_rows:
        return rows
    names = [name for name in rows.column_names if name != WEIGHT]
    if not names:
        total = pc.sum(rows.column(WEIGHT)).as_py()
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    if rows.num_rows == 1:
        return rows if rows.column(WEIGHT)[0].as_py() else rows.slice(0, 0)
    plain = _normalize(rows)
    if rows.num_rows <= _FEW_ROWS or _has_nested(rows):
        _, first, places = np.unique(
            row_numbers(plain.select(names)), return_index=True, return_inverse=True
        )
        weights = np.zeros(len(first), np.int64)
        np.add.at(weights, places, as_numbers(flat(plain.column(WEIGHT))))
        if len(first) == rows.num_rows and weights.all():
            return plain
        kept = plain.take(pa.array(first[weights != 0]))
        at = kept.column_names.index(WEIGHT)
        return kept.set_column(at, WEIGHT, pa.array(weights[weights != 0]))
    grouped = plain.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    grouped = grouped.rename_columns([*names, WEIGHT])
    kept = grouped.filter(pc.not_equal(grouped.column(WEIGHT), 0))
    return kept.select(rows.column_names)


def cancels_out(rows: pa.Table) -> bool:
    """Whether the same rows come and go, in the same order; False if that is not plain to see."""
    weights = as_numbers(flat(rows.column(WEIGHT)))
    half, rest = divmod(len(weights), 2)
    if rest:
        return False
    names = [name for name in rows.column_names if name != WEIGHT]
    if (weights[:half] < 0).all() and (weights[half:] > 0).all():  # as differences come
        is_even = not (weights[:half] + weights[half:]).any()
        columns = map(rows.column, names)
        return is_even and all(each.slice(0, half).equals(each.slice(half)) for each in columns)
    gone, come = np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)
    if len(gone) != len(come) or (weights[gone] + weights[come]).any():
        return False
    old, new = taken_rows(gone), taken_rows(come)
    return all(rows.column(name).take(old).equals(rows.column(name).take(new)) for name in names)


def difference(old: pa.Table, new: pa.Table) -> pa.Table:
    """The weighted rows that lead from some rows to others."""
    if not old.num_rows and not new.num_rows:
        return with_weight(new, 1)
    return consolidate(concat_rows([with_weight(new, 1), with_weight(old, -1)]))


def expand_weights(rows: pa.Table) -> tuple[pa.Table, Numbers]:
    """The rows as often as they weigh, and whether each comes (1) or goes (-1)."""
    weights = rows.column(WEIGHT).to_numpy()
    if np.all(np.abs(weights) == 1):
        return rows, weights
    places = np.repeat(np.arange(rows.num_rows), np.abs(weights))
    return rows.take(pa.array(places)), np.sign(weights)[places]


def distinct_rows(rows: pa.Table) -> pa.Table:
    """Each row once."""
    rows = _as_nullable(rows)
    if rows.num_rows < 2:
        return rows
    if _has_nested(rows):
        _, first = np.unique(row_numbers(rows), return_index=True)
        return rows.take(pa.array(first))
    names = rows.column_names
    return _normalize(rows).group_by(names, use_threads=False).aggregate([])


def semi_join(rows: pa.Table, columns: Sequence[str], values: pa.Table) -> pa.Table:
    """The rows whose columns hold one of the rows of `values`, which has these columns."""
    if not rows.num_rows or not values.num_rows:
        return rows.slice(0, 0)
    asked = values.select(list(columns))
    mine = _as_nullable(rows.select(list(columns)))
    asked = _as_nullable(as_types(asked, mine.schema))
    numbers = row_numbers(pa.concat_tables([mine, asked]))
    wanted = np.isin(numbers[: rows.num_rows], numbers[rows.num_rows :])
    return rows if wanted.all() else rows.filter(pa.array(wanted))


def as_types(values: pa.Table, schema: pa.Schema) -> pa.Table:
    """The values in the types of columns they are looked for in.

    A number the type cannot hold is in no such column, so its row is dropped.
    """
    if values.schema.types == schema.types:
        return values.rename_columns(schema.names)
    fits = np.ones(values.num_rows, bool)
    columns = []
    for column, target in zip(values.columns, schema.types, strict=True):
        made, held = _cast(column, target)
        columns.append(made)
        fits &= held
    found = pa.Table.from_arrays(columns, names=schema.names)
    return found if fits.all() else found.filter(pa.array(fits))


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> tuple[pa.ChunkedArray, Numbers]:
    if not (pa.types.is_integer(column.type) and pa.types.is_integer(target)):
        return column.cast(target), np.ones(len(column), bool)
    bits = target.bit_width - 1
    fits = pc.and_(
        pc.greater_equal(column.cast(pa.int64()), -(2**bits)),
        pc.less_equal(column.cast(pa.int64()), 2**bits - 1),
    ).fill_null(True)
    kept = pc.if_else(fits, column, pa.scalar(None, column.type))
    return kept.cast(target), fits.to_numpy()


def _as_nullable(rows: pa.Table) -> pa.Table:
    """The rows without promises that values are never null."""
    if all(field.nullable for field in rows.schema):
        return rows
    return pa.Table.from_arrays(rows.columns, names=rows.column_names)


def _has_nested(rows: pa.Table) -> bool:
    return any(pa.types.is_nested(kind) for kind in rows.schema.types)


def _normalize(rows: pa.Table) -> pa.Table:
    """The rows with one zero and one NaN."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, normalize_floats(rows.column(place)))
    return rows
