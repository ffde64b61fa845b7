"""The indexes that users ask for: the rows of a table under columns that are not its key.

An index is a secondary tree whose keys are the values and then the key of the row.  Rows whose
first value is null are not in it, and of texts and bytes it has the beginnings.  It belongs to a
tree: rows that lie over that tree as a tail are looked at besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask, taken_rows
from livingdb.chunks.memory import MemoryStore
from livingdb.errors import InvalidData
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout, TableIndex
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.secondary_tree import TABLE_INDEX, SecondaryTrees
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, KeyCodec
from livingdb.trees.nodes import Cache
from livingdb.trees.scan import Span

if TYPE_CHECKING:
    from livingdb.tables.versions import Versions

__all__ = [
    "BEGINNING_BYTES",
    "RowIndexes",
    "TableIndexes",
    "TreeIndex",
    "stored_column",
    "stored_values",
    "tail_order",
]

BEGINNING_BYTES = 128
"""Of a text or bytes, what is in an index."""
_FORMS = 256


@dataclass(frozen=True)
class _Form:
    """What the indexes of all versions of a definition have in common."""

    columns: tuple[Column, ...]
    codec: KeyCodec
    forest: Forest
    keys: tuple[int, ...]
    row_codec: KeyCodec
    is_whole: bool


@dataclass(frozen=True)
class TreeIndex:
    """An index of the rows of one tree.

    That of a unique constraint `is_whole`: it has whole values, and no row with a null among them.
    """

    _form: _Form
    root: Address

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that it is under, of the types that it has them in."""
        return self._form.columns

    @property
    def codec(self) -> KeyCodec:
        """Encodes its own keys."""
        return self._form.codec

    @property
    def is_whole(self) -> bool:
        """Whether it has whole values, and no rows with nulls in any of its columns."""
        return self._form.is_whole

    def seek(self, spans: Sequence[Span], most: int) -> KeyArray | None:
        """The keys, sorted, of rows in ranges of its own keys; None if there are more than some."""
        form = self._form
        found = form.forest.seek_spans(self.root, spans, form.keys, most)
        if found is None:
            return None
        keys = form.row_codec.encode(found)
        return keys if len(keys) < 2 else np.sort(keys)


class RowIndexes:
    """The indexes of the rows of one tree; looked for when they are asked for."""

    def __init__(self, indexes: TableIndexes, anchor: Version):
        self._indexes = indexes
        self._anchor = anchor

    def __iter__(self) -> Iterator[TreeIndex]:
        return self._indexes.trees(self._anchor)


class TableIndexes(SecondaryTrees):
    """The indexes that the tables of one store were given."""

    kind = TABLE_INDEX

    def __init__(self, versions: Versions):
        super().__init__(versions)
        self._form = lru_cache(maxsize=_FORMS)(self._make_form)
        self._fits: dict[
            str, tuple[Definition, tuple[TableIndex, ...], dict[str, tuple[str, ...]]]
        ] = {}
        """What the indexes of tables are in the definition that was asked for last."""
        self._refused: set[Address] = set()

    def of(self, anchor: Version) -> RowIndexes | None:
        """The indexes of the rows of a version that is kept as a tree; None if it can have none."""
        definition = self._versions.definition(anchor)
        is_indexed = definition.schema.uniques or self._declared(definition)
        return RowIndexes(self, anchor) if is_indexed else None

    def trees(self, anchor: Version) -> Iterator[TreeIndex]:
        """Those of them that are there; those of unique constraints, too."""
        for group in self.groups(anchor):
            root = self.root(anchor, group)
            if root is not None:
                yield TreeIndex(self._form(anchor.definition, group, False), root)
        uniques = self._versions.uniques
        for _, group in self._versions.definition(anchor).schema.uniques:
            root = uniques.root(anchor, group)
            if root is not None:
                yield TreeIndex(self._form(anchor.definition, group, True), root)

    def groups(self, version: Version) -> list[tuple[str, ...]]:
        """The columns of each index that a version has, by their names in it."""
        return list(dict.fromkeys(self._declared(self._versions.definition(version)).values()))

    def named_groups(self, version: Version) -> dict[str, tuple[str, ...]]:
        """The same, by the names of the indexes."""
        return dict(self._declared(self._versions.definition(version)))

    def _declared(self, definition: Definition) -> dict[str, tuple[str, ...]]:
        if definition.id is None:
            return {}
        indexes = self._versions.index.table_settings(definition.id).indexes
        if not indexes:
            return {}
        known = self._fits.get(definition.id)
        if known is None or known[0] is not definition or known[1] is not indexes:
            named = ((index.name, index.fit(definition.schema)) for index in indexes)
            fits = {name: group for name, group in named if group is not None}
            known = self._fits[definition.id] = definition, indexes, fits
        return known[2]

    def ensure(self, version: Version) -> None:
        """Have the indexes of the tree that a version is read from."""
        for group in self.groups(version):
            anchor = self._versions.nearest_stored(version)
            if anchor is None or self.address(anchor, group) in self._refused:
                continue
            try:
                self.make_root(anchor, group)
            except InvalidData:  # values and keys that are too long together
                self._refused.add(self.address(anchor, group))

    def used_by(self, version: Version) -> list[Address]:
        """The versions that the indexes are of the tree that a version is read from."""
        versions, anchor = self._versions, self._versions.nearest_stored(version)
        while anchor is None:
            source = versions.derived.row_source(versions.require(version.origin))
            if source is None:
                return []
            version = source.version
            anchor = versions.nearest_stored(version)
        return [self.address(anchor, group) for group in self.groups(anchor)]

    def wrong_indexes(self, version: Version) -> list[tuple[str, ...]]:
        """The groups whose index, where there is one near the version, is not that of its rows."""
        anchor = self._versions.nearest_stored(version)
        if anchor is None:
            return []
        return [group for group in self.groups(anchor) if self.is_wrong(anchor, group)]

    def build_apart(
        self,
        schema: TableSchema,
        group: Sequence[str],
        rows: Sequence[pa.Array],
        store: MemoryStore,
    ) -> TreeIndex:
        """An index in memory of some rows, given as the columns of the group and of the key."""
        described = self._describe(schema, group)
        forest = Forest(store, described.layout.grouping(described.schema), Cache())
        entries, _ = self._in_order(described, rows, len(group))
        root = forest.build([entries], lambda chunk: store.put([chunk]))
        return TreeIndex(_form_of(schema, group, described, forest), root)

    # --- what one looks like -----------------------------------------------------------------

    def _describe(self, schema: TableSchema, group: Sequence[str]) -> Definition:
        """The table that an index is: the values and the key of the row are its key."""
        values = [
            pa.field(f"value_{n}", column.type, column.nullable)
            for n, column in enumerate(_stored_columns(schema, group))
        ]
        keys = [
            pa.field(f"key_{n}", column.type, column.nullable)
            for n, column in enumerate(schema.key_columns)
        ]
        fields = pa.schema([*values, *keys])
        return Definition(TableSchema.of(fields, fields.names, nullable_key=True), Layout())

    def _in_order(
        self, described: Definition, held: Sequence[pa.Array], count: int
    ) -> tuple[list[pa.Array], KeyArray]:
        columns = [*map(stored_values, held[:count]), *held[count:]]
        if columns[0].null_count:
            valid = columns[0].is_valid()
            columns = [array.filter(valid) for array in columns]
        encoded = described.schema.key_codec.encode(columns)
        order = np.argsort(encoded, kind="stable")
        taken = pa.array(order)
        return [array.take(taken) for array in columns], encoded[order]

    def _make_form(self, definition: Address, group: Sequence[str], is_unique: bool) -> _Form:
        schema = self._versions.placements.definition_at(definition).schema
        trees: SecondaryTrees = self._versions.uniques if is_unique else self
        described = trees._describe(schema, group)
        form = _form_of(schema, group, described, self._versions.placements.forest_of(described))
        if not is_unique:
            return form
        columns = tuple(replace(schema.column(name), nullable=False) for name in group)
        return replace(form, columns=columns, is_whole=True)


def _form_of(
    schema: TableSchema, group: Sequence[str], described: Definition, forest: Forest
) -> _Form:
    """What indexes have in common that are under some columns, and lie in a forest."""
    return _Form(
        _stored_columns(schema, group),
        described.schema.key_codec,
        forest,
        tuple(range(len(group), len(group) + len(schema.key))),
        schema.key_codec,
        is_whole=False,
    )


def _stored_columns(schema: TableSchema, group: Sequence[str]) -> tuple[Column, ...]:
    """The columns of an index, as it has them: the first one is never null."""
    first, *rest = map(schema.column, group)
    return (stored_column(first), *(stored_column(column, column.nullable) for column in rest))


def stored_column(column: Column, nullable: bool = False) -> Column:
    """A column of the type that an index has it in."""
    data_type = pa.binary() if _is_long(column.type) else column.type
    return replace(column, type=data_type, nullable=nullable)


def _is_long(data_type: pa.DataType) -> bool:
    """Whether values may be of any length."""
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


def stored_values(values: pa.Array) -> pa.Array:
    """Values of a column as an index has them."""
    if not _is_long(values.type):
        return values
    return pc.binary_slice(values.cast(pa.binary()), 0, BEGINNING_BYTES)


def tail_order(tail: Delta, position: int) -> tuple[KeyArray, npt.NDArray[np.int64]]:
    """The values of a column that changes carry, encoded as by an index and sorted, and by which.

    Nulls are left out.  It is found once for a tail.
    """
    known = tail.orders.get(position)
    if known is None:
        values = tail.columns[position]
        if values is None:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        rows = np.flatnonzero(tail.carries(position) & as_mask(values.is_valid()))
        held = stored_values(values.take(taken_rows(rows)))
        encoded = KeyCodec([held.type]).encode([held])
        order = np.argsort(encoded, kind="stable")
        known = tail.orders[position] = encoded[order], rows[order]
    return known
