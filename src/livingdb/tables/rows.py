"""Reading a version: the nearest tree and the tail over it, seen as one sorted set of rows."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import is_exact
from livingdb.errors import InvalidData
from livingdb.tables.fit import fit
from livingdb.tables.read_counts import SAMPLED_MASK, ReadCounts
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import PATCH, Delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, member, search
from livingdb.trees.scan import ALL, Span, ZoneFilter

if TYPE_CHECKING:
    from livingdb.tables.table_index import TreeIndex
    from livingdb.tables.virtual_forest import VirtualForest
    from livingdb.trees.builder import Sink

__all__ = ["RowSet"]


@dataclass(frozen=True)
class RowSet:
    """The rows of one version; `counts` is told how they are read.

    `indexes` are those of the tree; what the tail holds is not in them.
    """

    schema: TableSchema
    forest: Forest | VirtualForest
    root: Address
    tail: Delta | None = None
    counts: ReadCounts | None = field(default=None, kw_only=True, compare=False, repr=False)
    indexes: Iterable[TreeIndex] | None = field(
        default=None, kw_only=True, compare=False, repr=False
    )

    @property
    def is_indexable(self) -> bool:
        """Whether rows may be looked for by indexes: nobody has to know what was looked for."""
        return True

    def _positions(self, columns: Sequence[str] | None) -> list[int]:
        names = (
            [column.name for column in self.schema.visible_columns] if columns is None else columns
        )
        return [self.schema.position(name) for name in names]

    def batches(
        self,
        columns: Sequence[str] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
    ) -> Iterator[pa.RecordBatch]:
        """The rows in key order, as batches of the columns asked for, or of all that are shown."""
        positions = self._positions(columns)
        found = self.forest.scan(self.root, positions or [0], span, filters, self.tail)
        if self.counts is not None:
            kind = "range" if span.is_bounded else "filter" if filters else "whole"
            by = tuple(item.position for item in filters)
            found = self.counts.scan(self.schema, columns, kind, by).watch(found)
        schema = pa.schema([self.schema.stored_columns[position].field for position in positions])
        if not positions:
            for arrays in found:
                yield pa.RecordBatch.from_struct_array(
                    pa.array([{}] * len(arrays[0]), pa.struct([]))
                )
            return
        for arrays in found:
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
    ) -> pa.Table:
        """The rows in key order, as one table."""
        names = [self.schema.stored_columns[position] for position in self._positions(columns)]
        schema = pa.schema([column.field for column in names])
        return pa.Table.from_batches(self.batches(columns, span, filters), schema=schema)

    def get(self, *key: object) -> dict[str, Any] | None:
        """The row with this key as a dict; None if there is none."""
        return self.at_key(self._encode_key(key))

    def at_key(self, encoded: Any) -> dict[str, Any] | None:
        """The same, by the key as it is encoded."""
        counts = self.counts
        if counts is None:
            return self.row(encoded)
        counts.gets += 1
        if counts.gets & SAMPLED_MASK:
            return self.row(encoded)
        counts.note_place(self, encoded)
        began = clock.perf_counter()
        found = self.row(encoded)
        counts.note_get(clock.perf_counter() - began)
        return found

    def row(self, encoded: Any) -> dict[str, Any] | None:
        """The row with an encoded key."""
        names = [column.name for column in self.schema.visible_columns]
        if self.tail is not None:
            at = int(np.searchsorted(self.tail.keys, encoded))
            if at < len(self.tail) and self.tail.keys[at] == encoded:
                one = self.tail.slice(at, at + 1)
                _, columns = self._overlay(one.keys, self._positions(None))
                if not len(columns[0]):
                    return None
                return {
                    name: column[0].as_py() for name, column in zip(names, columns, strict=True)
                }
        values = self.forest.get(self.root, encoded, self._positions(None))
        if values is None:
            return None
        return {name: value.as_py() for name, value in zip(names, values, strict=True)}

    def span_after(self, key: Sequence[object]) -> Span:
        """The keys that come after one, by the values of all key columns, hidden ones too."""
        return Span(self._encode_whole_key(key), lower_open=True)

    def _encode_key(self, key: Sequence[object]) -> Any:
        self.schema.require_key()
        return self._encode_whole_key(key)

    def _encode_whole_key(self, key: Sequence[object]) -> Any:
        columns = self.schema.key_columns
        if len(key) != len(columns):
            raise InvalidData(f"the key is ({', '.join(self.schema.key)}), not {len(key)} values")
        values = [
            value if is_exact(value, column.type) else fit([value], column)[0].as_py()
            for value, column in zip(key, columns, strict=True)
        ]
        return self.forest.shape.codec.encode_one(values, self.schema.key)

    def lookup(
        self, keys: KeyArray, columns: Sequence[str] | None = None
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys have rows, and the columns of those rows."""
        began = clock.perf_counter()
        found_keys, arrays = self._overlay(keys, self._positions(columns))
        if self.counts is not None:
            seconds = clock.perf_counter() - began
            self.counts.scan(self.schema, columns, "keys").add(len(keys), seconds)
        return member(keys, found_keys), arrays

    def _overlay(self, keys: KeyArray, positions: Sequence[int]) -> tuple[KeyArray, list[pa.Array]]:
        """The rows with some keys; those that the tail has as a whole are not looked for below."""
        changes = None
        if self.tail is not None:
            wanted = search(self.tail.keys, keys)[member(keys, self.tail.keys)]
            if len(wanted):
                changes = self.tail.select(wanted)
                keys = keys[~member(keys, changes.keys[changes.ops != PATCH])]
        found, arrays = self.forest.seek_many(self.root, keys, positions)
        if changes is None:
            return keys[found], arrays
        return changes.apply(keys[found], arrays, positions)

    def contains(self, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys have rows."""
        found = self.forest.contains(self.root, keys)
        return found if self.tail is None else self.tail.presence(keys, found)

    def count(self) -> int:
        """How many rows there are; reads key columns where the tail has upserts."""
        rows = self.forest.count_rows(self.root)
        if self.tail is None:
            return rows
        before = self.forest.contains(self.root, self.tail.keys)
        after = self.tail.presence(self.tail.keys, before)
        return rows + int(after.sum()) - int(before.sum())

    def lies_in(self, forest: Forest) -> bool:
        """Whether these are the rows of a tree, and a tail over it, that lies as a forest's do."""
        under = self.forest
        return isinstance(under, Forest) and under.grouping.is_laid_as(forest.grouping)

    def root_in(self, forest: Forest, sink: Sink) -> Address:
        """The root of the tree that the rows make in a forest; what is new of it goes to a sink."""
        if not isinstance(self.forest, Forest) or not self.lies_in(forest):
            return self.build_in(forest, sink)
        return self.root if self.tail is None else self.forest.edit(self.root, self.tail, sink)

    def build_in(self, forest: Forest, sink: Sink) -> Address:
        """The same, built of all rows, whatever they lie in."""
        names = [column.name for column in self.schema.stored_columns]
        return forest.build((batch.columns for batch in self.batches(names)), sink)
