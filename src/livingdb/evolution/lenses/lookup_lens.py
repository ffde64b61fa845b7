"""Lenses between a wide table and a narrow one with a lookup table.

A row of the narrow table refers to a row of the lookup table, or to none where the wide row is
null in all columns that moved.  As long as these columns of a wide row stay, so does what its
narrow row refers to; where they change it refers to the row whose key is the hash of their
values.  Rows of the lookup table stay when nothing refers to them any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import Expected, RowImages, Side, TableImages
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
    rows_of,
    touched_keys,
)
from livingdb.graph.row_constraints import check_not_null, first_key
from livingdb.tables.batches import flat
from livingdb.tables.row_hash import Ids, encoded_rows, numbered_rows, row_ids
from livingdb.tables.row_projection import Formula, ProjectionStep
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import differs
from livingdb.trees.keys import member

__all__ = ["FANOUT", "FORK", "RESTRICT", "SET_NULL", "Lookups", "Named", "TouchedWideRows"]

FORK, FANOUT = "fork", "fanout"
RESTRICT, SET_NULL = "restrict", "set null"

Named = tuple[str, TableSchema]

_ATTEMPTS = 64


@dataclass(frozen=True)
class Lookups:
    """The three tables by name, and the columns that make the difference.

    `moved` are in the wide table and in the lookup table, `reference` in the narrow one; the
    wide and the narrow table have the same key.
    """

    wide: Named
    narrow: Named
    lookup: Named
    reference: str
    moved: tuple[str, ...]
    on_update: str = FORK
    on_delete: str = RESTRICT

    @property
    def settles(self) -> bool:
        """Whether a change of one side may bring others of the same side with it."""
        return self.on_update == FANOUT or self.on_delete == SET_NULL

    # --- wide to narrow -----------------------------------------------------------------------

    def put_narrow(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        """What a change of the wide side changes on the narrow one."""
        delta = images_of(deltas, *self.wide)
        return self.split_images(delta, side) if delta else {}

    def split_images(
        self, delta: RowImages, side: Side, outdated: pa.Table | None = None
    ) -> TableImages:
        """What a change of the wide table changes in the other two.

        `outdated` are keys of rows that have to refer to other lookup rows than they do, although
        their values stay.
        """
        touched = self._touched_rows(delta, side, outdated)
        updates = self._lookup_updates(touched, side)
        self._check_settled(touched, updates, side)
        moves = touched.changed & ~touched.shared
        fresh = moves & ~all_null(touched.after, self.moved)
        ids, inserted = self._assign_lookup_keys(
            touched.after.rows.filter(pa.array(fresh)), side, updates
        )
        references = touched.references.fill_null(0).to_numpy().copy()
        references[fresh] = ids
        refers = np.where(moves, fresh, touched.refers)
        made = self._narrow_rows(touched.after, pa.array(references, mask=~refers))
        carried = {self.narrow[0]: RowImages(touched.held, made)}
        rows = pa.concat_tables([updates.after, inserted])
        if rows.num_rows:
            check_not_null(*self.lookup, rows)
            carried[self.lookup[0]] = RowImages(updates.before, rows)
        return carried

    def new_narrow_rows(self, rows: pa.Table) -> pa.Table:
        """The narrow rows of wide ones of which nothing is known yet."""
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        return self._narrow_rows(whole, self._new_references(rows))

    def _new_references(self, rows: pa.Table) -> pa.Array:
        """What narrow rows of wide ones refer to if nothing is known of them yet."""
        first, numbers = numbered_rows(self.values(rows))
        ids = row_ids(encoded_rows(self.values(rows.take(pa.array(first)))))[numbers]
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        return pa.array(ids, mask=all_null(whole, self.moved))

    def narrow_step(self) -> ProjectionStep:
        """What makes narrow rows of wide ones of which nothing is known yet."""
        schema = self.narrow[1]
        kept = [column.name for column in schema.columns if column.name != self.reference]
        data_type = schema.column(self.reference).type
        references = Formula(
            tuple(self.moved),
            (self.reference,),
            lambda rows: [self._new_references(rows).cast(data_type)],
        )
        return ProjectionStep({name: name for name in kept}, [references])

    def new_lookup_rows(self, rows: pa.Table) -> pa.Table:
        """The lookup rows of wide ones of which nothing is known yet, in key order."""
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        rows = rows.filter(pa.array(~all_null(whole, self.moved)))
        rows, encoded, _ = self._distinct_values(rows)
        made = self._lookup_rows(row_ids(encoded), rows)
        return made.take(pc.sort_indices(made.column(self._id)))

    def expected_narrow(self, wide: Side, side: Side) -> Expected:
        """The narrow rows of wide ones, and the lookup rows that they lack.

        What a narrow row refers to stays if it has the values of the wide row.
        """
        name, schema = self.wide
        rows = pa.Table.from_batches(wide.scan(name), schema.whole)
        touched = self._touched_rows(RowImages(rows, rows), side)
        parents = self._match_references(touched.references, self.parents(side, touched.held))
        is_empty = all_null(touched.after, self.moved)
        differ = [differs(parents.column(m), touched.after.column(m)) for m in self.moved]
        stays = np.where(touched.refers, parents.there & ~np.logical_or.reduce(differ), is_empty)
        moves = touched.changed | ~stays
        fresh = moves & ~is_empty
        nothing = RowImages(empty_rows(self.lookup[1]), empty_rows(self.lookup[1]))
        ids, missing = self._assign_lookup_keys(
            touched.after.rows.filter(pa.array(fresh)), side, nothing
        )
        references = touched.references.fill_null(0).to_numpy().copy()
        references[fresh] = ids
        refers = np.where(moves, fresh, touched.refers)
        made = self._narrow_rows(touched.after, pa.array(references, mask=~refers))
        return {self.narrow[0]: iter([made]), self.lookup[0]: iter([missing])}

    def settle_wide(self, deltas: TableImages, wide: Side, side: Side) -> TableImages:
        """With "fanout": a change of the wide table, made on all rows that share a lookup row."""
        name, schema = self.wide
        delta = images_of(deltas, name, schema)
        if self.on_update != FANOUT or not delta:
            return deltas
        touched = self._touched_rows(delta, side)
        updates = self._lookup_updates(touched, side)
        if not updates:
            return deltas
        return {**deltas, name: self._fan_out(delta, touched, updates, wide, side)}

    def _fan_out(
        self, delta: RowImages, touched: TouchedWideRows, updates: RowImages, wide: Side, side: Side
    ) -> RowImages:
        """A change of the wide table with all rows that share lookup rows which are updated."""
        name, schema = self.wide
        sharing = self._rows_sharing(side, updates.after.column(self._id))
        others = anti_join(schema, renamed_keys(schema, sharing), touched.keys)
        others = held_rows(wide, name, schema, others)
        rows = pa.concat_tables([delta.after, others])
        encoded = keys_of(schema, rows)
        narrow = pa.concat_tables([touched.held, sharing])
        references = align_rows(self.narrow[1], encoded, narrow)
        shared = self._match_references(references.column(self.reference), updates.after)
        columns = {column.name: rows.column(column.name) for column in schema.columns}
        for moved in self.moved:
            mine = rows.column(moved).combine_chunks()
            columns[moved] = pc.if_else(pa.array(shared.there), shared.column(moved), mine)
        made = assemble_rows(schema, np.ones(rows.num_rows, bool), columns)
        return RowImages(pa.concat_tables([delta.before, others]), made)

    # --- narrow to wide -----------------------------------------------------------------------

    def put_wide(self, deltas: TableImages, side: Side, wide: Side) -> TableImages:
        """What a change of the narrow table and of the lookup table changes in the wide one."""
        (name, schema), (_, narrow), (_, lookup) = self.wide, self.narrow, self.lookup
        rows = images_of(deltas, *self.narrow)
        parents = images_of(deltas, *self.lookup)
        sharing = self._rows_sharing(side, parents.before.column(self._id))
        after = apply_images(narrow, sharing, rows)
        keys = distinct_keys(schema, *(renamed_keys(schema, part) for part in (after, rows.before)))
        made = self.wide_rows(after, apply_images(lookup, self.parents(side, after), parents))
        return {name: RowImages(held_rows(wide, name, schema, keys), made)}

    def wide_rows(self, rows: pa.Table, lookup: pa.Table) -> pa.Table:
        """Narrow rows with the columns of the lookup rows they refer to."""
        schema = self.wide[1]
        references = rows.column(self.reference)
        parents = self._match_references(references, lookup)
        missing = references.is_valid().to_numpy() & ~parents.there
        if missing.any():
            key = references[int(missing.argmax())].as_py()
            raise InvalidData(
                f"table {self.narrow[0]!r}, row with the key {first_key(schema, rows, missing)}: "
                f"it refers to the key {key!r} of {self.lookup[0]!r}, which is not there"
            )
        columns = {moved: parents.column(moved) for moved in self.moved}
        kept = [column.name for column in schema.columns if column.name not in self.moved]
        columns |= {kept_name: rows.column(kept_name) for kept_name in kept}
        made = assemble_rows(schema, np.ones(rows.num_rows, bool), columns)
        check_not_null(*self.wide, made)
        return made

    def unreferenced(self, lookup: pa.Table, delta: RowImages, side: Side) -> Mask:
        """Where no narrow row refers to a lookup row once a change of the narrow table is made."""
        ids = lookup.column(self._id)
        rows = apply_images(self.narrow[1], self._rows_sharing(side, ids), delta)
        named = pc.is_in(ids, value_set=flat(rows.column(self.reference).cast(ids.type)))
        missing: Mask = ~named.to_numpy()
        return missing

    def settle_narrow(self, deltas: TableImages, side: Side) -> TableImages:
        """With "set null": a change, with no references left to lookup rows that it deletes."""
        name, schema = self.narrow
        parents = images_of(deltas, *self.lookup)
        gone = anti_join(self.lookup[1], parents.before, parents.after).column(self._id)
        if self.on_delete != SET_NULL or not len(gone):
            return deltas
        delta = images_of(deltas, name, schema)
        others = anti_join(schema, self._rows_sharing(side, gone), delta.before, delta.after)
        rows = pa.concat_tables([delta.after, others])
        references = rows.column(self.reference)
        lost = pc.is_in(references, value_set=gone)
        place = rows.column_names.index(self.reference)
        nulls = pc.if_else(lost, pa.scalar(None, references.type), references)
        made = rows.set_column(place, schema.column(self.reference).field, nulls)
        return {**deltas, name: RowImages(pa.concat_tables([delta.before, others]), made)}

    # --- rows ---------------------------------------------------------------------------------

    @property
    def _id(self) -> str:
        return self.lookup[1].key[0]

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """The columns that moved."""
        whole = AlignedRows(np.ones(rows.num_rows, bool), rows)
        return [whole.column(name) for name in self.moved]

    def _distinct_values(self, rows: pa.Table) -> tuple[pa.Table, pa.Array, Ids]:
        """Rows that differ in what moved, each once, and the code of each; which each row is.

        In the order of their codes, so that the order of rows does not matter.
        """
        first, numbers = numbered_rows(self.values(rows))
        distinct = rows.take(pa.array(first))
        codes = encoded_rows(self.values(distinct))
        order = pc.array_sort_indices(codes)
        rank = np.argsort(order.to_numpy(), kind="stable")
        return distinct.take(order), codes.take(order), rank[numbers]

    def _narrow_rows(self, rows: AlignedRows, references: pa.Array) -> pa.Table:
        schema = self.narrow[1]
        kept = [column.name for column in schema.columns if column.name != self.reference]
        columns = {name: rows.column(name) for name in kept}
        reference = references.cast(schema.column(self.reference).type)
        return assemble_rows(schema, rows.there, {**columns, self.reference: reference})

    def _lookup_rows(self, ids: Ids, rows: pa.Table) -> pa.Table:
        schema = self.lookup[1]
        columns = dict(zip(self.moved, self.values(rows), strict=True))
        return assemble_rows(schema, np.ones(len(ids), bool), {**columns, self._id: pa.array(ids)})

    def parents(self, side: Side, rows: pa.Table) -> pa.Table:
        """The lookup rows that narrow rows refer to."""
        name, schema = self.lookup
        references = rows.column(self.reference).drop_null()
        asked = pa.Table.from_arrays([references], schema=_key_schema(schema))
        return held_rows(side, name, schema, distinct_keys(schema, asked))

    def _rows_sharing(self, side: Side, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
        """The narrow rows that refer to some lookup rows."""
        name, schema = self.narrow
        if not len(ids):
            return empty_rows(schema)
        field = pa.field(self.reference, ids.type)
        values = pa.Table.from_arrays([ids], schema=pa.schema([field]))
        return rows_of(schema, side.matching_rows(name, values))

    def _match_references(
        self, references: pa.Array | pa.ChunkedArray, lookup: pa.Table
    ) -> AlignedRows:
        """The lookup row that each reference names."""
        schema = self.lookup[1]
        valid: Mask = np.asarray(references.is_valid().to_numpy(zero_copy_only=False), bool)
        asked = pa.Table.from_arrays([references.drop_null()], schema=_key_schema(schema))
        found = align_rows(schema, keys_of(schema, asked), lookup)
        there = valid.copy()
        there[valid] = found.there
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return AlignedRows(there, found.rows.take(places))

    # --- changes of wide rows -------------------------------------------------------------------

    def _touched_rows(
        self, delta: RowImages, side: Side, outdated: pa.Table | None = None
    ) -> TouchedWideRows:
        name, schema = self.narrow
        keys = touched_keys(self.wide[1], (self.wide[1], delta))
        encoded = keys_of(self.wide[1], keys)
        held = held_rows(side, name, schema, keys)
        now = align_rows(schema, encoded, held)
        before, after = (
            align_rows(self.wide[1], encoded, rows) for rows in (delta.before, delta.after)
        )
        differ = [differs(before.column(moved), after.column(moved)) for moved in self.moved]
        changed = after.there & (~now.there | np.logical_or.reduce(differ))
        if outdated is not None:
            changed |= after.there & member(encoded, np.sort(keys_of(self.wide[1], outdated)))
        references = now.column(self.reference)
        refers: Mask = references.is_valid().to_numpy(zero_copy_only=False)
        shared = changed & refers if self.on_update == FANOUT else np.zeros(len(refers), bool)
        return TouchedWideRows(keys, held, after, changed, shared, references, refers)

    def _lookup_updates(self, touched: TouchedWideRows, side: Side) -> RowImages:
        """What becomes of the lookup rows that wide rows share."""
        name, schema = self.lookup
        if not touched.shared.any():
            return RowImages(empty_rows(schema), empty_rows(schema))
        mask = pa.array(touched.shared)
        rows = touched.after.rows.filter(mask)
        references = touched.references.filter(mask).to_numpy()
        ids, first, owner = np.unique(references, return_index=True, return_inverse=True)
        codes = encoded_rows(self.values(rows)).dictionary_encode().indices.to_numpy()
        torn = codes[first][owner] != codes
        if torn.any():
            raise InvalidData(
                f"table {self.wide[0]!r}: rows that share {', '.join(self.moved)} are given "
                f"different values, one of them with the key {first_key(self.wide[1], rows, torn)}"
            )
        made = self._lookup_rows(ids, rows.take(pa.array(first)))
        return RowImages(held_rows(side, name, schema, _id_table(schema, ids)), made)

    def _check_settled(self, touched: TouchedWideRows, updates: RowImages, side: Side) -> None:
        """`InvalidData` if rows that share a lookup row were not all given its new values."""
        schema = self.wide[1]
        keys = renamed_keys(schema, self._rows_sharing(side, updates.before.column(self._id)))
        stays = ~touched.shared & touched.after.there
        changed = anti_join(schema, touched.keys, touched.keys.filter(pa.array(stays)))
        self._refuse_left(anti_join(schema, keys, changed), "one that changes")

    def _refuse_left(self, left: pa.Table, other: str, advice: str = "") -> None:
        """`InvalidData` for wide rows that are left alone and share what is given other values."""
        if left.num_rows:
            raise InvalidData(
                f"table {self.wide[0]!r}: the row with the key "
                f"{first_key(self.wide[1], left, np.ones(left.num_rows, bool))} shares "
                f"{', '.join(self.moved)} with {other}, and would have to change with it{advice}"
            )

    def _assign_lookup_keys(
        self, rows: pa.Table, side: Side, updates: RowImages
    ) -> tuple[Ids, pa.Table]:
        """The keys of the lookup rows with the values of wide ones, and those not there yet.

        A key that holds other values, since somebody updated its row, is passed over for the
        next one that the values give.
        """
        name, schema = self.lookup
        rows, encoded, owner = self._distinct_values(rows)
        ids, is_new = np.zeros(len(encoded), np.int64), np.zeros(len(encoded), bool)
        waiting = np.arange(len(encoded))
        for attempt in range(_ATTEMPTS):
            if not len(waiting):
                return ids[owner], self._lookup_rows(ids[is_new], rows.filter(pa.array(is_new)))
            codes = encoded.take(pa.array(waiting))
            wanted = row_ids(codes, attempt)
            asked = _id_table(schema, wanted)
            held = held_rows(side, name, schema, distinct_keys(schema, asked))
            found = align_rows(schema, keys_of(schema, asked), apply_images(schema, held, updates))
            same = pc.equal(encoded_rows(self.values(found.rows)), codes)
            fits = found.there & same.to_numpy(zero_copy_only=False)
            free = ~found.there & ~np.isin(wanted, ids[is_new]) & _is_first(wanted)
            ids[waiting[fits | free]] = wanted[fits | free]
            is_new[waiting[free]] = True
            waiting = waiting[~(fits | free)]
        raise InvalidData(f"table {name!r}: no key is free for a row of {self.wide[0]!r}")


@dataclass(frozen=True)
class TouchedWideRows:
    """What a change of the wide table touches, one row for each key.

    `changed`: where the columns that moved have other values, or where the row is new.
    `shared`: where that changes the lookup row; `refers`: where there is one.
    """

    keys: pa.Table
    held: pa.Table
    after: AlignedRows
    changed: Mask
    shared: Mask
    references: pa.Array
    refers: Mask


def _is_first(values: Ids) -> Mask:
    """Where a value comes for the first time."""
    mask: Mask = np.zeros(len(values), bool)
    mask[np.unique(values, return_index=True)[1]] = True
    return mask


def _key_schema(schema: TableSchema) -> pa.Schema:
    return pa.schema([column.field for column in schema.key_columns])


def _id_table(schema: TableSchema, ids: Ids) -> pa.Table:
    return pa.Table.from_arrays([pa.array(ids)], schema=_key_schema(schema))
