"""Lenses between a side where columns are unique and one where they are not.

On the *strict* side they are.  Rows of the *loose* side that have a value in common are refused,
or all but the one with the smallest key are kept from the strict side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateKey
from livingdb.evolution.lenses.column_lens import ColumnLens, verdicts
from livingdb.evolution.lenses.lens import (
    Expected,
    Follower,
    Loss,
    RowImages,
    RowMap,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import Mask, align_rows, distinct_keys, keys_of
from livingdb.evolution.lenses.row_lens import CarriedRows, RowLens, TouchedRows
from livingdb.evolution.lenses.table_parts import anti_join, held_rows, images_of, rows_of
from livingdb.graph.row_constraints import first_key
from livingdb.graph.unique_constraints import check_unique_table, duplicate_mask, group_codec
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.secondary_tree import valid_mask
from livingdb.trees.compare import differs
from livingdb.trees.keys import KeyArray

__all__ = ["UniqueLens", "UniqueQuarantineLens"]

Unique = tuple[str, tuple[str, ...]]
"""The name of a constraint, and its columns."""


class UniqueLens(ColumnLens):
    """One to one.  What the strict side cannot take is refused where all rows are known."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        unique: Unique,
        on_violation: str | None,
        strict: str,
    ):
        super().__init__(table, old, new)
        self.constraint, self.group = unique
        self.on_violation = on_violation
        self.strict = strict

    def directions(self) -> Verdicts:
        reason = None
        if self.on_violation is None:
            loose = "old" if self.strict == "new" else "new"
            reason = (
                f"two rows of the {loose} side may have one value in ({', '.join(self.group)}): "
                "choose on_violation 'reject' or 'quarantine'"
            )
        return verdicts(reason, None) if self.strict == "new" else verdicts(None, reason)

    def scan_reason(self) -> str | None:
        if self.strict == "new":
            return f"no two rows may have one value in ({', '.join(self.group)})"
        return None

    def check(self, old: Side) -> None:
        if self.strict != "new":
            return
        names = list(dict.fromkeys([*self.group, *self.old_schema.key]))
        schema = pa.schema([self.old_schema.column(name).field for name in names])
        rows = pa.Table.from_batches(old.scan(self.old_name, names), schema)
        check_unique_table(self.old_name, self.old_schema, rows, self.constraint, self.group)

    def follower(self, table: str, is_right: bool) -> Follower:
        return self.row_follower(is_right)


class UniqueQuarantineLens(RowLens):
    """Of the rows that have a value in common, the strict side has that with the smallest key."""

    def __init__(self, table: str, old: Definition, new: Definition, unique: Unique, strict: str):
        super().__init__(table, old, table, new)
        self.table = table
        self.constraint, self.group = unique
        self.strict = strict
        self.drops = strict == "new"

    @property
    def _schema(self) -> TableSchema:
        """The columns and the key, which both sides have."""
        return self.old_schema

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def hides(self, is_right: bool) -> bool:
        return is_right == (self.strict == "new")

    def row_map(self, name: str) -> RowMap | None:
        """None where other rows decide whether one is there."""
        return None if self.drops else super().row_map(name)

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        return self._carry_alone(touched)

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        return self._carry_alone(touched)

    def _carry_alone(self, touched: TouchedRows) -> CarriedRows:
        """Rows as they are, where no others have to be asked."""
        names = [column.name for column in self._schema.columns]
        rest = [name for name in names if name not in self._schema.key]
        return CarriedRows(touched.after.there, {n: touched.after.column(n) for n in rest})

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        schema = self.new_schema
        rows = pa.Table.from_batches(old.scan(self.table), self.old_schema.whole)
        shown = rows if not self.drops else rows.filter(pa.array(~self._hidden(rows)))
        return {self.table: iter(rows_of(schema, shown).to_batches())}

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row that was written and is in quarantine."""
        delta = deltas.get(self.table)
        if not delta or not self.drops:
            return None
        found = carried.get(self.table)
        after = found.after if found is not None else self._schema.whole.empty_table()
        there = align_rows(self._schema, keys_of(self._schema, delta.after), after).there
        if there.all():
            return None
        return Loss(self.table, None, first_key(self._schema, delta.after, ~there))

    # --- carrying --------------------------------------------------------------------------------

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        carry = self._to_strict if self.strict == "new" else self._to_loose
        return carry(deltas, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        carry = self._to_loose if self.strict == "new" else self._to_strict
        return carry(deltas, new, old)

    def _to_strict(self, deltas: TableImages, loose: Side, strict: Side) -> TableImages:
        delta = images_of(deltas, self.table, self._schema)
        if not delta:
            return {}
        left = self._left_values(delta)
        near = [delta.after, self._rows_with(strict, delta.after)]
        if left.num_rows and loose.count(self.table) > strict.count(self.table):
            near.append(self._rows_with(loose, left))
        elif left.num_rows:
            near.append(self._rows_with(strict, left))
        others = [anti_join(self._schema, rows, delta.before, delta.after) for rows in near[1:]]
        known = self._distinct(pa.concat_tables([delta.after, *others]))
        shown = known.filter(pa.array(~self._hidden(known)))
        keys = distinct_keys(self._schema, delta.before, known)
        return {self.table: RowImages(held_rows(strict, self.table, self._schema, keys), shown)}

    def _to_loose(self, deltas: TableImages, strict: Side, loose: Side) -> TableImages:
        delta = images_of(deltas, self.table, self._schema)
        if not delta:
            return {}
        keys = distinct_keys(self._schema, delta.before, delta.after)
        held = held_rows(loose, self.table, self._schema, keys)
        fresh = anti_join(self._schema, delta.after, delta.before)
        there = align_rows(self._schema, keys_of(self._schema, fresh), held)
        other = np.zeros(fresh.num_rows, bool)
        for name in self._schema.whole.names:
            other |= there.there & differs(there.column(name), flat(fresh.column(name)))
        if other.any():
            raise DuplicateKey(
                f"table {self.table!r}: there is a row with the key "
                f"{first_key(self._schema, fresh, other)} on the other side; it is not seen here "
                f"because another row has its value in ({', '.join(self.group)})"
            )
        return {self.table: RowImages(held, delta.after)}

    def settle_old(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self._settle_strict(deltas, new) if self.strict == "old" else deltas

    def settle_new(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self._settle_strict(deltas, old) if self.strict == "new" else deltas

    def _settle_strict(self, deltas: TableImages, loose: Side) -> TableImages:
        """A row that gives up its value lets the next one be seen that has it.

        Unless the same change gives the value to a row with a smaller key.
        """
        delta = images_of(deltas, self.table, self._schema)
        left = self._left_values(delta)
        if not left.num_rows:
            return deltas
        waiting = self._waiting_rows(self._rows_with(loose, left), delta)
        written = anti_join(self._schema, delta.after, waiting)
        hidden = self._hidden(pa.concat_tables([waiting, written]))[: waiting.num_rows]
        shown = anti_join(self._schema, waiting.filter(pa.array(~hidden)), delta.after)
        if not shown.num_rows:
            return deltas
        return {
            **deltas,
            self.table: RowImages(delta.before, pa.concat_tables([delta.after, shown])),
        }

    def _waiting_rows(self, rows: pa.Table, delta: RowImages) -> pa.Table:
        """Rows of the loose side that the change leaves their values."""
        schema = self._schema
        encoded = keys_of(schema, rows)
        before, after = (align_rows(schema, encoded, part) for part in (delta.before, delta.after))
        same = after.there.copy()
        for name in self.group:
            same &= ~differs(flat(rows.column(name)), after.column(name))
        return rows.filter(pa.array(same | ~(before.there | after.there)))

    # --- whether both sides are in step ----------------------------------------------------------

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        return {self.table: self._expected(old, self.drops)}

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        return {self.table: self._expected(new, not self.drops)}

    def _expected(self, side: Side, hides: bool) -> Iterator[pa.Table]:
        rows = pa.Table.from_batches(side.scan(self.table), self._schema.whole)
        yield rows.filter(pa.array(~self._hidden(rows))) if hides else rows

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        """Rows of the loose side may be in quarantine, unless a null makes them distinct."""
        if is_new == (self.strict == "new"):
            return super().own_rows(table, is_new, rows)
        return valid_mask(self._values(rows))

    # --- values ----------------------------------------------------------------------------------

    def _values(self, rows: pa.Table) -> list[pa.Array]:
        return [flat(rows.column(name)) for name in self.group]

    def _hidden(self, rows: pa.Table) -> Mask:
        """Which rows have a value that one of the others with a smaller key has."""
        places = np.flatnonzero(valid_mask(self._values(rows)))
        some = rows.take(pa.array(places))
        encoded = group_codec(self._schema, self.group).encode(self._values(some))
        hidden = np.zeros(rows.num_rows, bool)
        hidden[places[duplicate_mask(encoded, keys_of(self._schema, some))]] = True
        return hidden

    def _left_values(self, delta: RowImages) -> pa.Table:
        """The values that rows had and have no longer."""
        schema = self._schema
        encoded = keys_of(schema, delta.before)
        after = align_rows(schema, encoded, delta.after)
        changed = ~after.there
        for name in self.group:
            changed |= differs(flat(delta.before.column(name)), after.column(name))
        changed &= valid_mask(self._values(delta.before))
        return delta.before.filter(pa.array(changed))

    def _rows_with(self, side: Side, rows: pa.Table) -> pa.Table:
        """The rows of a side that have a value that one of these has."""
        values = rows.select(list(self.group)).filter(pa.array(valid_mask(self._values(rows))))
        if not values.num_rows:
            return self._schema.whole.empty_table()
        return rows_of(self._schema, side.matching_rows(self.table, values))

    def _distinct(self, rows: pa.Table) -> pa.Table:
        """Each row once, by its key."""
        encoded: KeyArray = keys_of(self._schema, rows)
        _, first = np.unique(encoded, return_index=True)
        return rows.take(pa.array(first))
