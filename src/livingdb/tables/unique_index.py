"""The hidden index of a unique constraint: which row holds a value, without reading the others.

It is a secondary tree whose keys are the values themselves.  Of a schema change that leaves the
columns as they are, it is the one below.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.secondary_tree import UNIQUE_INDEX, SecondaryTrees, valid_mask
from livingdb.trees.delta import UPSERT, Delta
from livingdb.trees.keys import KeyArray, union_keys

__all__ = ["UniqueIndexes", "held_values"]

Mask = npt.NDArray[np.bool_]


class UniqueIndexes(SecondaryTrees):
    """The indexes of the unique constraints of versions."""

    kind = UNIQUE_INDEX

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
            if is_kept or self._versions.derived.row_source(anchor) is not None:
                self.make_root(anchor, names)  # of others the first reader makes the rows

    def used_by(self, version: Version) -> list[Address]:
        """The versions that the indexes are by which writes over a version are checked."""
        groups = (group for _, group in self._versions.definition(version).schema.uniques)
        anchors = (self._anchor(version, group) for group in groups)
        return [self.address(*anchor) for anchor in anchors]

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
        anchor = self._versions.nearest_stored(version)
        if anchor is None:
            return []
        uniques = self._versions.definition(version).schema.uniques
        return [group for _, group in uniques if self.is_wrong(anchor, group)]

    def _source(self, version: Version, group: Sequence[str]) -> tuple[Version, list[str]] | None:
        """The version whose rows an origin has, and its columns, if they are unique there, too."""
        below = self._versions.derived.row_source(self._versions.require(version.origin))
        if below is None or not all(name in below.columns for name in group):
            return None
        names = [below.columns[name] for name in group]
        uniques = self._versions.definition(below.version).schema.uniques
        return (below.version, names) if any(set(g) == set(names) for _, g in uniques) else None

    def _seek(self, anchor: Version, group: Sequence[str], values: Sequence[pa.Array]) -> KeyArray:
        schema = self._versions.definition(anchor).schema
        described = self._describe(schema, group)
        forest = self._versions.placements.forest_of(described)
        wanted = np.unique(described.schema.key_codec.encode(list(values)))
        count = len(group)
        positions = list(range(count, count + len(schema.key)))
        _, keys = forest.seek_many(self.make_root(anchor, group), wanted, positions)
        return np.sort(schema.key_codec.encode(keys))

    def _describe(self, schema: TableSchema, group: Sequence[str]) -> Definition:
        """The table that an index is: the values, which are its key, and the key of the row."""
        values = [pa.field(f"value_{n}", schema.column(name).type) for n, name in enumerate(group)]
        keys = [
            pa.field(f"key_{n}", column.type, column.nullable)
            for n, column in enumerate(schema.key_columns)
        ]
        names = [field.name for field in values]
        return Definition(TableSchema.of(pa.schema([*values, *keys]), names), Layout())

    def _in_order(
        self, described: Definition, held: Sequence[pa.Array], count: int
    ) -> tuple[list[pa.Array], KeyArray]:
        """Without nulls among the values; of equal ones the first."""
        valid = pa.array(valid_mask(held[:count]))
        columns = [array.filter(valid) for array in held]
        encoded = described.schema.key_codec.encode(columns[:count])
        encoded, first = np.unique(encoded, return_index=True)
        taken = pa.array(first)
        return [array.take(taken) for array in columns], encoded


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
