"""Forests whose rows are computed as they are read: mapped from another, or stored in part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.tables.batches import large_batches
from livingdb.tables.row_projection import NullValue, RowProjection
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta, merge_deltas
from livingdb.trees.forest import Grouping
from livingdb.trees.keys import KeyArray
from livingdb.trees.scan import ALL, Span, ZoneFilter
from livingdb.trees.shape import Shape

__all__ = ["MappedForest", "PartialForest", "Piece", "VirtualForest"]


class VirtualForest(ABC):
    """Read as a forest is.  Its roots name nothing that is stored: it cannot be edited."""

    grouping: Grouping

    @property
    def shape(self) -> Shape:
        """The shape of whole rows."""
        return self.grouping.row_shape

    @abstractmethod
    def scan(
        self,
        root: Address,
        positions: Sequence[int] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
        changes: Delta | None = None,
        keep: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """Batches of the columns asked for, in key order, with the changes made."""

    @abstractmethod
    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""

    @abstractmethod
    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""

    def get(self, root: Address, key: Any, positions: Sequence[int]) -> list[Any] | None:
        """One row as Arrow scalars; None if there is none."""
        one = np.array([key], dtype=object if isinstance(key, bytes) else None)
        found, columns = self.seek_many(root, one, positions)
        return [column[0] for column in columns] if found[0] else None

    @abstractmethod
    def count_rows(self, root: Address) -> int:
        """How many rows there are."""

    @abstractmethod
    def split(self, root: Address, parts: int) -> list[Span]:
        """Ranges of keys that hold about equally many rows."""


class MappedForest(VirtualForest):
    """Reads go to the source's rows and through a projection, which keeps keys as they are."""

    def __init__(
        self, source: RowSet, schema: TableSchema, grouping: Grouping, projection: RowProjection
    ):
        self.source = source
        self.schema = schema
        self.grouping = grouping
        self.projection = projection
        self._names = [column.name for column in schema.stored_columns]

    def _chosen(self, positions: Sequence[int]) -> tuple[list[str], list[str]]:
        """The columns at these positions, and those of the source that are read for them."""
        names = [self._names[at] for at in positions]
        return names, self.projection.reads(names) or list(self.source.schema.key[:1])

    def scan(
        self,
        root: Address,
        positions: Sequence[int] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
        changes: Delta | None = None,
        keep: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """Batches of the columns asked for, in key order, with the changes made."""
        chosen = list(range(len(self._names)) if positions is None else positions)
        rest = None if changes is None else _delta_within(changes, span)
        keys = [] if rest is None else list(range(self.shape.key_count))
        wanted = [*keys, *(at for at in dict.fromkeys(chosen) if at not in keys)]
        places = [wanted.index(at) for at in chosen]
        names, reads = self._chosen(wanted)
        passed = 0
        for batch in large_batches(self.source.batches(reads, span)):
            given = dict(zip(reads, batch.columns, strict=True))
            try:
                _, columns = self.projection.map_rows(given, len(batch), names)
            except NullValue as error:
                raise error.at_key(self._key_at(span, passed + error.row)) from None
            passed += len(batch)
            if rest is not None and len(columns[0]):
                columns, rest = self._overlay(columns, rest, wanted)
            if len(columns[0]):
                yield [columns[at] for at in places]
        if rest is not None and len(rest):
            empty = [pa.array([], self.grouping.types[at]) for at in wanted]
            _, columns = rest.apply(rest.keys[:0], empty, wanted)
            if len(columns[0]):
                yield [columns[at] for at in places]

    def _key_at(self, span: Span, row: int) -> str:
        """The key of a row of the source, to be shown."""
        for batch in self.source.batches(self.source.schema.key, span):
            if row < len(batch):
                return _shown_key(batch.slice(row, 1).columns)
            row -= len(batch)
        raise AssertionError("the source has fewer rows than were read of it")

    def _overlay(
        self, columns: list[pa.Array], rest: Delta, positions: Sequence[int]
    ) -> tuple[list[pa.Array], Delta]:
        """A batch with the changes up to its last key made, and the changes that are left."""
        keys = self.shape.codec.encode(columns[: self.shape.key_count])
        upto = int(np.searchsorted(rest.keys, keys[-1], side="right"))
        if upto:
            _, columns = rest.slice(0, upto).apply(keys, columns, positions)
        return columns, rest.slice(upto, len(rest))

    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""
        names, reads = self._chosen(positions)
        found, arrays = self.source.lookup(keys, reads)
        if not len(arrays[0]):
            return found, [pa.array([], self.grouping.types[at]) for at in positions]
        given = dict(zip(reads, arrays, strict=True))
        try:
            kept, columns = self.projection.map_rows(given, len(arrays[0]), names)
        except NullValue as error:
            one = keys[found][error.row : error.row + 1]
            _, key = self.source.lookup(one, list(self.source.schema.key))
            raise error.at_key(_shown_key(key)) from None
        if kept is not None:
            found = found.copy()
            found[found] = kept
        return found, columns

    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""
        if not self.projection.drops:
            return self.source.contains(keys)
        return self.seek_many(root, keys, [])[0]

    def count_rows(self, root: Address) -> int:
        """How many rows there are."""
        if not self.projection.drops:
            return self.source.count()
        return sum(len(arrays[0]) for arrays in self.scan(root, [0]))

    def split(self, root: Address, parts: int) -> list[Span]:
        """Ranges of keys that hold about equally many rows of the source."""
        return self.source.forest.split(self.source.root, parts)


def _shown_key(columns: Sequence[pa.Array]) -> str:
    values = tuple(column[0].as_py() for column in columns)
    return repr(values[0] if len(values) == 1 else values)


def _delta_within(changes: Delta, span: Span) -> Delta:
    start, stop = span.rows(changes.keys)
    return changes.slice(start, stop)


Piece = tuple[Sequence[Span], Sequence[ZoneFilter]]
"""Where rows may lie: in one of the ranges of keys, if they pass the filters."""


class PartialForest(VirtualForest):
    """The stored rows, and with them the rest where it is needed.

    `rest` finds the other rows; all of them lie in one of the `pieces`, so that a read that meets
    none of these is answered by what is stored.
    """

    def __init__(self, stored: RowSet, rest: Callable[[], Delta], pieces: Sequence[Piece]):
        self.stored = stored
        self.grouping = stored.forest.grouping
        self._rest = rest
        self._pieces = pieces

    @property
    def all_rows(self) -> RowSet:
        """All rows: those stored with the rest over them."""
        rest, tail = self._rest(), self.stored.tail
        return replace(self.stored, tail=rest if tail is None else merge_deltas([tail, rest]))

    def is_stored(self, span: Span, filters: Sequence[ZoneFilter]) -> bool:
        """Whether all rows of a read are stored."""
        return not any(_meets(piece, span, filters) for piece in self._pieces)

    def scan(
        self,
        root: Address,
        positions: Sequence[int] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
        changes: Delta | None = None,
        keep: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """Batches of the columns asked for, in key order, with the changes made."""
        rows = self.stored if self.is_stored(span, filters) else self.all_rows
        made = [part for part in (rows.tail, changes) if part is not None]
        tail = merge_deltas(made) if made else None
        return rows.forest.scan(rows.root, positions, span, filters, tail, keep)

    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""
        names = [self.stored.schema.stored_columns[position].name for position in positions]
        found, columns = self.stored.lookup(keys, names)
        return (found, columns) if found.all() else self.all_rows.lookup(keys, names)

    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""
        found = self.stored.contains(keys)
        return found if found.all() else self.all_rows.contains(keys)

    def count_rows(self, root: Address) -> int:
        """How many rows there are."""
        return self.all_rows.count()

    def split(self, root: Address, parts: int) -> list[Span]:
        """Ranges of keys that hold about equally many of the stored rows."""
        return self.stored.forest.split(self.stored.root, parts)


def _meets(piece: Piece, span: Span, filters: Sequence[ZoneFilter]) -> bool:
    spans, limits = piece
    if all(span.intersection(other).is_empty for other in spans):
        return False
    return all(
        one.meets(other) for one in filters for other in limits if one.position == other.position
    )
