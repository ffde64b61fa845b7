"""The tables of a snapshot as one side of a lens; conversions between deltas and row images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.engines.index_lookup import keys_holding
from livingdb.evolution.lenses.lens import Follower, RowImages
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.graph.diff import diff_versions
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.classify import classify
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.secondary_tree import valid_mask
from livingdb.tables.versions import Versions
from livingdb.trees.compare import differs
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch
from livingdb.trees.keys import KeyCodec, member
from livingdb.trees.shape import Shape

__all__ = [
    "VersionSide",
    "delta_counts",
    "delta_from_images",
    "follower_delta",
    "images_between",
    "inserted_images",
    "narrow_delta",
    "narrow_images",
]


_FIRST_ROWS = 16  # sorted, so that they mostly lie in one leaf


class VersionSide:
    """Tables by name, read as rows; each is opened when it is first asked for.

    `opened` are rows of tables that are no versions, or take the place of one.
    """

    def __init__(
        self,
        versions: Versions,
        tables: Mapping[str, Version],
        opened: Mapping[str, RowSet] | None = None,
    ):
        self._versions = versions
        self._tables = tables
        self._opened: dict[str, RowSet] = dict(opened or {})
        self._versioned = set(tables) - set(self._opened)

    def rows(self, table: str) -> RowSet:
        """The rows of a table."""
        found = self._opened.get(table)
        if found is None:
            found = self._opened[table] = self._versions.rows(self._tables[table])
        return found

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        """The rows with these keys."""
        rows = self.rows(table)
        columns = [flat(keys.column(name)) for name in rows.schema.key]
        encoded = np.unique(rows.forest.shape.keys(columns))
        _, arrays = rows.lookup(encoded, rows.schema.whole.names)
        return pa.Table.from_arrays(arrays, schema=rows.schema.whole)

    def count(self, table: str) -> int:
        """How many rows there are."""
        if table in self._versioned:
            return self._versions.count(self._tables[table])
        return self.rows(table).count()

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        """The rows whose columns hold one of the rows of values; nulls match nothing."""
        rows = self.rows(table)
        names = values.column_names
        for _, group in rows.schema.uniques:
            if set(group) == set(names) and table in self._versioned:
                return self._unique_rows(table, rows, group, values.drop_null())
        codec = KeyCodec([rows.schema.column(name).type for name in names])
        wanted = np.unique(codec.encode([flat(c) for c in values.drop_null().columns]))
        parts = []
        for batch in self._possible_rows(table, values.drop_null()):
            columns = [batch.column(name) for name in names]
            valid = np.ones(len(batch), bool)
            for column in columns:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
            places = np.flatnonzero(valid)
            taken = [column.take(pa.array(places)) for column in columns]
            if len(places):
                hit = places[member(codec.encode(taken), wanted)]
                parts.append(batch.take(pa.array(hit)))
        return pa.Table.from_batches(parts, schema=rows.schema.whole)

    def _possible_rows(self, table: str, values: pa.Table) -> Iterable[pa.RecordBatch]:
        """All rows, or those among which an index finds the ones that hold values."""
        rows = self.rows(table)
        keys = keys_holding(rows, {n: flat(values.column(n)) for n in values.column_names})
        if keys is None:
            return self.scan(table)
        schema = rows.schema.whole
        return [pa.RecordBatch.from_arrays(rows.lookup(keys, schema.names)[1], schema=schema)]

    def _unique_rows(
        self, table: str, rows: RowSet, group: Sequence[str], values: pa.Table
    ) -> pa.Table:
        """The rows that hold one of the values, of columns that are unique: by the index."""
        wanted = [flat(values.column(name)) for name in group]
        keys = self._versions.uniques.holders(self._tables[table], group, wanted)
        _, arrays = rows.lookup(keys, rows.schema.whole.names)
        found = pa.Table.from_arrays(arrays, schema=rows.schema.whole)
        codec = KeyCodec([rows.schema.column(name).type for name in group])
        held = [flat(found.column(name)) for name in group]
        valid = np.flatnonzero(valid_mask(held))
        encoded = codec.encode([array.take(pa.array(valid)) for array in held])
        hit = member(encoded, np.unique(codec.encode(wanted)))
        return found.take(pa.array(valid[hit]))

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in key order."""
        rows = self.rows(table)
        return rows.batches(rows.schema.whole.names if columns is None else columns)


def images_between(versions: Versions, before: Version | None, after: Version | None) -> RowImages:
    """The rows that differ between two versions of a table."""
    known = after or before
    assert known is not None
    schema = versions.definition(known).schema
    batches = list(diff_versions(versions, before, after))
    return RowImages(
        _side_rows(schema, batches, lambda batch: (batch.before, batch.kinds != INSERTED)),
        _side_rows(schema, batches, lambda batch: (batch.after, batch.kinds != DELETED)),
    )


def inserted_images(schema: TableSchema, changes: Delta) -> RowImages:
    """The same of narrow changes that only insert rows."""
    return RowImages(schema.whole.empty_table(), _upserted_rows(schema, changes))


Chosen = tuple[list[pa.Array], Mask]


def _side_rows(
    schema: TableSchema, batches: Sequence[DiffBatch], side: Callable[[DiffBatch], Chosen]
) -> pa.Table:
    parts = []
    for batch in batches:
        arrays, there = side(batch)
        columns = [arrays[schema.position(column.name)] for column in schema.columns]
        whole = pa.Table.from_arrays(columns, schema=schema.whole)
        parts.append(whole.filter(pa.array(there)))
    return pa.concat_tables(parts) if parts else schema.whole.empty_table()


def effective_delta(changes: Delta, found: Mask, old: Sequence[pa.Array | None]) -> Delta:
    """Changes as what they do: upserts of new rows, patches of what differs, deletes of rows.

    `found` says which of their keys have rows, `old` what those rows hold in the columns carried.
    """
    shape = changes.shape
    ops = np.where(found & (changes.ops == UPSERT), PATCH, changes.ops).astype(np.int8)
    is_new = ops == UPSERT
    does = is_new | (found & (ops == DELETE))
    is_any_found = bool(found.any())
    spread = None if found.all() else pa.array(np.cumsum(found) - 1, mask=~found)
    columns, present = list(changes.columns), list(changes.present)
    for position in range(shape.key_count, len(columns)):
        column, held = columns[position], old[position]
        if column is None:
            continue
        carried = changes.carries(position)
        if is_any_found:
            assert held is not None
            unequal = differs(column, held if spread is None else held.take(spread))
            carried &= is_new | (found & unequal)
        else:
            carried &= is_new
        columns[position] = column if carried.any() else None
        present[position] = None if carried.all() else carried
        does |= carried
    made = Delta(shape, changes.keys, ops, tuple(columns), tuple(present))
    return made.select(np.flatnonzero(does))


def narrow_delta(rows: RowSet, changes: Delta) -> Delta:
    """What changes do to rows; only the columns that they carry are read.

    Patches that, by their first rows, change something in each column stay as they were written:
    other rows among them may hold already what they set.
    """
    count = len(changes.columns)
    carried = [
        at for at in range(changes.shape.key_count, count) if changes.columns[at] is not None
    ]
    if carried and not changes.is_structural:
        first = _narrow_by_lookup(rows, changes.slice(0, min(_FIRST_ROWS, len(changes))), carried)
        if all(first.columns[at] is not None for at in carried):
            return changes
    return _narrow_by_lookup(rows, changes, carried)


def _narrow_by_lookup(rows: RowSet, changes: Delta, carried: Sequence[int]) -> Delta:
    old = list(changes.columns)
    if not carried:
        return effective_delta(changes, rows.contains(changes.keys), old)
    stored = rows.schema.stored_columns
    found, held = rows.lookup(changes.keys, [stored[at].name for at in carried])
    for at, array in zip(carried, held, strict=True):
        old[at] = array
    return effective_delta(changes, found, old)


def follower_delta(
    changes: Delta, source: TableSchema, target: TableSchema, shape: Shape, follower: Follower
) -> Delta:
    """What narrow changes of one table do to another that follows it."""
    places = source.places_of(target)
    columns = [None if at is None else changes.columns[at] for at in places]
    present = [None if at is None else changes.present[at] for at in places]
    if (None in places or follower.checks) and changes.counts[UPSERT]:
        assert follower.make_rows is not None
        is_new = changes.ops == UPSERT
        spread = None
        new = changes
        if changes.counts[UPSERT] < len(changes):
            new = changes.select(np.flatnonzero(is_new))
            spread = pa.array(np.cumsum(is_new) - 1, mask=~is_new)
        rows = follower.make_rows(_upserted_rows(source, new))
        for position, column in enumerate(target.stored_columns):
            if places[position] is None:
                values = flat(rows.column(column.name))
                columns[position] = values if spread is None else values.take(spread)
                present[position] = None if spread is None else is_new
    made = changes.with_columns(shape, columns, present)
    if not made.counts[PATCH]:
        return made
    does = made.ops != PATCH
    for position in range(shape.key_count, len(columns)):
        if columns[position] is not None:
            does |= made.carries(position)
    return made if does.all() else made.select(np.flatnonzero(does))


def delta_counts(changes: Delta) -> Counts | None:
    """How many rows narrow changes insert, update and delete; None of patches as written."""
    return Counts(*changes.counts) if changes.is_structural else None


def narrow_images(schema: TableSchema, shape: Shape, delta: RowImages) -> tuple[Delta, RowImages]:
    """The narrow changes that a delta makes, and the delta without rows it leaves as they are.

    Its rows before the change are those that are there.
    """
    after = ingest.carried_upserts(schema, shape, delta.after)
    if not delta.before.num_rows:
        return after, inserted_images(schema, after)
    before = ingest.carried_upserts(schema, shape, delta.before)
    gone = before.select(np.flatnonzero(~member(before.keys, after.keys)))
    deletes = ingest.deletes(schema, shape, _upserted_rows(schema, gone))
    whole = merge_deltas([deletes, after]) if len(gone) else after
    changes = effective_delta(whole, member(whole.keys, before.keys), before.columns)
    was, now = (
        _upserted_rows(schema, side.select(np.flatnonzero(member(side.keys, changes.keys))))
        for side in (before, after)
    )
    return changes, RowImages(was, now)


def _upserted_rows(schema: TableSchema, changes: Delta) -> pa.Table:
    """The rows that changes upsert, as a table."""
    by_name = {
        column.name: array
        for column, array in zip(schema.stored_columns, changes.columns, strict=True)
    }
    return pa.Table.from_arrays(
        [by_name[column.name] for column in schema.columns], schema=schema.whole
    )


def delta_from_images(rows: RowSet, delta: RowImages, narrow: bool = True) -> Delta:
    """The changes that a delta makes to rows.

    What it leaves as it is, is not among them, unless they are not to be `narrow`.
    """
    schema, shape = rows.schema, rows.forest.shape
    upserts = ingest.carried_upserts(schema, shape, delta.after)
    gone = ingest.deletes(schema, shape, delta.before.select(list(schema.key)))
    gone = gone.select(np.flatnonzero(~member(gone.keys, upserts.keys)))
    whole = merge_deltas([gone, upserts])
    return classify(rows, whole)[0] if narrow else whole
