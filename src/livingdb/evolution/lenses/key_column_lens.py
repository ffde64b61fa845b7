"""Lenses on a column of the key: in another type, or left out of the key and the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.evolution.casts import Cast
from livingdb.evolution.lenses.column_lens import constant_column
from livingdb.evolution.lenses.column_lens import verdicts as column_verdicts
from livingdb.evolution.lenses.column_mapping import ColumnMapping
from livingdb.evolution.lenses.lens import (
    SHOWN_FAILURES,
    Loss,
    OneTableLens,
    RowImages,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import Mask, align_rows, distinct_keys, keys_of
from livingdb.evolution.lenses.table_parts import (
    anti_join,
    held_rows,
    images_of,
    renamed_keys,
    rows_of,
)
from livingdb.graph.row_constraints import first_key
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.compare import choose, differs
from livingdb.trees.keys import concat_keys

__all__ = ["DropKeyColumnLens", "KeyColumnLens", "RetypeKeyLens"]


class KeyColumnLens(OneTableLens):
    """A lens on one table that changes a column of its key."""

    def __init__(self, table: str, old: Definition, new: Definition, name: str):
        super().__init__(table, old, new)
        self.name = name


class RetypeKeyLens(KeyColumnLens):
    """The same rows on both sides; a key is there if it comes back as it was.

    So each key has one on the other side, or none; rows without one are refused, or are in
    quarantine.
    """

    policies: ClassVar[Sequence[str]] = ("reject", "quarantine")

    def __init__(self, table: str, old: Definition, new: Definition, name: str, policy: str):
        super().__init__(table, old, new, name)
        self.policy = policy

    def directions(self) -> Verdicts:
        return column_verdicts(None, None)

    def scan_reason(self) -> str | None:
        target = self.new_schema.column(self.name)
        if self.policy == "quarantine" or self._is_total(self.old_schema, self.new_schema):
            return None
        return f"each value of {self.name!r} must fit {target.type_name}"

    def _is_total(self, here: TableSchema, there: TableSchema) -> bool:
        source, target = here.column(self.name), there.column(self.name)
        if source.type != target.type:
            is_read_back = not pa.types.is_string(target.type) or pa.types.is_integer(source.type)
            is_lossless = Cast(source.type, target.type).is_lossless
            return is_lossless and is_read_back and target.limit is None
        return target.limit is None or (source.limit or target.limit + 1) <= target.limit

    def check(self, old: Side) -> None:
        if self.scan_reason() is None:
            return
        for batch in old.scan(self.table, list(self.old_schema.key)):
            rows = pa.Table.from_batches([batch])
            self._refuse(self.old_schema, self.new_schema, rows)

    def failures(self, old: Side) -> Iterator[str]:
        if self.scan_reason() is None:
            return
        for batch in old.scan(self.table, list(self.old_schema.key)):
            rows = pa.Table.from_batches([batch])
            unfit = self._cast(self.old_schema, self.new_schema, rows)[1]
            for at in np.flatnonzero(unfit)[:SHOWN_FAILURES]:
                yield self._message(self.old_schema, self.new_schema, rows, int(at))

    def _refuse(self, here: TableSchema, there: TableSchema, rows: pa.Table) -> None:
        unfit = self._cast(here, there, rows)[1]
        if unfit.any():
            raise InvalidData(self._message(here, there, rows, int(unfit.argmax())))

    def _message(self, here: TableSchema, there: TableSchema, rows: pa.Table, at: int) -> str:
        value = rows.column(self.name)[at].as_py()
        key = first_key(here, rows, np.arange(rows.num_rows) == at)
        return (
            f"table {self.table!r}, column {self.name!r}: {value!r:.80} in the row with the key "
            f"{key} does not fit {there.column(self.name).type_name} so that it comes back as it is"
        )

    def _cast(self, here: TableSchema, there: TableSchema, rows: pa.Table) -> tuple[pa.Array, Mask]:
        """The values of the column on the other side, and where they would not come back."""
        source, target = here.column(self.name), there.column(self.name)
        given = flat(rows.column(self.name))
        made, unfit = given, np.zeros(len(given), bool)
        if source.type != target.type:
            made, unfit = Cast(source.type, target.type).fitting_values(given)
            back, _ = Cast(target.type, source.type).values(made)
            unfit = unfit | differs(back, given)
        if target.limit is not None:
            is_long = pc.greater(pc.utf8_length(made), target.limit).fill_null(False)
            unfit = unfit | is_long.to_numpy(zero_copy_only=False)
        return made, unfit

    def other_rows(self, rows: pa.Table, is_right: bool) -> tuple[pa.Table, Mask]:
        """Rows with the columns of the key as the other side has them, and which have one."""
        sides = (self.old_schema, self.new_schema)
        here, there = sides if is_right else sides[::-1]
        made, unfit = self._cast(here, there, rows)
        at = rows.column_names.index(self.name)
        rows = rows.set_column(at, pa.field(self.name, made.type), made)
        return rows.filter(pa.array(~unfit)), ~unfit

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.table: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.table):
            rows, _ = self.other_rows(pa.Table.from_batches([batch]), is_right=True)
            yield from rows_of(self.new_schema, rows).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self._carry(deltas, self.old_schema, self.new_schema, True)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self._carry(deltas, self.new_schema, self.old_schema, False)

    def _carry(
        self, deltas: TableImages, here: TableSchema, there: TableSchema, is_right: bool
    ) -> TableImages:
        delta = images_of(deltas, self.table, here)
        if not delta:
            return {}
        if self.policy != "quarantine":
            self._refuse(here, there, delta.after)
        before, after = (
            rows_of(there, self.other_rows(rows, is_right)[0])
            for rows in (delta.before, delta.after)
        )
        return {self.table: RowImages(before, after)}

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row in quarantine."""
        delta = images_of(deltas, self.table, self.old_schema)
        unfit = self._cast(self.old_schema, self.new_schema, delta.after)[1]
        if not unfit.any():
            return None
        return Loss(self.table, None, first_key(self.old_schema, delta.after, unfit))

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        """Rows whose keys the other side cannot have."""
        sides = (self.old_schema, self.new_schema)
        here, there = sides[::-1] if is_new else sides
        return self._cast(here, there, rows)[1]


class DropKeyColumnLens(KeyColumnLens):
    """The rows go by the rest of their key, which has to be unique.

    A row of the new side is the one of the old side that has the rest of the key; a new row gets
    a value for the column, as `default` or `back` says.
    """

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        default: object,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new, column.name)
        self.column, self.default, self.back = column, default, back

    def directions(self) -> Verdicts:
        has_value = self.default is not None or self.back is not None
        reason = (
            f"a row inserted on the new side has no value for {self.name!r}, which is in the key "
            "of the old side: give a default or a `down` expression"
        )
        return column_verdicts(None, None if has_value else reason)

    @property
    def _rest(self) -> list[str]:
        return list(self.new_schema.key)

    def scan_reason(self) -> str | None:
        return f"{', '.join(self._rest)} has to be unique"

    def check(self, old: Side) -> None:
        for message in self.failures(old):
            raise DuplicateKey(message)

    def failures(self, old: Side) -> Iterator[str]:
        """The first keys that more than one row would have."""
        parts = [
            keys_of(self.new_schema, pa.Table.from_batches([batch]))
            for batch in old.scan(self.table, self._rest)
        ]
        if not parts:
            return
        encoded = np.sort(concat_keys(parts))
        twice = np.unique(encoded[1:][encoded[1:] == encoded[:-1]])[:SHOWN_FAILURES]
        if not len(twice):
            return
        found = []
        for batch in old.scan(self.table, list(self.old_schema.key)):
            rows = pa.Table.from_batches([batch])
            same = np.isin(keys_of(self.new_schema, rows), twice)
            found.append(rows.filter(pa.array(same)))
        rows = pa.concat_tables(found)
        for key in twice:
            same = keys_of(self.new_schema, rows) == key
            keys = rows.filter(pa.array(same)).slice(0, SHOWN_FAILURES).to_pylist()
            shown = ", ".join(repr(tuple(key.values())) for key in keys)
            yield (
                f"table {self.table!r}: without {self.name!r} several rows have the key "
                f"{first_key(self.new_schema, rows, same)}: {shown}"
            )

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.table: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self.new_schema.columns]
        for batch in old.scan(self.table, names):
            yield from rows_of(self.new_schema, batch).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = images_of(deltas, self.table, self.old_schema)
        if not delta:
            return {}
        there = self.new_schema
        before, after = rows_of(there, delta.before), rows_of(there, delta.after)
        encoded = keys_of(there, after)
        twice: Mask = np.ones(len(encoded), bool)
        twice[np.unique(encoded, return_index=True)[1]] = False
        fresh = renamed_keys(there, anti_join(there, after, before))
        taken = held_rows(new, self.table, there, fresh)
        if twice.any() or taken.num_rows:
            key = first_key(there, after, twice) if twice.any() else first_key(there, taken, _ALL)
            raise DuplicateKey(
                f"table {self.table!r}: another row has {', '.join(there.key)} {key} already, and "
                f"the other side tells rows apart by nothing else"
            )
        return {self.table: RowImages(before, after)}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = images_of(deltas, self.table, self.new_schema)
        if not delta:
            return {}
        keys = distinct_keys(self.new_schema, delta.before, delta.after)
        held = rows_of(self.old_schema, old.matching_rows(self.table, keys))
        after = delta.after
        known = align_rows(self.new_schema, keys_of(self.new_schema, after), held)
        values = choose(self._new_values(after), known.column(self.name), known.there)
        columns = {name: after.column(name) for name in after.column_names}
        columns[self.name] = values
        made = pa.Table.from_arrays(
            [columns[column.name] for column in self.old_schema.columns],
            schema=self.old_schema.whole,
        )
        return {self.table: RowImages(held, made)}

    def _new_values(self, rows: pa.Table) -> pa.Array:
        """What rows that are new get in the column."""
        if self.back is None:
            return constant_column(self.default, self.column.type)(rows)
        self.back.check(rows)
        return flat(pa.chunked_array([self.back.compute(rows).columns[0]]))


_ALL = np.ones(1, bool)
