"""Lenses on the rows of one table that keep its key: each row is carried on its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.lens import Expected, Lens, RowImages, RowMap, Side, TableImages
from livingdb.evolution.lenses.row_alignment import (
    AlignedRows,
    Mask,
    align_rows,
    distinct_keys,
    keys_of,
)
from livingdb.graph.row_constraints import check_not_null
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula, ProjectionStep
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import differs

__all__ = ["KEPT", "CarriedRows", "RowLens", "TouchedRows"]

KEPT = "?"
"""The column of a step that says which rows stay."""


class TouchedRows:
    """The rows with some keys: of the side that changed, before and after, and of the other.

    All three have one row for each key, in the same order.
    """

    def __init__(self, keys: pa.Table, before: AlignedRows, after: AlignedRows, other: AlignedRows):
        self.keys = keys
        self.before = before
        self.after = after
        self.other = other

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def changed_mask(self, name: str) -> Mask:
        """Where a column of the side that changed has another value than it had.

        A row that was not there before has changed in every column.
        """
        was = self.before.there
        return ~was | differs(self.before.column(name), self.after.column(name))


class CarriedRows:
    """What the other side's rows are after the change: which are there, and their columns."""

    def __init__(self, there: Mask, columns: Mapping[str, pa.Array]):
        self.there = there
        self.columns = columns
        """Every column but those of the key."""


class RowLens(Lens):
    """A lens on one table whose key stays what it is, under the same or other names."""

    drops = False
    """Whether an old row may have no new one."""

    @property
    def reads(self) -> list[str]:
        """The old columns that new rows are made of."""
        return [column.name for column in self.old_schema.columns]

    def __init__(self, old_name: str, old: Definition, new_name: str, new: Definition):
        self.old_name, self.new_name = old_name, new_name
        self.old, self.new = {old_name: old}, {new_name: new}

    @property
    def old_schema(self) -> TableSchema:
        """The table's schema before the change."""
        return self.old[self.old_name].schema

    @property
    def new_schema(self) -> TableSchema:
        """The table's schema after the change."""
        return self.new[self.new_name].schema

    @abstractmethod
    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        """The new side's rows after a change of the old side's.

        Where the new side has had a row, what the change does not concern is taken from it.
        """

    @abstractmethod
    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        """The old side's rows after a change of the new side's."""

    def check_right(self, touched: TouchedRows) -> None:
        """`InvalidData` if what changed on the old side does not fit the new one."""
        return

    def check_left(self, touched: TouchedRows) -> None:
        """`InvalidData` if what changed on the new side does not fit the old one."""
        return

    def to_new_rows(self, rows: pa.Table) -> pa.Table:
        """The new rows that old ones become if nothing is known of any: the first migration."""
        touched = _new_rows(rows, self.old_schema, self.new_schema)
        return self._build_new(touched)

    def to_old_rows(self, rows: pa.Table) -> pa.Table:
        """The old rows that new ones become if nothing is known of any."""
        touched = _new_rows(rows, self.new_schema, self.old_schema)
        return self._build_old(touched)

    def _build_new(self, touched: TouchedRows) -> pa.Table:
        names = self.new_name, self.new_schema, self.old_schema
        return _build_rows(*names, touched.keys, self.carry_right(touched))

    def _build_old(self, touched: TouchedRows) -> pa.Table:
        names = self.old_name, self.old_schema, self.new_schema
        return _build_rows(*names, touched.keys, self.carry_left(touched))

    def row_map(self, name: str) -> RowMap | None:
        return RowMap(self.old_name, self.projection_step())

    def projection_step(self) -> ProjectionStep:
        """What makes new rows of old ones; here, one formula that makes them as a whole."""
        names = tuple(column.name for column in self.new_schema.columns)

        def compute(rows: pa.Table) -> list[pa.Array | pa.ChunkedArray]:
            made = self.to_new_rows(rows)
            if not self.drops:
                return list(made.columns)
            keys = keys_of(self.old_schema, rows)
            aligned = align_rows(self.old_schema, keys, made, self.new_schema.key)
            return [*(aligned.column(name) for name in names), pa.array(aligned.there)]

        kept = (KEPT,) if self.drops else ()
        formula = Formula(tuple(self.reads), (*names, *kept), compute)
        return ProjectionStep({}, [formula], KEPT if self.drops else None)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        known = self.old_schema.column(column)
        return [
            (self.new_name, other.name) for other in self.new_schema.columns if other.id == known.id
        ]

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.new_name: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.old_name):
            yield from self.to_new_rows(pa.Table.from_batches([batch])).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = deltas.get(self.old_name)
        if not delta:
            return {}
        sides = (self.old_schema, self.new_schema)
        touched, held = _touched_rows(delta, new, self.new_name, *sides)
        self.check_right(touched)
        return {self.new_name: RowImages(held, self._build_new(touched))}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = deltas.get(self.new_name)
        if not delta:
            return {}
        sides = (self.new_schema, self.old_schema)
        touched, held = _touched_rows(delta, old, self.old_name, *sides)
        self.check_left(touched)
        return {self.old_name: RowImages(held, self._build_old(touched))}

    def agree_right(self, touched: TouchedRows, direction: str) -> CarriedRows:
        """The new side's rows if both sides are in step, of rows that did not change."""
        return self.carry_right(touched)

    def agree_left(self, touched: TouchedRows, direction: str) -> CarriedRows:
        """The old side's rows likewise."""
        return self.carry_left(touched)

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        sides = (self.old_schema, self.new_schema)
        names = (self.old_name, self.new_name)
        agree = partial(self.agree_right, direction=direction)
        return {self.new_name: _expected_rows((old, new), names, sides, agree)}

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        sides = (self.new_schema, self.old_schema)
        names = (self.new_name, self.old_name)
        agree = partial(self.agree_left, direction=direction)
        return {self.old_name: _expected_rows((new, old), names, sides, agree)}


def _expected_rows(
    sides: tuple[Side, Side],
    names: tuple[str, str],
    schemas: tuple[TableSchema, TableSchema],
    agree: Callable[[TouchedRows], CarriedRows],
) -> Iterator[pa.Table]:
    """The rows of the second side that belong to those of the first, part by part."""
    for batch in sides[0].scan(names[0]):
        rows = pa.Table.from_batches([batch])
        touched, _ = _touched_rows(RowImages(rows, rows), sides[1], names[1], *schemas)
        yield _build_rows(names[1], schemas[1], schemas[0], touched.keys, agree(touched))


def _new_rows(rows: pa.Table, here: TableSchema, there: TableSchema) -> TouchedRows:
    """Rows that neither side has had."""
    nothing = np.zeros(rows.num_rows, bool)
    absent, other = (
        AlignedRows(nothing, _null_rows(side, rows.num_rows)) for side in (here, there)
    )
    return TouchedRows(rows.select(list(here.key)), absent, AlignedRows(~nothing, rows), other)


def _touched_rows(
    delta: RowImages, other: Side, table: str, here: TableSchema, there: TableSchema
) -> tuple[TouchedRows, pa.Table]:
    """The touched rows of both sides, and those of the other side as they are held."""
    keys = distinct_keys(here, delta.before, delta.after)
    encoded = keys_of(here, keys)
    held = other.lookup(table, keys.rename_columns(list(there.key)))
    before, after = (align_rows(here, encoded, rows) for rows in (delta.before, delta.after))
    return TouchedRows(keys, before, after, align_rows(there, encoded, held)), held


def _build_rows(
    name: str, target: TableSchema, source: TableSchema, keys: pa.Table, carried: CarriedRows
) -> pa.Table:
    """Carried rows as a table of the target's columns."""
    by_name = dict(carried.columns)
    for mine, theirs in zip(target.key, source.key, strict=True):
        by_name[mine] = keys.column(theirs)
    columns = [by_name[column.name] for column in target.columns]
    table = pa.Table.from_arrays(columns, names=[column.name for column in target.columns])
    whole = table if carried.there.all() else table.filter(pa.array(carried.there))
    check_not_null(name, target, whole)
    return pa.Table.from_arrays(
        [_cast(whole.column(c.name), c.type) for c in target.columns], schema=target.whole
    )


def _cast(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == data_type else column.cast(data_type)


def _null_rows(schema: TableSchema, rows: int) -> pa.Table:
    arrays = [pa.nulls(rows, column.type) for column in schema.columns]
    return pa.Table.from_arrays(arrays, names=[column.name for column in schema.columns])
