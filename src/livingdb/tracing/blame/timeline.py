"""Timelines: what happened to rows over a chain of changes, all at once.

The deltas of the chain are laid side by side, sorted by key and age.  A column's value after
any change is that of the last entry that carries it, found for all entries by one running
maximum; a change is real where the row before and after it differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.tables.index import Version
from livingdb.tables.versions import Versions
from livingdb.trees.compare import differs
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.diff import DELETED, INSERTED, UPDATED
from livingdb.trees.keys import KeyArray, concat_keys, member, search, union_keys

__all__ = ["Timeline", "timeline"]

_BASE = 3

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Timeline:
    """The real changes of a chain, sorted by key and then by age.

    `step` says which version of the chain made the change (0: the oldest).  `cells[i]` says
    which of the changes gave the column at the i-th position another value.
    """

    keys: KeyArray
    step: Numbers
    kinds: npt.NDArray[np.int8]
    cells: list[Mask]
    after: list[pa.Array]


def timeline(
    versions: Versions,
    chain: Sequence[Version],
    keys: KeyArray | None,
    positions: Sequence[int] | None = None,
) -> Timeline:
    """What a chain of versions, each the base of the next, did to the rows with these keys.

    The first version is where the chain starts; it changes nothing itself.  Of columns at some
    `positions` alone it costs as much as these.
    """
    base, *changed = chain
    deltas = [versions.delta(version) for version in changed]
    if keys is not None:
        deltas = [_restrict_delta(delta, keys) for delta in deltas]
    return _Entries(versions, base, deltas, positions).timeline()


def _restrict_delta(delta: Delta, keys: KeyArray) -> Delta:
    return delta.select(np.flatnonzero(member(delta.keys, keys)))


class _Entries:
    """Base rows and delta rows, sorted by key and age."""

    def __init__(
        self,
        versions: Versions,
        base: Version,
        deltas: Sequence[Delta],
        positions: Sequence[int] | None,
    ):
        rows = versions.rows(base)
        shape = rows.forest.shape
        self.types = shape.types
        self.key_count = shape.key_count
        stored = rows.schema.stored_columns
        self.positions = range(len(stored)) if positions is None else positions
        names = [stored[position].name for position in self.positions]
        parts = [delta.keys for delta in deltas]
        self.unique = unique = union_keys(parts)
        found, columns = rows.lookup(unique, names)
        places = pa.array(np.cumsum(found) - 1, mask=~found)
        groups = search(unique, concat_keys([unique, *parts]))
        ages = np.concatenate(
            [np.full(len(unique), -1), *(np.full(len(d), at) for at, d in enumerate(deltas))]
        )
        self.order = order = np.lexsort((ages, groups))
        self.groups, self.ages = groups[order], ages[order]
        ops = np.concatenate(
            [np.where(found, UPSERT, DELETE), *(delta.ops for delta in deltas)]
        ).astype(np.int8)
        self.ops = ops[order]
        self.is_base = self.ages < 0
        held = (column.take(places) for column in columns)
        self.columns = dict(zip(self.positions, held, strict=True))
        self.deltas = deltas

    def timeline(self) -> Timeline:
        """The changes that are real."""
        numbers = np.arange(len(self.order))
        solid = self.ops != PATCH
        last = np.maximum.accumulate(np.where(solid, numbers, 0))
        present = self.ops[last] == UPSERT
        before = np.maximum(numbers - 1, 0)
        was = present[before]
        both = ~self.is_base & present & was
        changed = ~self.is_base & (present != was)
        cells: list[Mask] = []
        values: list[tuple[pa.Array, Numbers]] = []
        for position in self.positions:
            column, source = self._column(position, solid, present, numbers)
            mask = np.zeros(len(numbers), bool)
            moved = np.flatnonzero(both & (source != source[before]))
            if len(moved) and position >= self.key_count:
                new = column.take(pa.array(self.order[source[moved]]))
                old = column.take(pa.array(self.order[source[before[moved]]]))
                mask[moved] = differs(new, old)
            changed |= mask
            cells.append(mask)
            values.append((column, source))
        rows = np.flatnonzero(changed)
        kinds = np.where(~was, INSERTED, np.where(present, UPDATED, DELETED)).astype(np.int8)
        after = [column.take(pa.array(self.order[source[rows]])) for column, source in values]
        is_new = kinds[rows] != UPDATED
        return Timeline(
            self.unique[self.groups[rows]],
            self.ages[rows],
            kinds[rows],
            [mask[rows] | is_new for mask in cells],
            after,
        )

    def _column(
        self, position: int, solid: Mask, present: Mask, numbers: Numbers
    ) -> tuple[pa.Array, Numbers]:
        """All values of a column as they lie, and for each entry which entry's value holds."""
        parts = [self.columns[position]]
        carried = [np.zeros(len(self.unique), bool)]
        for delta in self.deltas:
            column = delta.columns[position]
            parts.append(pa.nulls(len(delta), self.types[position]) if column is None else column)
            carried.append(delta.carries(position))
        patched = np.concatenate(carried)[self.order] & present
        carrier = solid | patched | (position < self.key_count)
        return pa.concat_arrays(parts), np.maximum.accumulate(np.where(carrier, numbers, 0))
