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
from livingdb.tables.batches import flat, large_batches
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta, merge_deltas
from livingdb.trees.forest import Grouping
from livingdb.trees.keys import KeyArray, member
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


Function = Callable[[pa.Table], pa.Table]


class MappedForest(VirtualForest):
    """Reads go to the source's rows and through the function.

    `drops` says whether the function may leave rows out.
    """

    def __init__(
        self,
        source: RowSet,
        schema: TableSchema,
        grouping: Grouping,
        function: Function,
        drops: bool,
        reads: Sequence[str] | None = None,
    ):
        self.source = source
        self.schema = schema
        self.grouping = grouping
        self.drops = drops
        self._names = list(reads) if reads is not None else source.schema.whole.names
        self._function = function

    def _map_batch(self, batch: pa.RecordBatch) -> tuple[KeyArray, list[pa.Array]]:
        """Keys and stored columns of what rows of the source become."""
        made = self._function(pa.Table.from_batches([batch]))
        columns = [flat(made.column(column.name)) for column in self.schema.stored_columns]
        return self.shape.keys(columns), columns

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
        whole = range(len(self.grouping.types))
        chosen = list(whole if positions is None else positions)
        rest = None if changes is None else _delta_within(changes, span)
        for batch in large_batches(self.source.batches(self._names, span)):
            keys, columns = self._map_batch(batch)
            if not len(keys):
                continue
            if rest is not None and len(rest):
                upto = int(np.searchsorted(rest.keys, keys[-1], side="right"))
                keys, columns = rest.slice(0, upto).apply(keys, columns)
                rest = rest.slice(upto, len(rest))
            if len(keys):
                yield [columns[at] for at in chosen]
        if rest is not None and len(rest):
            empty = [pa.array([], kind) for kind in self.grouping.types]
            keys, columns = rest.apply(rest.keys[:0], empty)
            if len(keys):
                yield [columns[at] for at in chosen]

    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""
        found, arrays = self.source.lookup(keys, self._names)
        batch = pa.RecordBatch.from_arrays(arrays, names=self._names)
        there, columns = self._map_batch(batch)
        if self.drops:
            found = member(keys, there)
        return found, [columns[at] for at in positions]

    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""
        if not self.drops:
            return self.source.contains(keys)
        return self.seek_many(root, keys, [0])[0]

    def count_rows(self, root: Address) -> int:
        """How many rows there are."""
        if not self.drops:
            return self.source.count()
        return sum(len(arrays[0]) for arrays in self.scan(root, [0]))

    def split(self, root: Address, parts: int) -> list[Span]:
        """Ranges of keys that hold about equally many rows of the source."""
        return self.source.forest.split(self.source.root, parts)


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
