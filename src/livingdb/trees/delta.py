"""Deltas: keyed upserts, patches and deletes, applied to sorted rows in bulk.

An *upsert* carries a whole row, a *patch* some columns of a row that exists (patching a row
that does not exist does nothing), a *delete* only the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import empty, taken_rows
from livingdb.trees.keys import KeyArray, align, concat_keys, search
from livingdb.trees.shape import Shape

__all__ = ["DELETE", "PATCH", "UPSERT", "Delta", "empty_delta", "merge_deltas", "upserts"]

UPSERT, PATCH, DELETE = 0, 1, 2
_LARGE_BYTES, _MOST_STRETCHES = 64 << 20, 1_024
_MANY = 4  # that are merged in one pass rather than two by two

Ops = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Delta:
    """Changes sorted by key, each key once.

    `columns` follows the shape; None stands for a column no row carries.  `present[i]`
    says which rows carry column i, None that every upsert and patch does.
    """

    shape: Shape
    keys: KeyArray
    ops: Ops
    columns: tuple[pa.Array | None, ...]
    present: tuple[Mask | None, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def with_columns(
        self,
        shape: Shape,
        columns: Sequence[pa.Array | None],
        present: Sequence[Mask | None],
    ) -> Delta:
        """The same operations on the rows of another table, whose keys are the same."""
        made = Delta(shape, self.keys, self.ops, tuple(columns), tuple(present))
        object.__setattr__(made, "counts", self.counts)
        return made

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """How many rows are upserted, patched and deleted."""
        upserted, patched, deleted = np.bincount(self.ops, minlength=3).tolist()
        return upserted, patched, deleted

    @cached_property
    def orders(self) -> dict[int, tuple[KeyArray, Positions]]:
        """The changes in the order of other columns, by position; kept for who has found them."""
        return {}

    @property
    def inserts_whole_rows(self) -> bool:
        """Whether all changes are upserts of rows in all their columns."""
        return not (
            self.counts[UPSERT] < len(self)
            or any(column is None for column in self.columns)
            or any(mask is not None and not mask.all() for mask in self.present)
        )

    def slice(self, start: int, stop: int) -> Delta:
        """A run of the changes."""
        if start == 0 and stop == len(self):
            return self
        return Delta(
            self.shape,
            self.keys[start:stop],
            self.ops[start:stop],
            tuple(None if c is None else c.slice(start, stop - start) for c in self.columns),
            tuple(None if p is None else p[start:stop] for p in self.present),
        )

    def select(self, rows: Positions) -> Delta:
        """Some of the changes."""
        if len(rows) == len(self):
            return self
        taken = taken_rows(rows)
        return Delta(
            self.shape,
            self.keys[rows],
            self.ops[rows],
            tuple(None if column is None else pc.take_at(column, taken) for column in self.columns),
            tuple(None if mask is None else mask[rows] for mask in self.present),
        )

    def presence(self, keys: KeyArray, before: Mask) -> Mask:
        """Which sorted keys have a row after the changes, given which had one before."""
        after = before.copy()
        if not len(self) or not len(keys):
            return after
        mine, keys = align(self.keys, keys)
        at = np.minimum(search(mine, keys), len(self) - 1)
        hit = mine[at] == keys
        ops = self.ops[at]
        after[hit & (ops == UPSERT)] = True
        after[hit & (ops == DELETE)] = False
        return after

    def between(self, lower: Any, upper: Any) -> Delta:
        """The changes with lower <= key < upper; None is no bound."""
        start = 0 if lower is None else int(self.keys.searchsorted(lower))
        stop = len(self) if upper is None else int(self.keys.searchsorted(upper))
        return self.slice(start, max(start, stop))

    def carries(self, position: int) -> Mask:
        """Which rows carry a value of the column."""
        if self.columns[position] is None:
            return np.zeros(len(self), bool)
        mask = self.present[position]
        carried: Mask = self.ops != DELETE
        return carried if mask is None else mask & carried

    @property
    def is_structural(self) -> bool:
        """Whether rows may appear or go, not only change in place."""
        return self.counts[PATCH] < len(self)

    def touches(self, positions: Sequence[int]) -> bool:
        """Whether any row carries one of these columns."""
        return any(bool(self.carries(position).any()) for position in positions)

    def apply(
        self, keys: KeyArray, columns: Sequence[pa.Array], positions: Sequence[int] | None = None
    ) -> tuple[KeyArray, list[pa.Array]]:
        """Rows with these changes made: sorted `keys` and their columns in, the same out.

        `positions` names the shape columns that `columns` holds; default all.
        """
        wanted = range(len(self.shape.types)) if positions is None else positions
        if self._patches_all(keys):
            return keys, [
                self._patched(column, at) for column, at in zip(columns, wanted, strict=True)
            ]
        plan = _Plan(keys, self)
        if plan.untouched:
            return keys, list(columns)
        merged = [
            plan.column(column, self, position)
            for column, position in zip(columns, wanted, strict=True)
        ]
        return plan.keys(keys, self.keys), merged

    def _patches_all(self, keys: KeyArray) -> bool:
        """Whether the changes are one patch of each of the rows with these keys."""
        is_patch = 0 < len(keys) == len(self) == self.counts[PATCH]
        return (
            is_patch
            and not any(mask is not None for mask in self.present)
            and (keys is self.keys or np.array_equal(keys, self.keys))
        )

    def _patched(self, column: pa.Array, position: int) -> pa.Array:
        """A column of rows each of which is patched."""
        fresh = self.columns[position]
        return column if fresh is None or position < self.shape.key_count else fresh


class _Plan:
    """Which row of rows-then-changes stands at each place of the result."""

    def __init__(self, keys: KeyArray, changes: Delta):
        self.rows = rows = len(keys)
        at = search(keys, changes.keys)
        if rows:
            old, new = align(keys, changes.keys)
            hit = (at < rows) & (old[np.minimum(at, rows - 1)] == new)
        else:
            hit = np.zeros(len(changes), bool)
        ops = changes.ops
        self.replaced = hit & (ops == UPSERT)
        self.patched = hit & (ops == PATCH)
        deleted = hit & (ops == DELETE)
        inserted = ~hit & (ops == UPSERT)
        self.at = at
        self.untouched = not (hit.any() or inserted.any())
        numbers = rows + np.arange(len(changes))
        order = np.arange(rows)
        order[at[self.replaced]] = numbers[self.replaced]
        order[at[deleted]] = -1
        self.order = order
        self.inserted = inserted if inserted.any() else None
        self.has_deletes = bool(deleted.any())
        self.numbers = numbers

    def _finish(self, order: Positions) -> Positions:
        if self.inserted is not None:
            order = np.insert(order, self.at[self.inserted], self.numbers[self.inserted])
        return order[order >= 0] if self.has_deletes else order

    def keys(self, keys: KeyArray, new: KeyArray) -> KeyArray:
        """The keys of the result."""
        if self.inserted is None and not self.has_deletes:
            return keys
        old, new = align(keys, new)
        joined: KeyArray = np.concatenate([old, new])[self._finish(self.order)]
        return joined

    def column(self, column: pa.Array, changes: Delta, position: int) -> pa.Array:
        """One column of the result."""
        order = self.order
        fresh = changes.columns[position]
        if self.patched.any():
            moved = self.patched & changes.carries(position)
            if position >= changes.shape.key_count and moved.any():
                order = order.copy()
                order[self.at[moved]] = self.numbers[moved]
        if fresh is None:
            return (
                pc.take_at(column, taken_rows(self._finish(order))) if self.has_deletes else column
            )
        in_place = self.inserted is None and not self.has_deletes
        if in_place and order is self.order and not self.replaced.any():
            return column
        return _gather(column, fresh, self._finish(order))


def _gather(column: pa.Array, fresh: pa.Array, order: Positions) -> pa.Array:
    """The values at these places of one array and another after it.

    Large ones are joined from stretches where those are few, since both together would be one
    more copy of all.
    """
    rows = len(column)
    starts = None
    if len(order) and column.nbytes + fresh.nbytes >= _LARGE_BYTES:
        leaps = (np.diff(order) != 1) | (order[1:] == rows)
        starts = np.concatenate([[0], np.flatnonzero(leaps) + 1])
    if starts is None or len(starts) > _MOST_STRETCHES:
        return pc.take_at(pa.concat_arrays([column, fresh]), taken_rows(order))
    lengths = np.diff(starts, append=len(order))
    stretches = [
        column.slice(at, length) if at < rows else fresh.slice(at - rows, length)
        for at, length in zip(order[starts].tolist(), lengths.tolist(), strict=True)
    ]
    return stretches[0] if len(stretches) == 1 else pa.concat_arrays(stretches)


def upserts(shape: Shape, columns: Sequence[pa.Array], keys: KeyArray | None = None) -> Delta:
    """Changes that upsert these sorted rows."""
    keys = shape.keys(columns) if keys is None else keys
    ops = np.zeros(len(keys), np.int8)
    return Delta(shape, keys, ops, tuple(columns), (None,) * len(columns))


def empty_delta(shape: Shape) -> Delta:
    """Nothing to change."""
    return upserts(shape, [empty(data_type) for data_type in shape.types])


def merge_deltas(parts: Sequence[Delta]) -> Delta:
    """One set of changes with the effect of all, the first first."""
    assert parts
    held = [part for part in parts if len(part)] or parts[:1]
    return reduce(_merge, held) if len(held) < _MANY else _merge_many(held)


def _merge_many(parts: Sequence[Delta]) -> Delta:
    """The same for many, in one pass: of each key and column what was said of it last."""
    shape = parts[0].shape
    keys = concat_keys([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    keys, ops = keys[order], np.concatenate([part.ops for part in parts])[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
    places = np.arange(len(keys))
    # What was said of a key before it was upserted or deleted counts no more.
    whole = np.maximum.reduceat(np.where(ops != PATCH, places, -1), starts)
    last = np.append(starts[1:], len(keys)) - 1
    result = np.where(whole < 0, PATCH, ops[whole]).astype(np.int8)
    is_current = places >= whole[group]
    columns: list[pa.Array | None] = []
    present: list[Mask | None] = []
    for position, data_type in enumerate(shape.types):
        if all(part.columns[position] is None for part in parts):
            columns.append(None)
            present.append(None)
            continue
        given = [part.columns[position] for part in parts]
        filled = [
            pa.nulls(len(part), data_type) if column is None else column
            for part, column in zip(parts, given, strict=True)
        ]
        joined, mask = pa.concat_arrays(filled), None
        if position < shape.key_count:
            chosen = taken_rows(order[last])
        else:
            carries = np.concatenate([part.carries(position) for part in parts])[order]
            found = np.maximum.reduceat(np.where(carries & is_current, places, -1), starts)
            carried = (found >= 0) & (result != DELETE)
            chosen = taken_rows(order[found], ~carried)
            if not carried[result != DELETE].all():
                mask = carried
        columns.append(pc.take_at(joined, chosen))
        present.append(mask)
    return Delta(shape, keys[starts], result, tuple(columns), tuple(present))


def _merge(older: Delta, newer: Delta) -> Delta:
    if not len(older):
        return newer
    if not len(newer):
        return older
    size = len(older)
    old_keys, new_keys = align(older.keys, newer.keys)
    at = search(old_keys, new_keys)
    hit = (at < size) & (old_keys[np.minimum(at, size - 1)] == new_keys)
    numbers = size + np.arange(len(newer))
    over = hit & (newer.ops == PATCH)
    base = np.arange(size)
    base[at[hit]] = numbers[hit]
    fresh = ~hit

    def arrange(order: Positions) -> Positions:
        return np.insert(order, at[fresh], numbers[fresh])

    ops = np.concatenate([older.ops, newer.ops])[base]
    ops[at[over]] = older.ops[at[over]]
    ops = np.insert(ops, at[fresh], newer.ops[fresh])
    whole = _Order(arrange(base), size)
    keys = np.concatenate([old_keys, new_keys])[whole.rows]
    columns: list[pa.Array | None] = []
    present: list[Mask | None] = []
    has_patches = bool(over.any())
    for position in range(len(older.columns)):
        order = whole
        if has_patches and position >= older.shape.key_count:
            rows = base.copy()
            kept = over & ~newer.carries(position)
            rows[at[kept]] = at[kept]
            order = _Order(arrange(rows), size)
        column, mask = _merge_column(older, newer, position, order)
        columns.append(column)
        present.append(mask)
    return Delta(older.shape, keys, ops, tuple(columns), tuple(present))


def _is_carried_throughout(changes: Delta, position: int) -> bool:
    """Whether every upsert and patch carries the column."""
    if changes.columns[position] is None:
        return bool((changes.ops == DELETE).all())
    return changes.present[position] is None


class _Order:
    """Which row of two columns, one after the other, stands at each place of the result."""

    def __init__(self, rows: Positions, size: int):
        self.rows, self._size = rows, size

    @cached_property
    def _of_both(self) -> pa.Array:
        return taken_rows(self.rows)

    @cached_property
    def _of_first(self) -> pa.Array:
        return taken_rows(self.rows, self.rows >= self._size)

    @cached_property
    def _of_second(self) -> pa.Array:
        return taken_rows(self.rows - self._size, self.rows < self._size)

    def take(self, first: pa.Array | None, second: pa.Array | None) -> pa.Array:
        """The rows; null where they are those of a column that is not there."""
        if second is None:
            assert first is not None
            return pc.take_at(first, self._of_first)
        if first is None:
            return pc.take_at(second, self._of_second)
        return pc.take_at(pa.concat_arrays([first, second]), self._of_both)


def _merge_column(
    older: Delta, newer: Delta, position: int, order: _Order
) -> tuple[pa.Array | None, Mask | None]:
    """One column of two merged changes, rows in this order, and who carries it."""
    first, second = older.columns[position], newer.columns[position]
    if first is None and second is None:
        return None, None
    everywhere = _is_carried_throughout(older, position) and _is_carried_throughout(newer, position)
    column = order.take(first, second)
    if everywhere or position < older.shape.key_count:
        return column, None
    carried = np.concatenate([older.carries(position), newer.carries(position)])
    return column, carried[order.rows]
