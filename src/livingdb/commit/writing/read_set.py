"""What a serializable transaction has read: keys and key ranges per table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import TransactionConflict
from livingdb.graph.diff import changed_keys
from livingdb.graph.dropped import dropped_since
from livingdb.tables.rows import RowSet
from livingdb.trees.keys import KeyArray, member
from livingdb.trees.scan import ALL, Span, ZoneFilter

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["ReadSet", "TrackedRows"]


@dataclass
class ReadSet:
    """Ranges of keys read, by table; keys read one by one are kept as arrays."""

    spans: dict[str, list[Span]] = field(default_factory=dict)
    keys: dict[str, list[KeyArray]] = field(default_factory=dict)

    def add_range(self, table: str, span: Span) -> None:
        """A range was read."""
        known = self.spans.setdefault(table, [])
        if span not in known:
            known.append(span)

    def add_keys(self, table: str, keys: KeyArray) -> None:
        """Keys were looked up."""
        self.keys.setdefault(table, []).append(keys)

    def check(self, graph: Graph, base: SnapshotRow, head: SnapshotRow) -> None:
        """`TransactionConflict` if something read has changed between two snapshots."""
        for table in {*self.spans, *self.keys}:
            old, new = graph.find_version(base, table), graph.find_version(head, table)
            gone = None if old is None else dropped_since(graph, table, base, head)
            if gone is not None:
                raise TransactionConflict(f"{gone}, and this serializable transaction read it")
            if old is not None and new is not None and old.address == new.address:
                continue
            if old is None or new is None or old.definition != new.definition:
                raise _conflict(table)
            changed = changed_keys(graph.versions, old, new)
            for span in self.spans.get(table, ()):
                start, stop = span.rows(changed)
                if stop > start:
                    raise _conflict(table)
            for keys in self.keys.get(table, ()):
                if member(keys, changed).any():
                    raise _conflict(table)


def _conflict(table: str) -> TransactionConflict:
    return TransactionConflict(
        f"table {table!r}: rows this serializable transaction read were changed meanwhile; "
        "try again"
    )


@dataclass(frozen=True)
class TrackedRows(RowSet):
    """Rows that remember what was read of them."""

    table: str = ""
    reads: ReadSet = field(default_factory=ReadSet)

    @property
    def is_indexable(self) -> bool:
        """Not these: a row that comes to hold what was looked for is among those read."""
        return False

    def batches(
        self,
        columns: Sequence[str] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
    ) -> Iterator[pa.RecordBatch]:
        """See `RowSet.batches`."""
        self.reads.add_range(self.table, span)
        return super().batches(columns, span, filters)

    def get(self, *key: object) -> dict[str, Any] | None:
        """See `RowSet.get`."""
        self.reads.add_keys(self.table, np.array([self._encode_key(key)]))
        return super().get(*key)

    def lookup(
        self, keys: KeyArray, columns: Sequence[str] | None = None
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """See `RowSet.lookup`."""
        self.reads.add_keys(self.table, keys)
        return super().lookup(keys, columns)

    def contains(self, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """See `RowSet.contains`."""
        self.reads.add_keys(self.table, keys)
        return super().contains(keys)

    def count(self) -> int:
        """See `RowSet.count`."""
        self.reads.add_range(self.table, ALL)
        return super().count()
