"""Change key: the rows of a table go by other columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateKey, InvalidData, Unsupported
from livingdb.evolution.lenses.lens import (
    Lens,
    OneTableLens,
    RowImages,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import Mask, keys_of
from livingdb.evolution.lenses.table_parts import (
    anti_join,
    check_unreferenced,
    fitting_layout,
    held_rows,
    images_of,
    names_of,
    renamed_keys,
    rows_of,
    verdicts,
)
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import check_not_null, first_key
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.keys import KeyArray, concat_keys

__all__ = ["ChangeKey", "RekeyLens"]


@dataclass(frozen=True)
class ChangeKey(SchemaChange):
    """Give a table another key, of columns it has; those of the old key stay as columns.

    The new key's columns have to be unique and hold no null; both keys stay unique for as long
    as the sides are in step.
    """

    table: str
    key: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", names_of(self.key, "key"))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        schema = old.schema
        if not self.key:
            raise InvalidData("a table needs a key of at least one column")
        if tuple(self.key) == schema.key:
            raise InvalidData(f"{', '.join(self.key)} is the key of {self.table!r} already")
        for name in self.key:
            column = schema.column(name)
            if pa.types.is_nested(column.type):
                raise Unsupported(f"column {name!r}: a key cannot be of type {column.type}")
            if column.computed is not None or column.read_only:
                raise InvalidData(f"column {name!r} is not for writers, so it cannot be a key")
        check_unreferenced(tables, self.table)
        columns = [_rekeyed(column, self.key) for column in schema.columns]
        made = replace(schema, columns=tuple(columns), key=tuple(self.key))
        new = replace(old, schema=made, layout=fitting_layout(old.layout, made))
        return RekeyLens(self.table, old, new)


def _rekeyed(column: Column, key: Sequence[str]) -> Column:
    """A column under another key: what nobody sees, and told rows apart, may then be null."""
    if column.name in key:
        return replace(column, nullable=False)
    return replace(column, nullable=True) if column.hidden else column


class RekeyLens(OneTableLens):
    """The same rows on both sides, under different keys."""

    def directions(self) -> Verdicts:
        if self.old_schema.visible_key != self.old_schema.key:
            reason = (
                f"the rows of {self.table!r} have no key on the old side, so one that the new side "
                "inserts has no place there"
            )
            return verdicts(reverse=reason, both=reason)
        for name in self.new_schema.key:
            if self.old_schema.column(name).nullable:
                reason = (
                    f"column {name!r} of {self.table!r} may be null on the old side, and a row "
                    "without it has no key on the new one"
                )
                return verdicts(reverse=reason, both=reason)
        return verdicts()

    def scan_reason(self) -> str | None:
        return f"{', '.join(self.new_schema.key)} has to be unique and without nulls"

    def check(self, old: Side) -> None:
        """`InvalidData` for a null in the new key, `DuplicateKey` for a key that is there twice."""
        parts: list[KeyArray] = []
        for batch in old.scan(self.table, list(self.new_schema.key)):
            rows = pa.Table.from_batches([batch])
            self._check_nulls(rows)
            parts.append(keys_of(self.new_schema, rows))
        if parts:
            encoded = np.sort(concat_keys(parts))
            twice = encoded[1:][encoded[1:] == encoded[:-1]]
            if len(twice):
                self._refuse_twice(old, twice[:1])

    def _check_nulls(self, rows: pa.Table) -> None:
        for name in self.new_schema.key:
            if rows.column(name).null_count:
                raise InvalidData(
                    f"column {name!r} of {self.table!r} is null in a row, so it cannot be in a key"
                )

    def _refuse_twice(self, old: Side, wanted: KeyArray) -> None:
        for batch in old.scan(self.table, list(self.new_schema.key)):
            rows = pa.Table.from_batches([batch])
            found: Mask = keys_of(self.new_schema, rows) == wanted[0]
            if found.any():
                raise DuplicateKey(
                    f"table {self.table!r}: {first_key(self.new_schema, rows, found)} is there "
                    f"twice in {', '.join(self.new_schema.key)}, so it cannot be the key"
                )

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.table: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.table):
            yield from rows_of(self.new_schema, batch).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self._carry(deltas, self.old_schema, self.new_schema, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self._carry(deltas, self.new_schema, self.old_schema, old)

    def _carry(
        self, deltas: TableImages, here: TableSchema, there: TableSchema, other: Side
    ) -> TableImages:
        delta = images_of(deltas, self.table, here)
        if not delta:
            return {}
        before, after = rows_of(there, delta.before), rows_of(there, delta.after)
        check_not_null(self.table, there, after)
        self._check_unique(after, there)
        fresh = renamed_keys(there, anti_join(there, after, before))
        taken = held_rows(other, self.table, there, fresh)
        if taken.num_rows:
            raise DuplicateKey(
                f"table {self.table!r}: another row has {', '.join(there.key)} "
                f"{first_key(there, taken, np.ones(taken.num_rows, bool))} already"
            )
        return {self.table: RowImages(before, after)}

    def _check_unique(self, rows: pa.Table, schema: TableSchema) -> None:
        encoded = keys_of(schema, rows)
        _, first = np.unique(encoded, return_index=True)
        twice: Mask = np.ones(len(encoded), bool)
        twice[first] = False
        if twice.any():
            raise DuplicateKey(
                f"table {self.table!r}: {first_key(schema, rows, twice)} is there twice in "
                f"{', '.join(schema.key)}"
            )
