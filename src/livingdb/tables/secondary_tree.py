"""Secondary trees: the rows of a version under other columns than their key.

A secondary tree is a cached answer: what some columns of each row hold, with the key of the row,
as a tree under those values.  It is kept for versions that are kept as trees; what was changed
since is found in the tail.  What it finds may be outdated, so whoever asks looks at the rows; but
it never misses one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask
from livingdb.chunks.store import StoredChunk
from livingdb.tables.batches import flat
from livingdb.tables.index import Version, ancestor_at
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, UPSERT, Delta, merge_deltas
from livingdb.trees.keys import KeyArray

if TYPE_CHECKING:
    from livingdb.tables.versions import Versions

__all__ = [
    "INDEX_KINDS",
    "TABLE_INDEX",
    "UNIQUE_INDEX",
    "BuiltIndex",
    "RowSource",
    "SecondaryTrees",
    "valid_mask",
]

UNIQUE_INDEX, TABLE_INDEX = "unique index", "table index"
INDEX_KINDS = frozenset((UNIQUE_INDEX, TABLE_INDEX))
"""The kinds of recipes that secondary trees have."""

_NEARBY = 8
_ADDRESSES = 4096

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BuiltIndex:
    """A secondary tree that was made: of which version, and what it is made of."""

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


class SecondaryTrees(ABC):
    """Finds the secondary trees of one kind in a store, and makes those that are missing.

    A *group* is the columns that a tree is under; its *anchor* is the version whose rows it has.
    """

    kind: str

    def __init__(self, versions: Versions):
        self._versions = versions
        self._address = lru_cache(maxsize=_ADDRESSES)(self._find_address)

    @abstractmethod
    def _describe(self, schema: TableSchema, group: Sequence[str]) -> Definition:
        """The table that a secondary tree is: the values first, and then the key of the row."""

    @abstractmethod
    def _in_order(
        self, described: Definition, held: Sequence[pa.Array], count: int
    ) -> tuple[list[pa.Array], KeyArray]:
        """Entries, sorted, of values in so many columns and keys; and their own keys."""

    def root(self, anchor: Version, group: Sequence[str]) -> Address | None:
        """The root of the tree of a version, if it is there."""
        known = self._versions.index.tree(self.address(anchor, group))
        return None if known is None else known.root

    def make_root(self, anchor: Version, group: Sequence[str]) -> Address:
        """The same, made if it is not."""
        found = self.root(anchor, group)
        return self._build(anchor, group) if found is None else found

    def address(self, anchor: Version, group: Sequence[str]) -> Address:
        """The version that the tree of another one is."""
        return self._address(anchor, tuple(group))

    def is_wrong(self, anchor: Version, group: Sequence[str]) -> bool:
        """Whether a version has such a tree that is not that of its rows."""
        found = self.root(anchor, group)
        if found is None:
            return False
        described = self._describe(self._versions.definition(anchor).schema, group)
        entries = self._whole_entries(self._versions.rows(anchor), described, group)
        forest = self._versions.placements.forest_of(described)
        return forest.build([entries], lambda chunk: None) != found

    def _find_address(self, anchor: Version, group: Sequence[str]) -> Address:
        return self._recipe(anchor, group).to_chunk().address

    def _recipe(self, anchor: Version, group: Sequence[str]) -> Derived:
        schema = self._versions.definition(anchor).schema
        described = self._describe(schema, group).to_chunk()
        return Derived(
            self.kind,
            {
                "inputs": {"": anchor.address.hex()},
                "columns": [schema.column(name).id for name in group],
                "definition": described.address.hex(),
            },
        )

    # --- making ------------------------------------------------------------------------------

    def _build(self, anchor: Version, group: Sequence[str]) -> Address:
        described = self._describe(self._versions.definition(anchor).schema, group)
        recipe = self._recipe(anchor, group).to_chunk()
        chunks = [described.to_chunk(), recipe]
        near = self._indexed_before(anchor, group)
        forest = self._versions.placements.forest_of(described)
        if near is None:
            columns = self._whole_entries(self._versions.rows(anchor), described, group)
            root = forest.build([columns], chunks.append)
        else:
            older, held = near
            changes = self._difference(older, anchor, described, group)
            root = forest.edit(held, changes, chunks.append) if len(changes) else held
        address = recipe.address
        version = Version(address, chunks[0].address, address, None, None, 0, 0, address)
        self._versions.listeners.keep_index(BuiltIndex(version, anchor, root, chunks))
        return root

    def _indexed_before(
        self, anchor: Version, group: Sequence[str]
    ) -> tuple[Version, Address] | None:
        """A version that the anchor comes from by changes, and the root of its tree."""
        versions = self._versions
        nearby = versions.index.materialized_versions(anchor.origin, -1, anchor.depth - 1)
        for older in islice(nearby, _NEARBY):
            if ancestor_at(versions.index, anchor, older.depth).address != older.address:
                continue
            root = self.root(older, group)
            if root is not None:
                return older, root
        return None

    def _whole_entries(
        self, rows: RowSet, described: Definition, group: Sequence[str]
    ) -> list[pa.Array]:
        """All entries of the tree of some rows."""
        names = list(dict.fromkeys([*group, *rows.schema.key]))
        whole = rows.to_arrow(names)
        held = [flat(whole.column(name)) for name in (*group, *rows.schema.key)]
        return self._in_order(described, held, len(group))[0]

    def _difference(
        self, older: Version, anchor: Version, described: Definition, group: Sequence[str]
    ) -> Delta:
        """What changes made one version of another do to its tree."""
        versions = self._versions
        keys = versions.tail_since(older, anchor).keys
        shape = versions.placements.forest_of(described).shape
        parts = []
        for version, operation in ((older, DELETE), (anchor, UPSERT)):
            rows = versions.rows(version)
            names = list(dict.fromkeys([*group, *rows.schema.key]))
            held = dict(zip(names, rows.lookup(keys, names)[1], strict=True))
            entries = [held[name] for name in (*group, *rows.schema.key)]
            columns, encoded = self._in_order(described, entries, len(group))
            count = shape.key_count
            kept = (*columns[:count], *([None] * (len(columns) - count)))
            ops = np.full(len(encoded), operation, np.int8)
            whole = tuple(columns) if operation == UPSERT else kept
            parts.append(Delta(shape, encoded, ops, whole, (None,) * len(columns)))
        return merge_deltas(parts)


def valid_mask(values: Sequence[pa.Array]) -> Mask:
    """Which rows have no null among some columns."""
    found = np.ones(len(values[0]), bool)
    for array in values:
        if array.null_count:
            found &= as_mask(array.is_valid())
    return found
