"""Changes of groups by their keys: the rows before and after, side by side in the order of keys.

What is known by key needs no search: weighted rows are told from it, and so is the delta of the
table that holds the groups, and of a table that shows some of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.arrow_values import as_mask, as_numbers, taken_rows
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.row_numbers import row_numbers
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Counts
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.keys import KeyArray
from livingdb.trees.shape import Shape

__all__ = [
    "EncodedKeys",
    "KeyedChange",
    "TouchedGroups",
    "is_exact",
    "keyed_change",
    "touched_groups",
]

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
Operations = npt.NDArray[np.int8]


@dataclass(frozen=True)
class EncodedKeys:
    """Keys as a table encodes them, and the columns that they are of, in their order."""

    keys: KeyArray
    names: tuple[str, ...]
    shape: Shape
    operations: Operations | None = None
    """What becomes of the rows of these keys, once that is known."""

    def fits(self, names: tuple[str, ...], shape: Shape) -> bool:
        """Whether a table encodes keys of these columns in the same way."""
        mine, other = self.shape.codec, shape.codec
        return names == self.names and (mine.types, mine.nullable) == (other.types, other.nullable)


@dataclass(frozen=True)
class TouchedGroups:
    """The groups that rows are of, numbered, beside what is held of them.

    `first` is a row of each group, `groups` the group of each row.  `held` are the rows held, in
    the order of the groups that `was` says are there.  `encoded` are the keys of all groups, in
    their order, where a table has them.
    """

    first: Positions
    groups: Positions
    was: Mask
    held: pa.Table
    encoded: EncodedKeys | None = None


def touched_groups(keys: pa.Table, held: pa.Table) -> TouchedGroups:
    """The groups of rows by their keys, where the rows that are held are of these and no others."""
    columns = [(name, held.schema.field(name).type) for name in keys.column_names]
    mine = pa.Table.from_arrays(
        [keys.column(name).cast(kind) for name, kind in columns], names=keys.column_names
    )
    theirs = pa.Table.from_arrays(
        [held.column(name) for name in keys.column_names], names=keys.column_names
    )
    numbers = row_numbers(pa.concat_tables([mine, theirs]))
    _, first, groups = np.unique(numbers[: keys.num_rows], return_index=True, return_inverse=True)
    order = np.argsort(numbers[keys.num_rows :], kind="stable")
    was = np.isin(numbers[first], numbers[keys.num_rows :])
    return TouchedGroups(first, groups, was, held.take(taken_rows(order)))


def is_exact(schema: pa.Schema) -> bool:
    """Whether values of all columns are equal only if they are the same."""
    return not any(pa.types.is_floating(kind) or pa.types.is_nested(kind) for kind in schema.types)


def keyed_change(rows: pa.Table, encoded: EncodedKeys) -> KeyedChange | None:
    """Weighted rows with these keys, by key; None if more than one comes or goes for a key."""
    weights = as_numbers(flat(rows.column(WEIGHT)))
    keys, first, places = np.unique(encoded.keys, return_index=True, return_inverse=True)
    sides = []
    for sign in (-1, 1):
        some = np.flatnonzero(weights == sign)
        at = np.full(len(keys), -1, np.int64)
        at[places[some]] = some
        if np.count_nonzero(at >= 0) < len(some):
            return None
        sides.append(at)
    (old, was), (new, stays) = ((at, at >= 0) for at in sides)
    if int(was.sum() + stays.sum()) < len(weights):  # some weigh more
        return None
    plain = rows.drop_columns([WEIGHT])
    # Whatever is missing after the change is told by its key.
    after = plain.take(taken_rows(np.where(stays, new, first)))
    before = plain.take(taken_rows(old, ~was))
    return KeyedChange(
        was, stays, before, after, EncodedKeys(keys, encoded.names, encoded.shape)
    ).without_same()


@dataclass(frozen=True)
class KeyedChange:
    """Rows by key, before and after; `was` and `stays` say where there is one.

    Both tables have the key columns of all keys in `new`, and columns of exact types only.
    """

    was: Mask
    stays: Mask
    old: pa.Table
    new: pa.Table
    encoded: EncodedKeys | None = None

    @property
    def num_rows(self) -> int:
        """How many keys there are."""
        return len(self.was)

    @cached_property
    def weighted_rows(self) -> pa.Table:
        """The rows that go and come, each with its weight."""
        gone, come = np.flatnonzero(self.was), np.flatnonzero(self.stays)
        weights = np.concatenate([np.full(len(gone), -1), np.ones(len(come), np.int64)])
        both = pa.concat_tables([self.old.take(taken_rows(gone)), self.new.take(taken_rows(come))])
        return both.append_column(WEIGHT, pa.array(weights))

    @cached_property
    def _operations(self) -> Operations:
        """The operations of the changes: the same ones for all tables that they are made of."""
        if self.encoded is not None and self.encoded.operations is not None:
            return self.encoded.operations
        return np.where(self.stays, UPSERT, DELETE).astype(np.int8)

    def without_same(self) -> KeyedChange:
        """Only the keys whose rows differ."""
        same = self.was & self.stays
        for name in self.new.column_names:
            if not same.any():
                return self
            same &= _are_equal(flat(self.old.column(name)), flat(self.new.column(name)))
        if not same.any():
            return self
        left = np.flatnonzero(~same)
        taken, encoded = taken_rows(left), self.encoded
        if encoded is not None:
            encoded = EncodedKeys(encoded.keys[left], encoded.names, encoded.shape)
        return KeyedChange(
            self.was[left], self.stays[left], self.old.take(taken), self.new.take(taken), encoded
        )

    def select(self, columns: Mapping[str, str]) -> KeyedChange:
        """Some columns under other names, those of the key among them."""
        old, new = (
            pa.Table.from_arrays([rows.column(name) for name in columns.values()], list(columns))
            for rows in (self.old, self.new)
        )
        encoded = self.encoded
        if encoded is not None:
            renamed = {name: shown for shown, name in columns.items()}
            names = tuple(renamed[name] for name in encoded.names)
            encoded = EncodedKeys(encoded.keys, names, encoded.shape, self._operations)
        return KeyedChange(self.was, self.stays, old, new, encoded).without_same()

    def delta(self, schema: TableSchema, shape: Shape) -> tuple[Delta, Counts] | None:
        """The changes of the table that holds the rows; None if they are not by its key."""
        if self.encoded is None or not self.encoded.fits(schema.key, shape):
            return None
        columns = [flat(self.new.column(column.name)) for column in schema.stored_columns]
        for array, column in zip(columns, schema.stored_columns, strict=True):
            if array.type != column.type or (array.null_count and not column.nullable):
                return None
        if not self.stays.all():
            rows = taken_rows(np.arange(self.num_rows), ~self.stays)
            count = shape.key_count
            columns = [*columns[:count], *(column.take(rows) for column in columns[count:])]
        kept = int((self.was & self.stays).sum())
        counts = Counts(int(self.stays.sum()) - kept, kept, int(self.was.sum()) - kept)
        missing = (None,) * len(columns)
        made = Delta(shape, self.encoded.keys, self._operations, tuple(columns), missing)
        return made, counts


def _are_equal(one: pa.Array, other: pa.Array) -> Mask:
    """Where values are equal, or both null."""
    found = pc.equal(one, other)
    if not found.null_count:
        return as_mask(found)
    both = pc.and_(pc.is_null(one), pc.is_null(other))
    return as_mask(pc.or_(pc.fill_null(found, False), both))
