"""The hidden index of a unique constraint: which row holds a value, without reading the others.

An index is a cached answer: the rows of one version, each value of the constraint with the key
of the row that holds it, as a tree under the values.  It is kept for versions that are kept as
trees; what was changed since is found in the tail.  Of a schema change that leaves the columns
as they are, it is the one below.  What it finds may be outdated, so whoever asks looks at the
rows; but it never misses one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask
from livingdb.chunks.store import StoredChunk
from livingdb.tables.batches import flat
from livingdb.tables.index import Version, ancestor_at
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, UPSERT, Delta, merge_deltas
from livingdb.trees.keys import KeyArray, union_keys

if TYPE_CHECKING:
    from livingdb.tables.versions import Versions

__all__ = ["KIND", "BuiltIndex", "RowSource", "UniqueIndexes", "held_values", "valid_mask"]

KIND = "unique index"
_NEARBY = 8

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BuiltIndex:
    """An index that was made to be read: of which version, and what it is made of."""

    version: Version
    anchor: Version
    root: Address
    chunks: Sequence[StoredChunk]


@dataclass(frozen=True)
class RowSource:
    """A version whose rows, one by one and under the same keys, another has.

    `columns` are its columns by the names that they have in the other, where they are the same.
    """

    version: Version
    columns: Mapping[str, str]


class UniqueIndexes:
    """Finds the indexes of the versions of one store, and makes those that are missing."""

    def __init__(self, versions: Versions):
        self._versions = versions

    def holders(
        self, version: Version, group: Sequence[str], values: Sequence[pa.Array]
    ) -> KeyArray:
        """The keys, sorted, of rows of a version that may hold one of these values.

        The group is unique in the version; no value is null.
        """
        versions = self._versions
        anchor = versions.nearest_stored(version)
        source = None if anchor is not None else self._source(version, group)
        if source is not None:
            found = self.holders(*source, values)
            anchor = versions.require(version.origin)
        else:
            anchor = anchor or versions.require(version.origin)
            found = self._seek(anchor, group, values)
        if version.address == anchor.address:
            return found
        schema = versions.definition(version).schema
        tail = versions.tail_since(anchor, version)
        near = tail.keys[_may_hold(schema, tail, group, values)]
        return union_keys([found, near])

    def ensure(self, version: Version) -> None:
        """Have the indexes by which writes over a version are checked."""
        for _, group in self._versions.definition(version).schema.uniques:
            anchor, names = self._anchor(version, group)
            is_kept = self._versions.nearest_stored(anchor) is not None
            if is_kept or self._versions.row_source(anchor) is not None:
                self._root(anchor, names)  # of others the first reader makes the rows

    def used_by(self, version: Version) -> list[Address]:
        """The versions that the indexes are by which writes over a version are checked."""
        groups = (group for _, group in self._versions.definition(version).schema.uniques)
        anchors = (self._anchor(version, group) for group in groups)
        return [self._recipe(*anchor).to_chunk().address for anchor in anchors]

    def _anchor(self, version: Version, group: Sequence[str]) -> tuple[Version, Sequence[str]]:
        """The version whose index serves for another, and its columns."""
        anchor = self._versions.nearest_stored(version)
        if anchor is not None:
            return anchor, group
        source = self._source(version, group)
        return (
            (self._versions.require(version.origin), group)
            if source is None
            else self._anchor(*source)
        )

    def wrong_indexes(self, version: Version) -> list[tuple[str, ...]]:
        """The groups whose index, where there is one near the version, is not that of its rows."""
        versions, found = self._versions, []
        anchor = versions.nearest_stored(version)
        for _, group in versions.definition(version).schema.uniques if anchor else ():
            assert anchor is not None
            recipe = self._recipe(anchor, group)
            known = versions.index.tree(recipe.to_chunk().address)
            if known is None:
                continue
            described = _index_definition(versions.definition(anchor).schema, group)
            entries = _sorted_entries(versions.rows(anchor), described, group)
            if versions.forest_of(described).build([entries], lambda chunk: None) != known.root:
                found.append(group)
        return found

    def _source(self, version: Version, group: Sequence[str]) -> tuple[Version, list[str]] | None:
        """The version whose rows an origin has, and its columns, if they are unique there, too."""
        below = self._versions.row_source(self._versions.require(version.origin))
        if below is None or not all(name in below.columns for name in group):
            return None
        names = [below.columns[name] for name in group]
        uniques = self._versions.definition(below.version).schema.uniques
        return (below.version, names) if any(set(g) == set(names) for _, g in uniques) else None

    def _seek(self, anchor: Version, group: Sequence[str], values: Sequence[pa.Array]) -> KeyArray:
        schema = self._versions.definition(anchor).schema
        described = _index_definition(schema, group)
        forest = self._versions.forest_of(described)
        wanted = np.unique(described.schema.key_codec.encode(list(values)))
        count = len(group)
        positions = list(range(count, count + len(schema.key)))
        _, keys = forest.seek_many(self._root(anchor, group), wanted, positions)
        return np.sort(schema.key_codec.encode(keys))

    # --- making ------------------------------------------------------------------------------

    def _root(self, anchor: Version, group: Sequence[str]) -> Address:
        """The root of the index of a version that is kept as a tree, or is an origin."""
        recipe = self._recipe(anchor, group)
        known = self._versions.index.tree(recipe.to_chunk().address)
        return known.root if known is not None else self._build(anchor, group, recipe)

    def _recipe(self, anchor: Version, group: Sequence[str]) -> Derived:
        schema = self._versions.definition(anchor).schema
        described = _index_definition(schema, group).to_chunk()
        return Derived(
            KIND,
            {
                "inputs": {"": anchor.address.hex()},
                "columns": [schema.column(name).id for name in group],
                "definition": described.address.hex(),
            },
        )

    def _build(self, anchor: Version, group: Sequence[str], recipe: Derived) -> Address:
        described = _index_definition(self._versions.definition(anchor).schema, group)
        chunks = [described.to_chunk(), recipe.to_chunk()]
        near = self._indexed_before(anchor, group)
        if near is None:
            columns = _sorted_entries(self._versions.rows(anchor), described, group)
            root = self._versions.forest_of(described).build([columns], chunks.append)
        else:
            older, held = near
            changes = self._difference(older, anchor, described, group)
            forest = self._versions.forest_of(described)
            root = forest.edit(held, changes, chunks.append) if len(changes) else held
        address = recipe.to_chunk().address
        version = Version(address, chunks[0].address, address, None, None, 0, 0, address)
        self._versions.keep_index(BuiltIndex(version, anchor, root, chunks))
        return root

    def _indexed_before(
        self, anchor: Version, group: Sequence[str]
    ) -> tuple[Version, Address] | None:
        """A version that the anchor comes from by changes, and the root of its index."""
        versions = self._versions
        nearby = versions.index.materialized_versions(anchor.origin, -1, anchor.depth - 1)
        for older in islice(nearby, _NEARBY):
            if ancestor_at(versions.index, anchor, older.depth).address != older.address:
                continue
            tree = versions.index.tree(self._recipe(older, group).to_chunk().address)
            if tree is not None:
                return older, tree.root
        return None

    def _difference(
        self, older: Version, anchor: Version, described: Definition, group: Sequence[str]
    ) -> Delta:
        """What changes made one version of another do to its index."""
        versions = self._versions
        keys = versions.tail_since(older, anchor).keys
        shape = versions.forest_of(described).shape
        parts = []
        for version, operation in ((older, DELETE), (anchor, UPSERT)):
            rows = versions.rows(version)
            names = list(dict.fromkeys([*group, *rows.schema.key]))
            held = dict(zip(names, rows.lookup(keys, names)[1], strict=True))
            entries = [held[name] for name in (*group, *rows.schema.key)]
            columns, encoded = _in_order(described, entries, len(group))
            count = len(group)
            kept = (*columns[:count], *([None] * (len(columns) - count)))
            ops = np.full(len(encoded), operation, np.int8)
            whole = tuple(columns) if operation == UPSERT else kept
            parts.append(Delta(shape, encoded, ops, whole, (None,) * len(columns)))
        return merge_deltas(parts)


def _index_definition(schema: TableSchema, group: Sequence[str]) -> Definition:
    """The table that an index is: the values, which are its key, and the key of the row."""
    values = [pa.field(f"value_{n}", schema.column(name).type) for n, name in enumerate(group)]
    keys = [
        pa.field(f"key_{n}", column.type, column.nullable)
        for n, column in enumerate(schema.key_columns)
    ]
    names = [field.name for field in values]
    return Definition(TableSchema.of(pa.schema([*values, *keys]), names), Layout())


def _sorted_entries(rows: RowSet, described: Definition, group: Sequence[str]) -> list[pa.Array]:
    """All entries of the index of some rows."""
    names = list(dict.fromkeys([*group, *rows.schema.key]))
    whole = rows.to_arrow(names)
    held = [flat(whole.column(name)) for name in (*group, *rows.schema.key)]
    return _in_order(described, held, len(group))[0]


def _in_order(
    described: Definition, held: Sequence[pa.Array], count: int
) -> tuple[list[pa.Array], KeyArray]:
    """Values and keys, sorted by the values, without nulls among them; of equal ones the first."""
    valid = pa.array(valid_mask(held[:count]))
    columns = [array.filter(valid) for array in held]
    encoded = described.schema.key_codec.encode(columns[:count])
    encoded, first = np.unique(encoded, return_index=True)
    taken = pa.array(first)
    return [array.take(taken) for array in columns], encoded


def valid_mask(values: Sequence[pa.Array]) -> Mask:
    """Which rows have no null among some columns."""
    found = np.ones(len(values[0]), bool)
    for array in values:
        if array.null_count:
            found &= as_mask(array.is_valid())
    return found


def held_values(
    rows: RowSet, group: Sequence[str], keys: KeyArray
) -> tuple[KeyArray, list[pa.Array]]:
    """The keys of those of some rows that have no null in the group, and what they hold."""
    found, held = rows.lookup(keys, list(group))
    valid = valid_mask(held)
    return keys[found][valid], [array.filter(pa.array(valid)) for array in held]


def _may_hold(
    schema: TableSchema, tail: Delta, group: Sequence[str], values: Sequence[pa.Array]
) -> Mask:
    """Which changes may give a row one of the values: each column is looked at by itself."""
    found = np.ones(len(tail), bool)
    touches = np.zeros(len(tail), bool)
    for name, wanted in zip(group, values, strict=True):
        position = schema.position(name)
        carried = tail.carries(position)
        touches |= carried
        array = tail.columns[position]
        if array is not None:
            found &= _is_among(array, wanted) | ~carried
    found &= touches | (tail.ops == UPSERT)
    return found


def _is_among(array: pa.Array, wanted: pa.Array) -> Mask:
    """Which values are wanted; all of them, where equal ones may have different bits."""
    if pa.types.is_floating(array.type):
        return np.ones(len(array), bool)
    found: Mask = as_mask(pc.is_in(array, value_set=wanted))
    return found
