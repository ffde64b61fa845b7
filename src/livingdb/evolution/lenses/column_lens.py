"""Lenses on some columns of a table: the others are the same on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.lens import Follower, Verdicts
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import CarriedRows, RowLens, TouchedRows
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula, NullValue, ProjectionStep
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose

__all__ = [
    "ColumnLens",
    "Columns",
    "SameRowsLens",
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

    def formulas(self) -> Sequence[Formula] | None:
        """What makes the columns of new rows that old ones do not have, of the old rows alone.

        None if there is more to it: then rows are made as a whole.
        """
        return None

    def projection_step(self) -> ProjectionStep:
        made = self.formulas()
        return super().projection_step() if made is None else self.step_of(made)

    def step_of(self, formulas: Sequence[Formula], keeps: str | None = None) -> ProjectionStep:
        """The step of formulas; the columns that they do not make are the same on both sides."""
        old, new = self.old_schema, self.new_schema
        made = {name for formula in formulas for name in formula.makes}
        known = {(column.id, column.type): column.name for column in old.columns}
        same = {
            column.name: known[column.id, column.type]
            for column in new.columns
            if column.name not in made and column.name not in new.key
        }
        same.update(zip(new.key, old.key, strict=True))
        fitting = [_fitting_formula(self.new_name, new, each) for each in formulas]
        return ProjectionStep(same, fitting, keeps)

    def row_follower(
        self, is_right: bool, watches: Iterable[str] = (), checks: bool = False
    ) -> Follower:
        """The other side's table, for lenses whose other columns stay while a row is there.

        They do as long as none of the columns that a lens `watches` is changed.
        """
        make_rows = self.to_new_rows if is_right else self.to_old_rows
        return Follower(self.new_name, make_rows, frozenset(watches), checks)

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


class SameRowsLens(ColumnLens):
    """One to one: rows are the same on both sides, which differ in what they say of columns."""

    def formulas(self) -> Sequence[Formula]:
        return ()

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def follower(self, table: str, is_right: bool) -> Follower:
        return self.row_follower(is_right)


def _fitting_formula(table: str, schema: TableSchema, formula: Formula) -> Formula:
    """A formula whose values are of the columns' types; `NullValue` for a null that is none."""
    known = {column.name: column for column in schema.columns}
    columns = [known.get(name) for name in formula.makes]

    def compute(rows: pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        found = []
        for column, values in zip(columns, formula.compute(rows), strict=True):
            if column is not None and values.null_count and not column.nullable:
                wrong = values.is_null().to_numpy(zero_copy_only=False)
                raise NullValue(table, column.name, int(wrong.argmax()))
            is_other = column is not None and values.type != column.type
            found.append(values.cast(column.type) if column is not None and is_other else values)
        return found

    return Formula(formula.reads, formula.makes, compute)


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
