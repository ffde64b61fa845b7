"""The tables of a snapshot as one side of a lens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.evolution.lens import Delta
from livingdb.graph.compare import diff_versions
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions, classify
from livingdb.trees.changes import Changes, merge_changes
from livingdb.trees.compare import differs
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch
from livingdb.trees.keys import KeyCodec, member, search
from livingdb.trees.shape import Shape

__all__ = ["VersionSide", "changes_of", "delta_of", "effective"]


class VersionSide:
    """Tables by name, read as rows; each is opened when it is first asked for."""

    def __init__(self, versions: Versions, tables: Mapping[str, Version]):
        self._versions = versions
        self._tables = tables
        self._opened: dict[str, RowSet] = {}

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
        _, arrays = rows.lookup(encoded, rows.schema.arrow.names)
        return pa.Table.from_arrays(arrays, schema=rows.schema.arrow)

    def matching(self, table: str, values: pa.Table) -> pa.Table:
        """The rows whose columns hold one of the rows of values; nulls match nothing."""
        rows = self.rows(table)
        names = values.column_names
        codec = KeyCodec([rows.schema.column(name).type for name in names])
        wanted = np.unique(codec.encode([flat(c) for c in values.drop_null().columns]))
        parts = []
        for batch in self.scan(table):
            columns = [batch.column(name) for name in names]
            valid = np.ones(len(batch), bool)
            for column in columns:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
            places = np.flatnonzero(valid)
            taken = [column.take(pa.array(places)) for column in columns]
            if len(places):
                hit = places[member(codec.encode(taken), wanted)]
                parts.append(batch.take(pa.array(hit)))
        return pa.Table.from_batches(parts, schema=rows.schema.arrow)

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in key order."""
        rows = self.rows(table)
        return rows.batches(rows.schema.arrow.names if columns is None else columns)


def delta_of(versions: Versions, before: Version | None, after: Version | None) -> Delta:
    """The rows that differ between two versions of a table."""
    known = after or before
    assert known is not None
    schema = versions.definition(known).schema
    batches = list(diff_versions(versions, before, after))
    return Delta(
        _rows(schema, batches, lambda batch: (batch.before, batch.kinds != INSERTED)),
        _rows(schema, batches, lambda batch: (batch.after, batch.kinds != DELETED)),
    )


Chosen = tuple[list[pa.Array], "np.ndarray[tuple[int], np.dtype[np.bool_]]"]


def _rows(
    schema: TableSchema, batches: Sequence[DiffBatch], side: Callable[[DiffBatch], Chosen]
) -> pa.Table:
    parts = []
    for batch in batches:
        arrays, there = side(batch)
        columns = [arrays[schema.position(column.name)] for column in schema.columns]
        whole = pa.Table.from_arrays(columns, schema=schema.arrow)
        parts.append(whole.filter(pa.array(there)))
    return pa.concat_tables(parts) if parts else schema.arrow.empty_table()


def effective(schema: TableSchema, shape: Shape, delta: Delta) -> tuple[Changes, Delta, Counts]:
    """The changes that a delta makes, the delta without rows it leaves as they are, and counts.

    Its rows before the change are those that are there.
    """
    after = ingest.carried(schema, shape, delta.after)
    before = ingest.carried(schema, shape, delta.before)
    found = member(after.keys, before.keys)
    keep = ~found
    both = np.flatnonzero(found)
    if len(both):
        mine = pa.array(both)
        theirs = pa.array(search(before.keys, after.keys[both]))
        for new, old in zip(after.columns, before.columns, strict=True):
            if new is not None and old is not None:
                keep[both] |= differs(new.take(mine), old.take(theirs))
    gone = ~member(before.keys, after.keys)
    upserts = after.select(np.flatnonzero(keep))
    deletes = ingest.deletes(schema, shape, _rows_of(schema, before.select(np.flatnonzero(gone))))
    counts = Counts(int((keep & ~found).sum()), int((keep & found).sum()), int(gone.sum()))
    changes = merge_changes([deletes, upserts]) if len(deletes) else upserts
    was = member(before.keys, changes.keys)
    rest = Delta(_rows_of(schema, before.select(np.flatnonzero(was))), _rows_of(schema, upserts))
    return changes, rest, counts


def _rows_of(schema: TableSchema, changes: Changes) -> pa.Table:
    """The rows that changes upsert, as a table."""
    by_name = {
        column.name: array for column, array in zip(schema.stored, changes.columns, strict=True)
    }
    return pa.Table.from_arrays(
        [by_name[column.name] for column in schema.columns], schema=schema.arrow
    )


def changes_of(rows: RowSet, delta: Delta) -> Changes:
    """The changes that a delta makes to rows; what it leaves as it is, is not among them."""
    schema, shape = rows.schema, rows.forest.shape
    upserts = ingest.carried(schema, shape, delta.after)
    gone = ingest.deletes(schema, shape, delta.before.select(list(schema.key)))
    gone = gone.select(np.flatnonzero(~member(gone.keys, upserts.keys)))
    return classify(rows, merge_changes([gone, upserts]))[0]
