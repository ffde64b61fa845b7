"""Lenses whose expressions look values up in other tables, by key.

A value is looked up when it is made: for the rows that are there, in the other table as it is when
the schema changes; for a row that is written later, as it is once that write is made.  It then is
the row's own, and crosses again when the row changes in what it was made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.changed_side import ChangedSide
from livingdb.evolution.lenses.column_lens import ColumnLens, verdicts
from livingdb.evolution.lenses.lens import (
    Expected,
    Follower,
    Loss,
    RowImages,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import align_rows, distinct_keys, keys_of
from livingdb.evolution.lenses.table_parts import held_rows
from livingdb.evolution.schema_change import Schemas
from livingdb.sql.table_lookups import LookupExpression, TableLookup, given_columns
from livingdb.sql.table_lookups import lookup_expression as read_expression
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column

__all__ = ["LookupColumnsLens", "TableLookups", "lookups_in", "with_lookup_columns"]


def lookups_in(
    text: str | None, table: str, here: Definition, tables: Schemas
) -> LookupExpression | None:
    """An expression over rows of a table, with its lookups in other tables taken out."""
    if text is None:
        return None
    schemas = {name: known.schema for name, known in tables.items()}
    return read_expression(text, table, here.schema, schemas)


def with_lookup_columns(definition: Definition, found: LookupExpression | None) -> Definition:
    """A table with columns for what is looked up for each row."""
    if found is None or not found.lookups:
        return definition
    more = [Column(one.name, one.name, one.column.type) for one in found.lookups]
    schema = replace(definition.schema, columns=(*definition.schema.columns, *more))
    return replace(definition, schema=schema)


class TableLookups:
    """What is looked up for the rows of one table; `tables` are those that are asked."""

    def __init__(self, found: LookupExpression | None, tables: Schemas):
        self.lookups: tuple[TableLookup, ...] = () if found is None else found.lookups
        self.tables = {one.table: tables[one.table].schema for one in self.lookups}

    def __bool__(self) -> bool:
        return bool(self.lookups)

    @property
    def given(self) -> frozenset[str]:
        """The columns of the row that decide what is found."""
        return given_columns(self.lookups)

    def extend(self, rows: pa.Table, side: Side) -> pa.Table:
        """Rows with what is found for them."""
        for lookup in self.lookups:
            rows = rows.append_column(lookup.name, self._find(lookup, rows, side))
        return rows

    def _find(self, lookup: TableLookup, rows: pa.Table, side: Side) -> pa.Array:
        schema = self.tables[lookup.table]
        given = [flat(rows.column(name)) for name in lookup.given]
        valid = np.ones(rows.num_rows, bool)
        for array in given:
            valid &= array.is_valid().to_numpy(zero_copy_only=False)
        fields = pa.schema([column.field for column in schema.key_columns])
        arrays = [array.filter(pa.array(valid)) for array in given]
        asked = pa.Table.from_arrays(arrays, schema=fields)
        held = held_rows(side, lookup.table, schema, distinct_keys(schema, asked))
        found = align_rows(schema, keys_of(schema, asked), held)
        return found.column(lookup.column.name).take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def extend_images(self, delta: RowImages, deltas: TableImages, side: Side) -> RowImages:
        """A change with what is found for its rows once all changes of the side are made."""
        changes = {n: (s, deltas[n]) for n, s in self.tables.items() if n in deltas}
        after = ChangedSide(side, changes)
        return RowImages(self.extend(delta.before, after), self.extend(delta.after, after))


class _ExtendedSide:
    """A side whose rows of one table have what is looked up for them."""

    def __init__(self, side: Side, table: str, lookups: TableLookups):
        self._side, self._table, self._lookups = side, table, lookups

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        rows = self._side.lookup(table, keys)
        return self._lookups.extend(rows, self._side) if table == self._table else rows

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        rows = self._side.matching_rows(table, values)
        return self._lookups.extend(rows, self._side) if table == self._table else rows

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        if table != self._table:
            yield from self._side.scan(table, columns)
            return
        for batch in self._side.scan(table):
            rows = self._lookups.extend(pa.Table.from_batches([batch]), self._side)
            yield from (rows if columns is None else rows.select(list(columns))).to_batches()

    def count(self, table: str) -> int:
        return self._side.count(table)


class LookupColumnsLens(ColumnLens):
    """A lens on a table's columns, of which some are made by looking values up.

    `right` carries old rows with what `there` finds for them to new ones, and `left` new rows with
    what `back` finds to old ones.
    """

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        right: ColumnLens,
        left: ColumnLens,
        there: TableLookups,
        back: TableLookups,
    ):
        super().__init__(table, old, new)
        self.right, self.left = right, left
        self.there, self.back = there, back
        self.consults = frozenset({*there.tables, *back.tables})
        self.drops = right.drops

    def bind(self, side: Side) -> LookupColumnsLens:
        """This lens, over the rows that it looks up on a side."""
        return _BoundLens(self, side)

    def directions(self) -> Verdicts:
        return verdicts(self.right.directions()["forward"], self.left.directions()["reverse"])

    def hides(self, is_right: bool) -> bool:
        return (self.right if is_right else self.left).hides(is_right)

    def scan_reason(self) -> str | None:
        reason = self.right.scan_reason()
        if reason is None and self.there and self._required is not None:
            return f"{self._required!r} is NOT NULL, so every row has to find its value"
        return reason

    @property
    def _required(self) -> str | None:
        """A new column that may not be null."""
        known = {column.id for column in self.old_schema.columns}
        made = [c for c in self.new_schema.columns if c.id not in known or not self._is_same(c)]
        return next((column.name for column in made if not column.nullable), None)

    def _is_same(self, column: Column) -> bool:
        return any((c.id, c.type) == (column.id, column.type) for c in self.old_schema.columns)

    def check(self, old: Side) -> None:
        self.right.check(_ExtendedSide(old, self.old_name, self.there))
        for _ in self.create(old)[self.new_name]:
            pass

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return self.right.create(_ExtendedSide(old, self.old_name, self.there))

    def to_new_rows(self, rows: pa.Table) -> pa.Table:
        assert not self.there, "what is looked up is on a side: bind the lens first"
        return self.right.to_new_rows(rows)

    def to_old_rows(self, rows: pa.Table) -> pa.Table:
        assert not self.back, "what is looked up is on a side"
        return self.left.to_old_rows(rows)

    def follower(self, table: str, is_right: bool) -> Follower | None:
        lookups, lens = (self.there, self.right) if is_right else (self.back, self.left)
        return None if lookups else lens.follower(table, is_right)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        return self.right.outlets(table, column)

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        return self.right.loss(deltas, carried, old)

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = deltas.get(self.old_name)
        if not delta:
            return {}
        extended = self.there.extend_images(delta, deltas, old)
        return self.right.putr({self.old_name: extended}, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = deltas.get(self.new_name)
        if not delta:
            return {}
        extended = self.back.extend_images(delta, deltas, new)
        return self.left.putl({self.new_name: extended}, new, old)

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        return self.right.expected_new(
            _ExtendedSide(old, self.old_name, self.there), new, direction
        )

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        return self.left.expected_old(_ExtendedSide(new, self.new_name, self.back), old, direction)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """Those that were looked up: the other table may have changed since."""
        lenses = [self.right] if self.there else []
        lenses += [self.left] if self.back else []
        found = [n for lens in lenses for n in lens.unverified_columns(direction)]
        return tuple(dict.fromkeys(found))


class _BoundLens(LookupColumnsLens):
    """A lens with a side on which it looks values up for old rows."""

    def __init__(self, lens: LookupColumnsLens, side: Side):
        super().__init__(
            lens.old_name,
            lens.old[lens.old_name],
            lens.new[lens.new_name],
            lens.right,
            lens.left,
            lens.there,
            lens.back,
        )
        self._side = side

    def to_new_rows(self, rows: pa.Table) -> pa.Table:
        return self.right.to_new_rows(self.there.extend(rows, self._side))
