"""Lenses of Normalize: the old side is wide, the new one narrow with a lookup table.

The lookup table is made by the change, or was there before and is on both sides.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.keyed_lookup import KeyedLookups
from livingdb.evolution.lenses.lens import (
    Expected,
    Follower,
    Lens,
    RowMap,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.lookup_lens import Lookups
from livingdb.evolution.lenses.row_alignment import empty_rows
from livingdb.evolution.lenses.shared_lookup import SharedLookups
from livingdb.evolution.lenses.table_parts import rows_of, verdicts
from livingdb.evolution.schema_change import Schemas
from livingdb.tables.batches import large_batches
from livingdb.tables.row_hash import encoded_rows, row_ids
from livingdb.tables.row_projection import ProjectionStep

__all__ = ["LookupTableLens", "NormalizeByLens", "NormalizeIntoLens", "NormalizeLens"]


class LookupTableLens(Lens):
    """A wide table on the old side, a narrow one with a lookup table on the new one."""

    def __init__(self, old: Schemas, new: Schemas, lookups: Lookups):
        self.old, self.new, self.lookups = old, new, lookups

    def directions(self) -> Verdicts:
        return verdicts()

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        narrow, lookup = self.lookups.narrow[0], self.lookups.lookup[0]
        return {narrow: self._narrow(old), lookup: self._lookup(old)}

    @abstractmethod
    def _narrow(self, old: Side) -> Iterator[pa.RecordBatch]:
        """The rows of the narrow table."""

    @abstractmethod
    def _lookup(self, old: Side) -> Iterator[pa.RecordBatch]:
        """The rows of the lookup table."""

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        lookups = self.lookups
        is_moved = table == lookups.lookup[0] or column in lookups.moved
        return [((lookups.lookup if is_moved else lookups.narrow)[0], column)]

    @property
    def settles(self) -> bool:
        return self.lookups.settles

    def settle_old(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.lookups.settle_wide(deltas, old, new)

    def settle_new(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.lookups.settle_narrow(deltas, new)

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        return self.lookups.expected_narrow(old, new)

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Lookup rows that wide rows needed, and may not refer to any more."""
        return np.full(rows.num_rows, is_new and table == self.lookups.lookup[0])

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.lookups.put_narrow(deltas, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.lookups.put_wide(deltas, new, old)


class NormalizeLens(LookupTableLens):
    """The lookup table is made by the change."""

    def row_map(self, name: str) -> RowMap | None:
        lookups = self.lookups
        if name != lookups.narrow[0]:
            return None
        return RowMap(lookups.wide[0], lookups.narrow_step())

    def follower(self, table: str, is_right: bool) -> Follower | None:
        """What a row has beside the lookup is the same on both sides, while the row is there.

        So is a new row that refers to nothing.
        """
        lookups = self.lookups
        if is_right:
            return Follower(lookups.narrow[0], None, frozenset(lookups.moved))
        if table != lookups.narrow[0]:
            return None
        reference = frozenset([lookups.reference])
        return Follower(lookups.wide[0], self._blank_rows, reference, blank=reference)

    def _blank_rows(self, rows: pa.Table) -> pa.Table:
        """What narrow rows that refer to nothing are as wide ones, in the columns that moved."""
        columns = [self.lookups.wide[1].column(moved) for moved in self.lookups.moved]
        if not all(column.nullable for column in columns):  # which is refused
            return self.lookups.wide_rows(rows, empty_rows(self.lookups.lookup[1]))
        arrays = [pa.nulls(rows.num_rows, column.type) for column in columns]
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns])

    def _narrow(self, old: Side) -> Iterator[pa.RecordBatch]:
        name, schema = self.lookups.wide
        for batch in old.scan(name):
            yield from self.lookups.new_narrow_rows(rows_of(schema, batch)).to_batches()

    def _lookup(self, old: Side) -> Iterator[pa.RecordBatch]:
        """The rows of the lookup table, each when its values are first seen."""
        seen, proofs = np.empty(0, np.int64), np.empty(0, np.int64)
        for batch in large_batches(old.scan(self.lookups.wide[0], self.lookups.moved)):
            rows = self.lookups.new_lookup_rows(pa.Table.from_batches([batch]))
            ids = rows.column(0).to_numpy()
            proof = row_ids(encoded_rows(self.lookups.values(rows)), 1)
            at = np.searchsorted(seen, ids)
            fresh = ~np.isin(ids, seen, assume_unique=True)
            if (np.diff(ids) == 0).any() or (proofs[at[~fresh]] != proof[~fresh]).any():
                raise InvalidData(f"different rows of {self.lookups.lookup[0]!r} have one hash")
            seen = np.insert(seen, at[fresh], ids[fresh])
            proofs = np.insert(proofs, at[fresh], proof[fresh])
            yield from rows.filter(pa.array(fresh)).to_batches()


class NormalizeIntoLens(LookupTableLens):
    """The lookup table is on both sides, and has more rows on the new one."""

    def __init__(self, old: Schemas, new: Schemas, lookups: SharedLookups):
        super().__init__(old, new, lookups)
        self.shared = lookups

    def _narrow(self, old: Side) -> Iterator[pa.RecordBatch]:
        yield from self.shared.create_rows(old)[0].to_batches()

    def _lookup(self, old: Side) -> Iterator[pa.RecordBatch]:
        yield from old.scan(self.lookups.lookup[0])
        yield from self.shared.create_rows(old)[1].to_batches()


class NormalizeByLens(NormalizeIntoLens):
    """The same, where a column of the table holds the key of the lookup table."""

    def __init__(self, old: Schemas, new: Schemas, lookups: KeyedLookups):
        super().__init__(old, new, lookups)
        self.keyed = lookups

    def row_map(self, name: str) -> RowMap | None:
        lookups = self.keyed
        if name != lookups.narrow[0]:
            return None
        same = {column.name: column.name for column in lookups.narrow[1].columns}
        return RowMap(lookups.wide[0], ProjectionStep(same))

    def scan_reason(self) -> str | None:
        lookups = self.keyed
        return (
            f"rows of {lookups.wide[0]!r} with one {lookups.reference!r} must have the same "
            f"{', '.join(lookups.moved)}, which are those of {lookups.lookup[0]!r} where it has one"
        )

    def check(self, old: Side) -> None:
        self.keyed.check_wide(old)
