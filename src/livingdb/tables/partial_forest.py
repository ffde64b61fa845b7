"""Rows of which a part is stored, and the rest is found when somebody reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.tables.rows import RowSet
from livingdb.tables.virtual_forest import VirtualForest
from livingdb.trees.changes import Delta, merge_deltas
from livingdb.trees.keys import KeyArray
from livingdb.trees.scan import ALL, Span, ZoneFilter

__all__ = ["PartialForest", "Piece"]

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
    def whole(self) -> RowSet:
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
        rows = self.stored if self.is_stored(span, filters) else self.whole
        made = [part for part in (rows.tail, changes) if part is not None]
        tail = merge_deltas(made) if made else None
        return rows.forest.scan(rows.root, positions, span, filters, tail, keep)

    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""
        names = [self.stored.schema.stored[position].name for position in positions]
        found, columns = self.stored.lookup(keys, names)
        return (found, columns) if found.all() else self.whole.lookup(keys, names)

    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""
        found = self.stored.contains(keys)
        return found if found.all() else self.whole.contains(keys)

    def count_rows(self, root: Address) -> int:
        """How many rows there are."""
        return self.whole.count()

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
