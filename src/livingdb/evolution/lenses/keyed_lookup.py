"""Lookups by a key of their own: a column of the wide row holds the key of its lookup row.

All wide rows with one key have the values of that lookup row, and those without a key have none.
The lookup table is on both sides, as where keys are hashes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.changed_side import ChangedSide, compose_images
from livingdb.evolution.lenses.lens import Expected, RowImages, Side, TableImages
from livingdb.evolution.lenses.lookup_lens import FANOUT
from livingdb.evolution.lenses.row_alignment import (
    AlignedRows,
    Mask,
    align_rows,
    distinct_keys,
    empty_rows,
    keys_of,
)
from livingdb.evolution.lenses.shared_lookup import SharedLookups
from livingdb.evolution.lenses.table_parts import (
    all_null,
    anti_join,
    assemble_rows,
    held_rows,
    images_of,
    renamed_keys,
    rows_of,
)
from livingdb.graph.row_constraints import check_not_null, first_key
from livingdb.tables.batches import flat
from livingdb.trees.compare import differs

__all__ = ["KeyedLookups"]


class KeyedLookups(SharedLookups):
    """`reference` is a column of the wide table and of the narrow one."""

    @property
    def settles(self) -> bool:
        """A row that is given another key takes the values of that lookup row."""
        return True

    # --- all rows -----------------------------------------------------------------------------

    def project(self, rows: pa.Table) -> pa.Table:
        """The narrow rows of wide ones."""
        return rows_of(self.narrow[1], rows)

    def check_wide(self, old: Side) -> None:
        """`InvalidData` if wide rows with one key have several values, or others than its row."""
        name, schema = self.wide
        rows = pa.Table.from_batches(old.scan(name), schema.whole)
        wanted = self._wanted_rows(rows)
        self._check_values(wanted, old)

    def create_rows(self, old: Side) -> tuple[pa.Table, pa.Table]:
        name, schema = self.wide
        rows = pa.Table.from_batches(old.scan(name), schema.whole)
        wanted = self._wanted_rows(rows)
        held = held_rows(old, *self.lookup, wanted.select([self._id]))
        return self.project(rows), anti_join(self.lookup[1], wanted, held)

    def expected_narrow(self, wide: Side, side: Side) -> Expected:
        name, schema = self.wide
        rows = pa.Table.from_batches(wide.scan(name), schema.whole)
        lookup, known = self.lookup
        held = pa.Table.from_batches(wide.scan(lookup), known.whole)
        wanted = self._wanted_rows(rows)
        there = held_rows(side, lookup, known, wanted.select([self._id]))
        base = pa.concat_tables([held, anti_join(known, there, held)])
        base = pa.concat_tables([base, anti_join(known, wanted, base)])
        made = self._with_values(base, wanted)
        return {self.narrow[0]: iter([self.project(rows)]), lookup: iter([made])}

    # --- changes of the old side ----------------------------------------------------------------

    def put_narrow(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        name, schema = self.lookup
        lookup, delta = images_of(deltas, name, schema), images_of(deltas, *self.wide)
        base, replaced = self._written_rows(lookup, side)
        wanted = self._wanted_rows(delta.after)
        freed = self._freed_rows(lookup, wanted, side)
        base = compose_images(schema, RowImages(freed, empty_rows(schema)), base)
        updates = self._updates(wanted, ChangedSide(side, {name: (schema, base)}))
        changed = pa.concat_tables([freed, updates.before]).column(self._id)
        ids = pa.concat_arrays([flat(replaced), flat(changed)])
        sharing = renamed_keys(self.wide[1], self._rows_sharing(side, ids))
        left = anti_join(self.wide[1], sharing, delta.before, delta.after)
        self._refuse_left(left, "one that changes", ", which on_update='fanout' does")
        keys = distinct_keys(self.wide[1], delta.before, delta.after)
        narrow = RowImages(held_rows(side, *self.narrow, keys), self.project(delta.after))
        images = compose_images(schema, base, updates)
        self._check_together(lookup, images, wide)
        images = compose_images(schema, images, self._unused_rows(lookup, narrow, side, images))
        carried = {self.narrow[0]: narrow, name: images}
        return {table: made for table, made in carried.items() if made}

    def _freed_rows(self, lookup: RowImages, wanted: pa.Table, side: Side) -> pa.Table:
        """Lookup rows that the old side deletes, and wide rows say anew with other values."""
        schema = self.lookup[1]
        gone = anti_join(schema, lookup.before, lookup.after)
        again = wanted.filter(pa.array(self._is_among(wanted, gone)))
        held = held_rows(side, *self.lookup, again.select([self._id]))
        known = align_rows(schema, keys_of(schema, held), again)
        return held.filter(pa.array(self._differ(known, held)))

    def _wanted_rows(self, rows: pa.Table) -> pa.Table:
        """The lookup rows that wide ones say, each once; `InvalidData` if they say several."""
        schema, wide = self.lookup[1], self.wide[1]
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        refers: Mask = whole.column(self.reference).is_valid().to_numpy(zero_copy_only=False)
        lost = ~refers & ~all_null(whole, self.moved)
        if lost.any():
            raise InvalidData(
                f"table {self.wide[0]!r}: the row with the key {first_key(wide, rows, lost)} has "
                f"no {self.reference!r}, by which {', '.join(self.moved)} would be found: it has "
                "to have one, or nulls"
            )
        there = rows.filter(pa.array(refers))
        columns = {column.name: self._given(there, column.name) for column in schema.columns}
        said = assemble_rows(schema, np.ones(there.num_rows, bool), columns)
        encoded = keys_of(schema, said)
        _, first = np.unique(encoded, return_index=True)
        found = said.take(pa.array(first))
        torn = self._differ(align_rows(schema, encoded, found), said)
        if torn.any():
            raise InvalidData(
                f"table {self.wide[0]!r}: rows with one {self.reference!r} have different values "
                f"of {', '.join(self.moved)}, one of them with the key "
                f"{first_key(wide, there, torn)}"
            )
        return found

    def _given(self, rows: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
        """A column of the lookup table, as wide rows give it."""
        if name == self._id:
            return rows.column(self.reference)
        if name in self.moved:
            return rows.column(name)
        column = self.lookup[1].column(name)
        blank = pa.array([column.default], column.type)
        return blank.take(pa.array(np.zeros(rows.num_rows, np.int64)))

    def _updates(self, wanted: pa.Table, side: Side) -> RowImages:
        """What becomes of lookup rows that wide ones say otherwise, or that are not there yet."""
        schema = self.lookup[1]
        if self.on_update != FANOUT:
            self._check_values(wanted, side)
        held = held_rows(side, *self.lookup, wanted.select([self._id]))
        known = align_rows(schema, keys_of(schema, wanted), held)
        changed = known.there & self._differ(known, wanted)
        before = rows_of(schema, known.rows.filter(pa.array(changed)))
        after = self._with_values(before, wanted)
        inserted = wanted.filter(pa.array(~known.there))
        check_not_null(*self.lookup, inserted)
        return RowImages(before, pa.concat_tables([after, inserted]))

    def _check_values(self, wanted: pa.Table, side: Side) -> None:
        """`InvalidData` if a lookup row has other values than wide rows with its key."""
        name, schema = self.lookup
        held = held_rows(side, name, schema, wanted.select([self._id]))
        known = align_rows(schema, keys_of(schema, wanted), held)
        wrong = known.there & self._differ(known, wanted)
        if wrong.any():
            raise InvalidData(
                f"table {self.wide[0]!r}: rows with the {self.reference!r} "
                f"{first_key(schema, wanted, wrong)} have other values of {', '.join(self.moved)} "
                f"than that row of {name!r}; on_update='fanout' changes it with them"
            )

    def settle_wide(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        """A row with another key takes the values of its lookup row; and "fanout"."""
        name, schema = self.lookup
        lookup, delta = images_of(deltas, name, schema), images_of(deltas, *self.wide)
        base, replaced = self._written_rows(lookup, side)
        delta = self._adopt(delta, ChangedSide(side, {name: (schema, base)}))
        deltas = {**deltas, **({self.wide[0]: delta} if delta else {})}
        if self.on_update != FANOUT:
            return deltas
        wanted = self._wanted_rows(self._said_anew(delta))
        inserted = RowImages(empty_rows(schema), anti_join(schema, base.after, base.before))
        there = ChangedSide(side, {name: (schema, inserted)})
        changed = self._updates(wanted, there).before
        updates = wanted.filter(pa.array(self._is_among(wanted, changed)))
        rows = self._shared_updates(updates, base, replaced)
        if not rows.num_rows:
            return deltas
        sharing = renamed_keys(self.wide[1], self._rows_sharing(side, rows.column(self._id)))
        others = held_rows(wide, *self.wide, anti_join(self.wide[1], sharing, delta.after))
        others = anti_join(self.wide[1], others, delta.before, delta.after)
        after = self._take_values(pa.concat_tables([delta.after, others]), rows)
        made = RowImages(pa.concat_tables([delta.before, others]), after)
        return {**deltas, self.wide[0]: made, **self._settled_lookup(lookup, rows, wide)}

    def _changes(self, delta: RowImages) -> tuple[AlignedRows, Mask, Mask]:
        """The rows after a change as they were; where the key, and where the values differ."""
        schema = self.wide[1]
        before = align_rows(schema, keys_of(schema, delta.after), delta.before)
        now = AlignedRows(before.there, delta.after)
        keys: Mask = differs(before.column(self.reference), now.column(self.reference))
        return before, keys, self._differ(before, delta.after)

    def _said_anew(self, delta: RowImages) -> pa.Table:
        """The rows of a change that say something of what moved."""
        before, _, values = self._changes(delta)
        return delta.after.filter(pa.array(~before.there | values))

    def _adopt(self, delta: RowImages, side: Side) -> RowImages:
        """A change, with the values of lookup rows where only the key was written."""
        before, keys, values = self._changes(delta)
        moved = before.there & keys & ~values
        if not moved.any():
            return delta
        rows = delta.after.filter(pa.array(moved))
        asked = pa.Table.from_arrays([rows.column(self.reference).drop_null()], [self._id])
        asked = asked.cast(pa.schema([self.lookup[1].key_columns[0].field]))
        held = held_rows(side, *self.lookup, distinct_keys(self.lookup[1], asked))
        made = self._take_values(rows, held, is_empty_null=True)
        rest = delta.after.filter(pa.array(~moved))
        return RowImages(delta.before, pa.concat_tables([rest, made]))

    def _take_values(
        self, rows: pa.Table, lookup: pa.Table, is_empty_null: bool = False
    ) -> pa.Table:
        """Wide rows with the values of lookup rows; if asked for, nulls where there is no key."""
        schema = self.wide[1]
        references = rows.column(self.reference)
        parents = self._match_references(references, lookup)
        takes = parents.there
        if is_empty_null:
            takes = takes | references.is_null().to_numpy()
        columns = {column.name: rows.column(column.name) for column in schema.columns}
        for moved in self.moved:
            mine = AlignedRows(takes, rows).column(moved)
            columns[moved] = pc.if_else(pa.array(takes), parents.column(moved), mine)
        return assemble_rows(schema, np.ones(rows.num_rows, bool), columns)
