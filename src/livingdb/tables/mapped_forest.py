"""Mapped rows: those of another version, seen through a function, as if they were a forest.

The function keeps keys and their order; it may leave rows out.  Nothing is stored: a read maps
what it reads, a point read one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.tables.batches import flat, large_batches
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.virtual_forest import VirtualForest
from livingdb.trees.changes import Delta
from livingdb.trees.forest import Grouping
from livingdb.trees.keys import KeyArray, member
from livingdb.trees.scan import ALL, Span, ZoneFilter

__all__ = ["MappedForest"]

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
        columns = [flat(made.column(column.name)) for column in self.schema.stored]
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
