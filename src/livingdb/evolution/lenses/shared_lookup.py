"""Lookups in a table that was there before: it is on both sides.

The new side has all rows that the old one has, and those that the wide rows needed beside them.
Such a row stays its own: a change of it changes wide rows and no lookup row of the old side.  A
row that is inserted into the lookup table, on either side, is on both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.changed_side import ChangedSide, compose_images
from livingdb.evolution.lenses.lens import Expected, RowImages, Side, TableImages
from livingdb.evolution.lenses.lookup_lens import FANOUT, Lookups
from livingdb.evolution.lenses.row_alignment import (
    AlignedRows,
    Mask,
    align_rows,
    distinct_keys,
    empty_rows,
    keys_of,
)
from livingdb.evolution.lenses.table_parts import (
    all_null,
    anti_join,
    apply_images,
    assemble_rows,
    held_rows,
    images_of,
    renamed_keys,
)
from livingdb.graph.row_constraints import first_key
from livingdb.tables.batches import flat
from livingdb.tables.row_hash import Ids
from livingdb.trees.compare import differs
from livingdb.trees.keys import member

__all__ = ["SharedLookups"]


class SharedLookups(Lookups):
    """The lookup table has the same name and schema on both sides."""

    # --- all rows -----------------------------------------------------------------------------

    def create_rows(self, old: Side) -> tuple[pa.Table, pa.Table]:
        """The narrow rows, and the lookup rows that they need beside those of the old side."""
        name, schema = self.wide
        rows = pa.Table.from_batches(old.scan(name), schema.whole)
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        refers = ~all_null(whole, self.moved)
        lookup = self.lookup[1]
        nothing = RowImages(empty_rows(lookup), empty_rows(lookup))
        ids, needed = self._assign_lookup_keys(rows.filter(pa.array(refers)), old, nothing)
        references: Ids = np.zeros(rows.num_rows, np.int64)
        references[refers] = ids
        return self._narrow_rows(whole, pa.array(references, mask=~refers)), needed

    def expected_narrow(self, wide: Side, side: Side) -> Expected:
        expected = dict(super().expected_narrow(wide, side))
        name, schema = self.lookup
        held = pa.Table.from_batches(wide.scan(name), schema.whole)
        missing = pa.concat_tables([empty_rows(schema), *expected[name]])
        return {**expected, name: iter([held, anti_join(schema, missing, held)])}

    # --- changes of the old side ----------------------------------------------------------------

    def put_narrow(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        """What a change of the wide table and of the old lookup table changes on the new side."""
        name, schema = self.lookup
        lookup, delta = images_of(deltas, name, schema), images_of(deltas, *self.wide)
        base, replaced = self._written_rows(lookup, side)
        outdated = renamed_keys(self.wide[1], self._rows_sharing(side, replaced))
        left = anti_join(self.wide[1], outdated, delta.before, delta.after)
        if self.on_update == FANOUT:
            self._refuse_left(left, f"a row of {self.lookup[0]!r} that changes")
            outdated = outdated.slice(0, 0)
        else:
            rows = held_rows(wide, *self.wide, left)
            delta = RowImages(*(pa.concat_tables([r, rows]) for r in (delta.before, delta.after)))
        changed = ChangedSide(side, {name: (schema, base)})
        carried = dict(self.split_images(delta, changed, outdated)) if delta else {}
        images = compose_images(schema, base, images_of(carried, name, schema))
        self._check_together(lookup, images, wide)
        narrow = images_of(carried, *self.narrow)
        images = compose_images(schema, images, self._unused_rows(lookup, narrow, side, images))
        return {**carried, **({name: images} if images else {})}

    def _written_rows(self, lookup: RowImages, new: Side) -> tuple[RowImages, pa.ChunkedArray]:
        """Lookup rows that were inserted or updated, and the ids of those that were others."""
        name, schema = self.lookup
        keys = keys_of(schema, lookup.after)
        values = [column.name for column in schema.columns if column.name not in schema.key]
        before = align_rows(schema, keys, lookup.before)
        is_written = ~before.there | self._differ(before, lookup.after, values)
        written = lookup.after.filter(pa.array(is_written))
        held = held_rows(new, name, schema, written.select(list(schema.key)))
        known = align_rows(schema, keys_of(schema, written), held)
        changed = known.there & self._differ(known, written, values)
        fresh = written.filter(pa.array(~known.there | changed))
        before_rows = known.rows.filter(pa.array(changed))
        replaced = pa.array(known.there & self._differ(known, written))
        ids = written.filter(replaced).column(self._id)
        return RowImages(before_rows.cast(schema.whole), fresh), ids

    def _differ(
        self, aligned: AlignedRows, rows: pa.Table, columns: Sequence[str] | None = None
    ) -> Mask:
        """Where rows have other values than those that they are aligned with."""
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        names = self.moved if columns is None else columns
        masks = [differs(aligned.column(name), whole.column(name)) for name in names]
        made: Mask = np.logical_or.reduce(masks)
        return made

    def _unused_rows(
        self, lookup: RowImages, narrow: RowImages, new: Side, images: RowImages
    ) -> RowImages:
        """Lookup rows that the old side deletes and nothing on the new side refers to."""
        name, schema = self.lookup
        gone = anti_join(schema, lookup.before, lookup.after)
        side = ChangedSide(new, {name: (schema, images)})
        held = held_rows(side, name, schema, gone.select(list(schema.key)))
        unused = held.filter(pa.array(self.unreferenced(held, narrow, new)))
        return RowImages(unused, empty_rows(schema))

    def settle_wide(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        """With "fanout": a change of the old side with what follows from it there.

        A lookup row that changes changes the wide rows that share it, and the other way round.
        """
        if self.on_update != FANOUT:
            return deltas
        lookup, delta = images_of(deltas, *self.lookup), images_of(deltas, *self.wide)
        touched = self._touched_rows(delta, side)
        updates = self._lookup_updates(touched, side)
        rows = self._shared_updates(updates.after, *self._written_rows(lookup, side))
        if not rows.num_rows:
            return deltas
        images = RowImages(empty_rows(self.lookup[1]), rows)
        made = self._fan_out(delta, touched, images, wide, side)
        return {**deltas, self.wide[0]: made, **self._settled_lookup(lookup, rows, wide)}

    def _shared_updates(
        self, updates: pa.Table, base: RowImages, replaced: pa.ChunkedArray
    ) -> pa.Table:
        """Lookup rows that are given other values, by wide rows that share them or themselves."""
        written = base.after.filter(pc.is_in(base.after.column(self._id), value_set=flat(replaced)))
        self._check_same(updates, written)
        return pa.concat_tables([anti_join(self.lookup[1], updates, written), written])

    def _settled_lookup(self, lookup: RowImages, rows: pa.Table, wide: Side) -> TableImages:
        """A change of the old lookup table, with the values of rows that it has there."""
        name, schema = self.lookup
        held = held_rows(wide, name, schema, rows.select([self._id]))
        known = apply_images(schema, held, lookup)
        made = self._with_values(known.filter(pa.array(self._is_among(known, rows))), rows)
        more = anti_join(schema, held, lookup.before, lookup.after)
        after = apply_images(schema, lookup.after, RowImages(empty_rows(schema), made))
        images = RowImages(pa.concat_tables([lookup.before, more]), after)
        return {name: images} if images else {}

    def _check_together(self, lookup: RowImages, images: RowImages, wide: Side) -> None:
        """`InvalidData` if lookup rows change by wide ones, and not with them on the old side."""
        if self.on_update != FANOUT:
            return
        name, schema = self.lookup
        rows = images.after
        held = held_rows(wide, name, schema, rows.select(list(schema.key)))
        known = align_rows(schema, keys_of(schema, rows), apply_images(schema, held, lookup))
        torn = known.there & self._differ(known, rows)
        if torn.any():
            raise InvalidData(
                f"table {name!r}: the row with the key {first_key(schema, rows, torn)} shares "
                f"{', '.join(self.moved)} with rows of {self.wide[0]!r} that change, and would "
                "have to change with them"
            )

    def _is_among(self, rows: pa.Table, others: pa.Table) -> Mask:
        schema = self.lookup[1]
        made: Mask = member(keys_of(schema, rows), np.sort(keys_of(schema, others)))
        return made

    def _with_values(self, rows: pa.Table, values: pa.Table) -> pa.Table:
        """Lookup rows with what moved taken from others of the same keys."""
        schema = self.lookup[1]
        known = align_rows(schema, keys_of(schema, rows), values)
        columns = {column.name: rows.column(column.name) for column in schema.columns}
        for moved in self.moved:
            mine = AlignedRows(known.there, rows).column(moved)
            columns[moved] = pc.if_else(pa.array(known.there), known.column(moved), mine)
        return assemble_rows(schema, np.ones(rows.num_rows, bool), columns)

    def _check_same(self, ours: pa.Table, theirs: pa.Table) -> None:
        """`InvalidData` if a lookup row is given other values than wide rows that share it."""
        schema = self.lookup[1]
        known = align_rows(schema, keys_of(schema, ours), theirs)
        torn = known.there & self._differ(known, ours)
        if torn.any():
            raise InvalidData(
                f"table {self.lookup[0]!r}: the row with the key {first_key(schema, ours, torn)} "
                f"is given other values than rows of {self.wide[0]!r} that share it"
            )

    # --- changes of the new side ----------------------------------------------------------------

    def put_wide(self, deltas: TableImages, side: Side, wide: Side) -> TableImages:
        """What a change of the new side changes on the old one."""
        name, schema = self.lookup
        carried = dict(super().put_wide(deltas, side, wide))
        lookup = images_of(deltas, name, schema)
        if not lookup:
            return carried
        keys = distinct_keys(schema, lookup.before, lookup.after)
        held = held_rows(wide, name, schema, keys)
        encoded = keys_of(schema, lookup.after)
        is_known = member(encoded, np.sort(keys_of(schema, held)))
        is_new = ~member(encoded, np.sort(keys_of(schema, lookup.before)))
        after = lookup.after.filter(pa.array(is_known | is_new))
        return {**carried, name: RowImages(held, after)}
