"""Diff of two versions of a table: as cheap as the difference is small.

Versions that come from a common one by changes differ at most in the keys of those changes.
Others are compared tree by tree, equal subtrees skipped, with the keys of their tails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.arrow_values import empty, taken_rows
from livingdb.graph.version_lineage import common_version
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.versions import Versions
from livingdb.trees.compare import differs
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, UPDATED, DiffBatch, to_delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, member
from livingdb.trees.keys import union_keys as joined_keys
from livingdb.trees.scan import ALL, Span

__all__ = [
    "changed_keys",
    "count_changes",
    "count_rows",
    "cross_schema_diff",
    "delta_between",
    "delta_since",
    "diff_versions",
    "differing_keys",
    "lookup_diff",
    "max_differing_rows",
    "range_diff",
    "union_row_keys",
]

_BATCH_KEYS = 65_536
_SHARE = 0.5


def diff_versions(
    versions: Versions, before: Version | None, after: Version | None
) -> Iterator[DiffBatch]:
    """The rows that differ, whole and in key order; None stands for a table that is not there.

    Where the definitions differ, the tables have the same key, and each side of a batch has its
    own columns.
    """
    if before is not None and after is not None and before.address == after.address:
        return
    if before is None or after is None:
        yield from _one_sided_diff(versions, before, after)
        return
    if not versions.is_alike(before, after):
        yield from cross_schema_diff(versions.rows(before), versions.rows(after))
    elif after.base == before.address:
        yield from _delta_diff(versions.rows(before), versions.delta(after))
    else:
        keys = changed_keys(versions, before, after)
        yield from lookup_diff(versions.rows(before), versions.rows(after), keys)


def max_differing_rows(versions: Versions, before: Version, after: Version) -> int:
    """A number that the rows that differ do not exceed."""
    whole = versions.count(before) + versions.count(after)
    common = common_version(versions.index, before, after)
    if common is None:
        return whole
    return min(whole, before.changed + after.changed - 2 * common.changed)


def range_diff(old: RowSet, new: RowSet, span: Span) -> Iterator[DiffBatch]:
    """What differs between the rows of two versions in one range of keys.

    Of their tails only the part within the range counts.
    """
    yield from lookup_diff(old, new, _range_keys(old, new, span))


def _delta_diff(rows: RowSet, delta: Delta) -> Iterator[DiffBatch]:
    """What one delta changes: only the rows before it are read."""
    for start in range(0, len(delta), _BATCH_KEYS):
        part = delta.slice(start, min(start + _BATCH_KEYS, len(delta)))
        was, old = _lookup_rows(rows, part.keys)
        keys, new = part.apply(part.keys[was], old)
        batch = diff_rows(part.keys, was, old, member(part.keys, keys), new)
        if batch is not None:
            yield batch


def count_changes(
    versions: Versions, before: Version | None, after: Version | None
) -> tuple[int, int, int]:
    """How many rows were inserted, updated and deleted."""
    if before is not None and after is not None and after.base == before.address:
        counts = versions.summary(after)
        return counts.inserted, counts.updated, counts.deleted
    return count_rows(diff_versions(versions, before, after))


def count_rows(batches: Iterable[DiffBatch]) -> tuple[int, int, int]:
    """How many rows of a difference were inserted, updated and deleted."""
    found = np.zeros(3, np.int64)
    for batch in batches:
        found += np.bincount(batch.kinds, minlength=3)
    return int(found[INSERTED]), int(found[UPDATED]), int(found[DELETED])


def delta_between(versions: Versions, before: Version | None, after: Version) -> Delta:
    """The changes that make one version of another."""
    shape = versions.forest(after).shape
    batches = diff_versions(versions, before, after)
    return merge_deltas([empty_delta(shape), *(to_delta(shape, batch) for batch in batches)])


def _one_sided_diff(
    versions: Versions, before: Version | None, after: Version | None
) -> Iterator[DiffBatch]:
    version = after if before is None else before
    assert version is not None
    rows = versions.rows(version)
    kind = INSERTED if before is None else DELETED
    names = [column.name for column in rows.schema.stored_columns]
    for batch in rows.batches(names):
        present = batch.columns
        absent = [pa.nulls(len(batch), column.type) for column in present]
        kinds = np.full(len(batch), kind, np.int8)
        keys = rows.forest.shape.keys(present)
        sides = (absent, present) if before is None else (present, absent)
        yield DiffBatch(keys, kinds, *sides)


def changed_keys(versions: Versions, before: Version, after: Version) -> KeyArray:
    """Keys that may differ, sorted: every key that does, and some that do not."""
    common = common_version(versions.index, before, after)
    if common is not None and _is_chain_cheaper(versions, common, before, after):
        return _chain_keys(versions, common, before, after)
    return _tree_keys(versions, before, after)


def delta_since(versions: Versions, before: Version, after: Version) -> Delta | None:
    """The changes that made one version of another; None if it is not so, or they are many."""
    if after.base == before.address:
        return versions.delta(after)
    common = common_version(versions.index, before, after)
    if common is None or common.address != before.address:
        return None
    if not _is_chain_cheaper(versions, common, before, after):
        return None
    return versions.tail_since(before, after)


def _is_chain_cheaper(versions: Versions, common: Version, before: Version, after: Version) -> bool:
    """Whether following the changes is less work than comparing trees."""
    distance = before.changed + after.changed - 2 * common.changed
    frames = (versions.nearest_stored(version) or version for version in (after, before))
    return distance <= _SHARE * max(versions.count(frame) for frame in frames) + _BATCH_KEYS


def differing_keys(versions: Versions, before: Version, after: Version) -> KeyArray:
    """Keys whose rows differ, sorted: all of them, and no others."""
    parts = [batch.keys for batch in diff_versions(versions, before, after)]
    return union_row_keys(parts, versions.rows(after))


def _chain_keys(versions: Versions, common: Version, before: Version, after: Version) -> KeyArray:
    parts = [
        versions.tail_since(common, version).keys
        for version in (before, after)
        if version.address != common.address
    ]
    return union_row_keys(parts, versions.rows(after))


def _tree_keys(versions: Versions, before: Version, after: Version) -> KeyArray:
    return _range_keys(versions.tree_rows(before), versions.tree_rows(after), ALL)


def _range_keys(old: RowSet, new: RowSet, span: Span) -> KeyArray:
    """Keys of a range that may differ; tails hold keys of the range only."""
    parts = [rows.tail.keys for rows in (old, new) if rows.tail is not None]
    if old.root != new.root:
        assert isinstance(new.forest, Forest)
        if old.forest.grouping.groups == new.forest.grouping.groups:
            parts += [batch.keys for batch in new.forest.diff(old.root, new.root, span)]
        else:  # trees of other groups share nothing: any key may differ
            parts += [_tree_range_keys(rows, span) for rows in (old, new)]
    return union_row_keys(parts, new)


def _tree_range_keys(rows: RowSet, span: Span) -> KeyArray:
    """All keys of a tree within a range, sorted."""
    shape = rows.forest.shape
    positions = range(shape.key_count)
    parts = [shape.keys(keys) for keys in rows.forest.scan(rows.root, positions, span)]
    return union_row_keys(parts, rows)


def union_row_keys(parts: list[KeyArray], rows: RowSet) -> KeyArray:
    """The keys in any of the sorted parts, sorted."""
    if not parts:
        columns = [empty(column.type) for column in rows.schema.key_columns]
        return rows.forest.shape.codec.encode(columns)
    return parts[0] if len(parts) == 1 else joined_keys(parts)


def lookup_diff(old: RowSet, new: RowSet, keys: KeyArray) -> Iterator[DiffBatch]:
    """What differs among the rows with these sorted keys."""
    for start in range(0, len(keys), _BATCH_KEYS):
        part = keys[start : start + _BATCH_KEYS]
        batch = diff_rows(part, *_lookup_rows(old, part), *_lookup_rows(new, part))
        if batch is not None:
            yield batch


Mask = npt.NDArray[np.bool_]


def _lookup_rows(rows: RowSet, keys: KeyArray) -> tuple[Mask, list[pa.Array]]:
    return rows.lookup(keys, [column.name for column in rows.schema.stored_columns])


def diff_rows(
    keys: KeyArray,
    was: Mask,
    old: list[pa.Array],
    there: Mask,
    new: list[pa.Array],
) -> DiffBatch | None:
    """The rows that differ: which keys were and are there, and the columns of those that are."""
    before, after = _spread(old, was), _spread(new, there)
    unequal = was != there
    both = np.flatnonzero(was & there)
    if len(both):
        taken = taken_rows(both)
        mask = np.zeros(len(both), bool)
        for one, other in zip(before, after, strict=True):
            mask |= differs(one.take(taken), other.take(taken))
        unequal[both] = mask
    return _differing_rows(keys, was, there, before, after, unequal)


def _differing_rows(
    keys: KeyArray,
    was: Mask,
    there: Mask,
    before: list[pa.Array],
    after: list[pa.Array],
    unequal: Mask,
) -> DiffBatch | None:
    """Of rows side by side, those that differ; None if none do."""
    if not unequal.any():
        return None
    kinds = np.where(~was, INSERTED, np.where(there, UPDATED, DELETED)).astype(np.int8)
    return DiffBatch(keys, kinds, before, after).select(np.flatnonzero(unequal))


def _spread(columns: list[pa.Array], there: Mask) -> list[pa.Array]:
    """Columns of the rows that are there, null where one is not."""
    places = taken_rows(np.cumsum(there) - 1, ~there)
    return [column.take(places) for column in columns]


def cross_schema_diff(old: RowSet, new: RowSet) -> Iterator[DiffBatch]:
    """What differs between tables of different schemas.

    A row differs if a column that both have does, or if it holds a value in a column that only
    one has.  Tables with keys of different types, or of which one takes nulls, have no row in
    common.
    """
    old_keys, old_columns = _keys_and_columns(old)
    new_keys, new_columns = _keys_and_columns(new)
    one, other = old.forest.shape.codec, new.forest.shape.codec
    if (one.types, one.nullable) != (other.types, other.nullable):
        yield _one_sided_batch(
            old_keys, old_columns, [c.type for c in new.schema.stored_columns], DELETED
        )
        yield _one_sided_batch(
            new_keys, new_columns, [c.type for c in old.schema.stored_columns], INSERTED
        )
        return
    keys = union_row_keys([old_keys, new_keys], new)
    was, there = member(keys, old_keys), member(keys, new_keys)
    before, after = _spread(old_columns, was), _spread(new_columns, there)
    unequal = (was != there) | _inequality_mask(old, before, new, after)
    batch = _differing_rows(keys, was, there, before, after, unequal)
    if batch is not None:
        yield batch


def _inequality_mask(
    old: RowSet, before: list[pa.Array], new: RowSet, after: list[pa.Array]
) -> Mask:
    left = {
        column.name: array for column, array in zip(old.schema.stored_columns, before, strict=True)
    }
    right = {
        column.name: array for column, array in zip(new.schema.stored_columns, after, strict=True)
    }
    unequal = np.zeros(len(before[0]), bool)
    for name in {**left, **right}:
        one, other = left.get(name), right.get(name)
        if one is not None and other is not None and one.type == other.type:
            unequal |= differs(one, other)
            continue
        for side in (one, other):
            if side is not None:
                unequal |= side.is_valid().to_numpy(zero_copy_only=False)
    return unequal


def _keys_and_columns(rows: RowSet) -> tuple[KeyArray, list[pa.Array]]:
    table = rows.to_arrow([column.name for column in rows.schema.stored_columns])
    columns = [column.combine_chunks() for column in table.columns]
    return rows.forest.shape.keys(columns), columns


def _one_sided_batch(
    keys: KeyArray, columns: list[pa.Array], others: list[pa.DataType], kind: int
) -> DiffBatch:
    absent = [pa.nulls(len(keys), other) for other in others]
    kinds = np.full(len(keys), kind, np.int8)
    sides = (columns, absent) if kind == DELETED else (absent, columns)
    return DiffBatch(keys, kinds, *sides)
