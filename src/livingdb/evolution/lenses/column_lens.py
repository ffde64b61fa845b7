"""Lenses on some columns of a table: the others are the same on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.lens import Follower, Verdicts
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import CarriedRows, RowLens, TouchedRows
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose

__all__ = [
    "ColumnLens",
    "Columns",
    "common_columns",
    "constant_column",
    "outdated_mask",
    "recompute_outdated",
    "replace_values",
    "verdicts",
]

Columns = Mapping[str, pa.Array]


class ColumnLens(RowLens):
    """A lens under which rows come and go together, and most columns are the same.

    A column is the same on both sides if it has the same identity and type there; `to_new` and
    `to_old` give the others, and may give any.
    """

    def __init__(self, table: str, old: Definition, new: Definition):
        super().__init__(table, old, table, new)

    def to_new(self, touched: TouchedRows) -> Columns:
        """The columns of the new side that are made of old rows in some other way."""
        return {}

    def to_old(self, touched: TouchedRows) -> Columns:
        """The columns of the old side that are made of new rows in some other way."""
        return {}

    def row_follower(self, is_right: bool) -> Follower:
        """The other side's table, for lenses whose other columns stay while a row is there."""
        return Follower(self.new_name, self.to_new_rows if is_right else self.to_old_rows)

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        columns = {
            **common_columns(touched, self.old_schema, self.new_schema),
            **self.to_new(touched),
        }
        return CarriedRows(touched.after.there, columns)

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        columns = {
            **common_columns(touched, self.new_schema, self.old_schema),
            **self.to_old(touched),
        }
        return CarriedRows(touched.after.there, columns)


def common_columns(
    touched: TouchedRows, source: TableSchema, target: TableSchema
) -> dict[str, pa.Array]:
    """The columns that both sides have, as the side that changed has them now."""
    known = {(column.id, column.type): column.name for column in source.columns}
    return {
        column.name: touched.after.column(known[column.id, column.type])
        for column in target.columns
        if column.name not in target.key and (column.id, column.type) in known
    }


def outdated_mask(touched: TouchedRows, names: Iterable[str]) -> Mask:
    """Where what was made of these columns has to be made anew: they changed, or it never was."""
    need = touched.after.there & ~touched.other.there
    if need.all():
        return need
    for name in sorted(names):
        need |= touched.after.there & touched.changed_mask(name)
    return need


def recompute_outdated(
    touched: TouchedRows, held: pa.Array, need: Mask, compute: Callable[[pa.Table], pa.Array]
) -> pa.Array:
    """A column of the other side: as it is held, but computed of the changed rows in need."""
    need = need & touched.after.there
    if not need.any():
        return held
    if need.all():
        return compute(touched.after.rows)
    return replace_values(held, compute(touched.after.rows.filter(pa.array(need))), need)


def replace_values(held: pa.Array, made: pa.Array, where: Mask) -> pa.Array:
    """A column with other values in some rows, given in their order."""
    places = np.maximum(np.cumsum(where) - 1, 0)
    return choose(held, made.take(pa.array(places, mask=~where)), where)


def constant_column(value: object, data_type: pa.DataType) -> Callable[[pa.Table], pa.Array]:
    """The same value for each row."""

    def compute(rows: pa.Table) -> pa.Array:
        return pa.array([value], data_type).take(pa.array(np.zeros(rows.num_rows, np.int64)))

    return compute


def verdicts(to_new: str | None, to_old: str | None) -> Verdicts:
    """The directions, given why changes cannot be carried to the new or to the old side."""
    both = "; ".join(reason for reason in (to_new, to_old) if reason is not None)
    return {"forward": to_new, "reverse": to_old, "both": both or None, "none": None}
