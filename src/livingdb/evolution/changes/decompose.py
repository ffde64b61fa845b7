"""Decompose: the columns of a table go to tables of their own, all with its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData, Unsupported
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.normalize_into import check_limits
from livingdb.evolution.lenses.lens import Lens, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.lookup_lens import FANOUT
from livingdb.evolution.lenses.row_alignment import AlignedRows, Mask, align_rows, keys_of
from livingdb.evolution.lenses.table_parts import (
    all_null,
    apply_images,
    assemble_rows,
    check_names,
    check_together,
    check_unreferenced,
    held_rows,
    images_of,
    key_columns,
    names_of,
    part_definition,
    rows_of,
    touched_keys,
    verdicts,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import first_key
from livingdb.tables.schema import TableSchema

__all__ = ["Decompose", "DecomposeLens", "KeyParts"]


@dataclass(frozen=True)
class Decompose(SchemaChange):
    """Move the columns of a table to others with its key.

    `into` names for each new table its columns; each column is in one of them, and the key in
    all.  A row that one of them does not have reads as null in its columns.

    One of them may be there, with that key: its rows are shared, and the rest stays in the table.
    """

    table: str
    into: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        if not isinstance(self.into, Mapping):
            raise InvalidData("decompose: give the columns of each new table, as a dict of lists")
        into = {name: names_of(columns, f"table {name!r}") for name, columns in self.into.items()}
        object.__setattr__(self, "into", into)

    def check_definition(self, tables: Schemas) -> None:
        schema = definition_of(tables, self.table).schema
        for name, columns in self.into.items():
            if name in tables and name != self.table:
                check_limits(self.table, schema, columns, name, tables[name].schema)

    def plan(self, tables: Schemas) -> Lens:
        whole = definition_of(tables, self.table)
        self._check_columns(whole.schema)
        there = [name for name in self.into if name in tables and name != self.table]
        if there:
            return self._plan_into(tables, whole.schema, there[0])
        check_names(tables, self.into, {self.table})
        check_unreferenced(tables, self.table)
        check_together(whole.schema, [(*whole.schema.key, *part) for part in self.into.values()])
        ids = MadeIds(self, [whole])
        parts = {
            name: part_definition(whole, columns, ids, at)
            for at, (name, columns) in enumerate(self.into.items())
        }
        schemas = {name: part.schema for name, part in parts.items()}
        return DecomposeLens(
            {self.table: whole}, parts, KeyParts(self.table, whole.schema, schemas)
        )

    def _plan_into(self, tables: Schemas, schema: TableSchema, name: str) -> Lens:
        """The lens to a table that is there: rows are found in it by the key of this one."""
        if set(self.into) != {self.table, name}:
            raise InvalidData(
                f"there is a table {name!r} already: columns move to it, and the others stay in "
                f"{self.table!r}, so into= names these two"
            )
        if len(schema.key) != 1:
            raise Unsupported(
                f"{name!r} is there already, and the key of {self.table!r} has several columns: "
                "rows are found in a table that is there by one"
            )
        moved = self.into[name]
        change = Normalize(self.table, moved, name, by=schema.key[0], on_update=FANOUT)
        return change.plan(tables)

    def _check_columns(self, schema: TableSchema) -> None:
        if len(self.into) < 2:
            raise InvalidData(f"table {self.table!r} is taken apart into two tables or more")
        seen: dict[str, str] = {}
        for name, columns in self.into.items():
            if not columns:
                raise InvalidData(f"table {name!r} would have no columns but the key")
            for column in columns:
                if schema.column(column).name in schema.key:
                    raise InvalidData(f"column {column!r} is in the key, so in every part")
                if column in seen:
                    raise InvalidData(f"column {column!r} is in {seen[column]!r} and in {name!r}")
                seen[column] = name
        for value in schema.columns:
            if value.name not in seen and value.name not in schema.key:
                raise InvalidData(f"column {value.name!r} is in none of the new tables")


@dataclass(frozen=True)
class KeyParts:
    """A table, and tables with its key that together have its other columns.

    The table has a row where any part has one.  A part is without a row only where its columns
    of the table's row are null; whether it then is, the part itself remembers.
    """

    name: str
    whole: TableSchema
    parts: Mapping[str, TableSchema]

    def split_images(self, delta: RowImages, parts: Side) -> TableImages:
        """What a change of the table changes in the parts."""
        keys = touched_keys(self.whole, (self.whole, delta))
        encoded = keys_of(self.whole, keys)
        after = align_rows(self.whole, encoded, delta.after)
        held = {name: held_rows(parts, name, schema, keys) for name, schema in self.parts.items()}
        was = {name: align_rows(self.parts[name], encoded, rows) for name, rows in held.items()}
        known = np.logical_or.reduce([part.there for part in was.values()])
        carried = {}
        for name, schema in self.parts.items():
            stays_away = known & ~was[name].there & all_null(after, self._values(schema))
            made = self._build_part(schema, after, keys, after.there & ~stays_away)
            carried[name] = RowImages(held[name], made)
        return carried

    def part_rows(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows of a part that new rows of the table have."""
        here: Mask = np.ones(rows.num_rows, bool)
        keys = rows.select(list(self.whole.key))
        return self._build_part(self.parts[name], AlignedRows(here, rows), keys, here)

    def join_images(self, deltas: TableImages, parts: Side, whole: Side) -> TableImages:
        """What a change of parts changes in the table."""
        changes = {name: images_of(deltas, name, part) for name, part in self.parts.items()}
        pairs = [(self.parts[name], delta) for name, delta in changes.items()]
        keys = touched_keys(self.whole, *pairs)
        after = {}
        for name, schema in self.parts.items():
            held = held_rows(parts, name, schema, keys)
            after[name] = apply_images(schema, held, changes[name])
        held = held_rows(whole, self.name, self.whole, keys)
        return {self.name: RowImages(held, self.join_parts(keys, after))}

    def join_parts(self, keys: pa.Table, rows: Mapping[str, pa.Table]) -> pa.Table:
        """The table's rows under some keys, from those of the parts."""
        encoded = keys_of(self.whole, keys)
        found = {name: align_rows(self.parts[name], encoded, part) for name, part in rows.items()}
        there = np.logical_or.reduce([part.there for part in found.values()])
        columns = key_columns(self.whole, keys)
        for name, schema in self.parts.items():
            self.check_parts(name, keys, there & ~found[name].there)
            columns |= {value: found[name].column(value) for value in self._values(schema)}
        return assemble_rows(self.whole, there, columns)

    def required_column(self, name: str) -> str | None:
        """A column of the part that may not be null, so that every row has to have the part."""
        values = self._values(self.parts[name])
        return next((value for value in values if not self.whole.column(value).nullable), None)

    def check_parts(self, name: str, keys: pa.Table, missing: Mask) -> None:
        """`InvalidData` if rows lack a part that they have to have."""
        column = self.required_column(name)
        if column is not None and missing.any():
            raise InvalidData(
                f"table {name!r} has no row with the key {first_key(self.whole, keys, missing)}, "
                f"which other parts of {self.name!r} have, and its column {column!r} is NOT NULL"
            )

    @staticmethod
    def _values(schema: TableSchema) -> list[str]:
        return [column.name for column in schema.columns if column.name not in schema.key]

    def _build_part(
        self, schema: TableSchema, rows: AlignedRows, keys: pa.Table, there: Mask
    ) -> pa.Table:
        columns = key_columns(schema, keys)
        columns |= {name: rows.column(name) for name in self._values(schema)}
        return assemble_rows(schema, there, columns)


class DecomposeLens(Lens):
    """The old side is whole, the new one in parts."""

    def __init__(self, old: Schemas, new: Schemas, parts: KeyParts):
        self.old, self.new, self.parts = old, new, parts

    def directions(self) -> Verdicts:
        return verdicts()

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {name: self._create_batches(old, name) for name in self.parts.parts}

    def _create_batches(self, old: Side, name: str) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.parts.name):
            yield from self.parts.part_rows(name, rows_of(self.parts.whole, batch)).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = images_of(deltas, self.parts.name, self.parts.whole)
        return self.parts.split_images(delta, new) if delta else {}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.parts.join_images(deltas, new, old)
