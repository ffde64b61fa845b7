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
    held_rows,
    images_of,
    renamed_keys,
)
from livingdb.graph.row_constraints import first_key
from livingdb.tables.row_hash import Ids
from livingdb.trees.compare import differs
from livingdb.trees.keys import member

__all__ = ["SharedLookups"]


class SharedLookups(Lookups):
    """The lookup table has the same name and schema on both sides."""

    @property
    def settles(self) -> bool:
        return self.on_update == FANOUT or super().settles

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

    def split_shared(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        """What a change of the wide table and of the old lookup table changes on the new side."""
        name, schema = self.lookup
        lookup = images_of(deltas, name, schema)
        delta = images_of(deltas, *self.wide)
        base, replaced = self._written_rows(lookup, new)
        sharing = self._rows_sharing(new, replaced)
        outdated = renamed_keys(self.wide[1], sharing)
        side = ChangedSide(new, {name: (schema, base)})
        if self.on_update == FANOUT:
            self._check_fanned_out(outdated, delta, side)
            outdated = outdated.slice(0, 0)
        else:
            more = anti_join(self.wide[1], outdated, delta.before, delta.after)
            rows = held_rows(old, *self.wide, more)
            delta = RowImages(*(pa.concat_tables([r, rows]) for r in (delta.before, delta.after)))
        carried = dict(self.split_images(delta, side, outdated)) if delta else {}
        images = compose_images(schema, base, images_of(carried, name, schema))
        narrow = images_of(carried, *self.narrow)
        images = compose_images(schema, images, self._unused_rows(lookup, narrow, new, images))
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

    def _check_fanned_out(self, keys: pa.Table, delta: RowImages, side: Side) -> None:
        """`InvalidData` if wide rows do not have the values of lookup rows that they share."""
        schema = self.wide[1]
        wrong = anti_join(schema, keys, delta.before, delta.after)
        if wrong.num_rows:
            raise InvalidData(
                f"table {self.wide[0]!r}: the row with the key "
                f"{first_key(schema, wrong, np.ones(wrong.num_rows, bool))} shares "
                f"{', '.join(self.moved)} with a row of {self.lookup[0]!r} that changes, and would "
                "have to change with it"
            )

    def settle_shared(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        """With "fanout": a change of the old side with what follows from it there.

        A lookup row that changes changes the wide rows that share it, and the other way round.
        """
        if self.on_update != FANOUT:
            return deltas
        name, schema = self.lookup
        lookup, delta = images_of(deltas, name, schema), images_of(deltas, *self.wide)
        base, ids = self._written_rows(lookup, new)
        touched = self._touched_rows(delta, new)
        updates = self._lookup_updates(touched, new)
        replaced = base.after.filter(pc.is_in(base.after.column(self._id), value_set=_flat(ids)))
        self._check_same(updates.after, replaced)
        rows = pa.concat_tables([anti_join(schema, updates.after, replaced), replaced])
        if not rows.num_rows:
            return deltas
        wide = self._fan_out(delta, touched, RowImages(empty_rows(schema), rows), old, new)
        held = held_rows(old, name, schema, rows.select(list(schema.key)))
        known = np.sort(keys_of(schema, apply_images(schema, held, lookup)))
        made = rows.filter(pa.array(member(keys_of(schema, rows), known)))
        more = anti_join(schema, held, lookup.before, lookup.after)
        after = apply_images(schema, lookup.after, RowImages(empty_rows(schema), made))
        images = RowImages(pa.concat_tables([lookup.before, more]), after)
        return {**deltas, self.wide[0]: wide, **({name: images} if images else {})}

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

    def join_shared(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        """What a change of the new side changes on the old one."""
        name, schema = self.lookup
        carried = dict(self.join_images(deltas, new, old))
        lookup = images_of(deltas, name, schema)
        if not lookup:
            return carried
        keys = distinct_keys(schema, lookup.before, lookup.after)
        held = held_rows(old, name, schema, keys)
        encoded = keys_of(schema, lookup.after)
        is_known = member(encoded, np.sort(keys_of(schema, held)))
        is_new = ~member(encoded, np.sort(keys_of(schema, lookup.before)))
        after = lookup.after.filter(pa.array(is_known | is_new))
        return {**carried, name: RowImages(held, after)}


def _flat(ids: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], ids.type), *ids.chunks])
