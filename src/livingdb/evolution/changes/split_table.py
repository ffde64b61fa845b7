"""Split: the rows of a table go to others, by conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import Lens, Loss, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import AlignedRows, Mask, align_rows, keys_of
from livingdb.evolution.lenses.table_parts import (
    apply_images,
    check_names,
    check_unreferenced,
    held_rows,
    images_of,
    part_definition,
    rows_of,
    touched_keys,
    verdicts,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import first_key
from livingdb.sql.expressions import Expression
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose, differs

__all__ = ["SplitLens", "SplitTable", "StrictSplitLens"]


@dataclass(frozen=True)
class SplitTable(SchemaChange):
    """Split a table by rows into others, each with its condition in SQL.

    A row that fulfils both conditions is in both tables, one that fulfils none stays on the old
    side only; what a writer of the new side does against the conditions is remembered.  With
    `strict` each row has to fulfil exactly one of two or more conditions, that of its table.
    """

    table: str
    into: Mapping[str, str]
    strict: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.into, Mapping):
            raise InvalidData("split: give the condition of each new table, as a dict of texts")
        object.__setattr__(self, "into", dict(self.into))

    def plan(self, tables: Schemas) -> Lens:
        whole = definition_of(tables, self.table)
        if len(self.into) != 2 and not (self.strict and len(self.into) > 2):
            many = "two tables or more" if self.strict else "two tables, or more if strict"
            raise InvalidData(f"table {self.table!r} is split into {many}, not {len(self.into)}")
        check_names(tables, self.into, {self.table})
        check_unreferenced(tables, self.table)
        for text in self.into.values():
            Expression(text).check(whole.schema.arrow, pa.bool_())
        values = [column.name for column in whole.schema.columns]
        ids = MadeIds(self, [whole])
        new = {name: part_definition(whole, values, ids, at) for at, name in enumerate(self.into)}
        kind = StrictSplitLens if self.strict else SplitLens
        return kind(self.table, {self.table: whole}, new, self.into)


class _Split(Lens):
    """What both kinds of splits share."""

    def __init__(self, table: str, old: Schemas, new: Schemas, conditions: Mapping[str, str]):
        self.table, self.old, self.new = table, old, new
        self.conditions = {name: Expression(text) for name, text in conditions.items()}

    @property
    def expressions(self) -> list[tuple[Expression, TableSchema]]:
        """See `Lens.expressions`."""
        schema = self.old[self.table].schema
        return [(condition, schema) for condition in self.conditions.values()]

    @property
    def schema(self) -> TableSchema:
        """The columns that all the tables have."""
        return self.old[self.table].schema

    def directions(self) -> Verdicts:
        return verdicts()

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {name: self._create_batches(old, name) for name in self.new}

    def _create_batches(self, old: Side, name: str) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.table):
            rows = rows_of(self.schema, batch)
            chosen = rows.filter(pa.array(self.conditions[name].true_mask(rows)))
            yield from rows_of(self.new[name].schema, chosen).to_batches()

    def _held_rows(self, side: Side, keys: pa.Table) -> dict[str, pa.Table]:
        """The rows of the new tables under some keys."""
        return {name: held_rows(side, name, self.schema, keys) for name in self.new}

    def _new_keys(self, deltas: TableImages) -> pa.Table:
        changes = [(self.schema, images_of(deltas, name, self.schema)) for name in self.new]
        return touched_keys(self.schema, *changes)

    def _rows_after(self, deltas: TableImages, held: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows of the new tables once a change is made."""
        return {
            name: apply_images(self.schema, rows, images_of(deltas, name, self.schema))
            for name, rows in held.items()
        }


class SplitLens(_Split):
    """Two tables that may share rows, and leave some out.

    For rows of R and S against their conditions cR and cS, and for twins that went apart, the
    tables as they are say what has to be remembered:

        lost in R       keys of S that are not in R, though the row of S fulfils cR
        forced in R     keys of R whose row does not fulfil cR
        (the same for S)
        separated       keys in both with different rows

    The rest, rows in neither, is what the old table has beyond them.
    """

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row that fulfils neither condition."""
        rows = images_of(deltas, self.table, self.schema).after
        encoded = keys_of(self.schema, rows)
        parts = [images_of(carried, name, self.schema).after for name in self.new]
        there = np.logical_or.reduce(
            [align_rows(self.schema, encoded, part).there for part in parts]
        )
        return None if there.all() else Loss(self.table, None, first_key(self.schema, rows, ~there))

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        """Rows of the old table that fulfil neither condition."""
        if is_new:
            return super().own_rows(table, is_new, rows)
        masks = [condition.true_mask(rows) for condition in self.conditions.values()]
        found: Mask = ~np.logical_or.reduce(masks)
        return found

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = images_of(deltas, self.table, self.schema)
        if not delta:
            return {}
        keys = touched_keys(self.schema, (self.schema, delta))
        encoded = keys_of(self.schema, keys)
        after = align_rows(self.schema, encoded, delta.after)
        held = self._held_rows(new, keys)
        first, second = self.new
        r, s = (align_rows(self.schema, encoded, held[name]) for name in (first, second))
        fulfils_r = self._condition_masks(first, after, r, s)
        fulfils_s = self._condition_masks(second, after, r, s)
        separated = r.there & s.there & self._difference_mask(r, s)
        wanted_r = fulfils_r[0] | (r.there & ~fulfils_r[1])
        wanted_s = fulfils_s[0] | (s.there & ~fulfils_s[2])
        lost_r = s.there & ~r.there & fulfils_r[2]
        lost_s = r.there & ~s.there & fulfils_s[1]
        in_r = after.there & wanted_r & ~(lost_r & wanted_s)
        own = in_r & separated
        in_s = after.there & wanted_s & ~(lost_s & in_r) | own
        return {
            first: RowImages(held[first], self._choose_rows(after, after, own, in_r)),
            second: RowImages(held[second], self._choose_rows(after, s, own, in_s)),
        }

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        keys = self._new_keys(deltas)
        encoded = keys_of(self.schema, keys)
        first, second = self.new
        after = self._rows_after(deltas, self._held_rows(new, keys))
        r, s = (align_rows(self.schema, encoded, after[name]) for name in (first, second))
        held = held_rows(old, self.table, self.schema, keys)
        return {self.table: RowImages(held, self._choose_rows(s, r, r.there, r.there | s.there))}

    def _condition_masks(self, name: str, *parts: AlignedRows) -> list[Mask]:
        """Where rows are there and fulfil a condition."""
        rows = pa.concat_tables([part.rows for part in parts])
        holds = np.split(self.conditions[name].true_mask(rows), len(parts))
        return [part.there & mask for part, mask in zip(parts, holds, strict=True)]

    def _difference_mask(self, first: AlignedRows, second: AlignedRows) -> Mask:
        names = [column.name for column in self.schema.columns]
        masks = [differs(first.column(name), second.column(name)) for name in names]
        made: Mask = np.logical_or.reduce(masks)
        return made

    def _choose_rows(
        self, one: AlignedRows, other: AlignedRows, take_other: Mask, there: Mask
    ) -> pa.Table:
        """Of two rows one for each key, where one is there."""
        names = [column.name for column in self.schema.columns]
        columns = [choose(one.column(name), other.column(name), take_other) for name in names]
        rows = pa.Table.from_arrays(columns, schema=self.schema.whole)
        return rows.filter(pa.array(there))


class StrictSplitLens(_Split):
    """Tables that share no row and leave none out: nothing has to be remembered."""

    def scan_reason(self) -> str | None:
        return f"every row of {self.table!r} has to fulfil exactly one of the conditions"

    def check(self, old: Side) -> None:
        for batch in old.scan(self.table):
            self._table_numbers(rows_of(self.schema, batch))

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        delta = images_of(deltas, self.table, self.schema)
        if not delta:
            return {}
        held = self._held_rows(new, touched_keys(self.schema, (self.schema, delta)))
        places = self._table_numbers(delta.after)
        return {
            name: RowImages(held[name], delta.after.filter(pa.array(places == number)))
            for number, name in enumerate(self.new)
        }

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        keys = self._new_keys(deltas)
        after = self._rows_after(deltas, self._held_rows(new, keys))
        made = pa.concat_tables(list(after.values()))
        owners = np.repeat(np.arange(len(after)), [rows.num_rows for rows in after.values()])
        wrong = self._table_numbers(made) != owners
        if wrong.any():
            name = list(self.new)[int(owners[int(wrong.argmax())])]
            raise InvalidData(
                f"table {name!r}: the row with the key {first_key(self.schema, made, wrong)} "
                f"does not fulfil {self.conditions[name].text!r}"
            )
        self._check_once(made)
        return {self.table: RowImages(held_rows(old, self.table, self.schema, keys), made)}

    def _table_numbers(self, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Which table each row belongs to; `InvalidData` for one that fits none or several."""
        holds = np.array([condition.true_mask(rows) for condition in self.conditions.values()])
        wrong = holds.sum(axis=0) != 1
        if wrong.any():
            raise InvalidData(
                f"table {self.table!r}: the row with the key "
                f"{first_key(self.schema, rows, wrong)} fulfils "
                f"{int(holds[:, int(wrong.argmax())].sum())} of the conditions, and not one"
            )
        places: np.ndarray[tuple[int], np.dtype[np.int64]] = holds.argmax(axis=0)
        return places

    def _check_once(self, rows: pa.Table) -> None:
        encoded = keys_of(self.schema, rows)
        _, first = np.unique(encoded, return_index=True)
        twice: Mask = np.ones(len(encoded), bool)
        twice[first] = False
        if twice.any():
            raise InvalidData(
                f"the key {first_key(self.schema, rows, twice)} would be in two of the tables "
                f"{', '.join(map(repr, self.new))}"
            )
