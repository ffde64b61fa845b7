"""Lenses: what a schema change does to rows and to changes of rows, in both directions.

A lens relates tables of an old and a new schema.  What one side cannot hold is remembered by
the other: both sides are always there, and each is the complement of the other.  A change on
one side is carried by looking at the rows it touched, before and after, and at the rows of the
other side that belong to them; what the change left alone is left alone there, too.

The law: carrying a change over, and what came of it straight back, changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import ProjectionStep
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import PATCH, UPSERT, Delta

__all__ = [
    "DIRECTIONS",
    "SHOWN_FAILURES",
    "Expected",
    "Follower",
    "Lens",
    "Loss",
    "OneTableLens",
    "RowImages",
    "RowMap",
    "Side",
    "TableImages",
    "Verdicts",
]

DIRECTIONS = ("forward", "reverse", "both", "none")

SHOWN_FAILURES = 10
"""How many rows that a change cannot be made on are named."""

Verdicts = Mapping[str, str | None]
"""For each direction None if it is legal, else the reason why it is not."""


@dataclass(frozen=True)
class RowImages:
    """Rows of one table that a change touched: as they were and as they are now.

    Whole rows, in the columns of the table's schema.  A key only in `before` was deleted, one
    only in `after` was inserted; rows are in no particular order.
    """

    before: pa.Table
    after: pa.Table

    def __bool__(self) -> bool:
        return bool(self.before.num_rows or self.after.num_rows)


TableImages = Mapping[str, RowImages]
"""The row images of tables, by name; a table that is not named did not change."""


Expected = Mapping[str, Iterator[pa.Table]]
"""Rows of tables, by name, in parts and in no particular order; of others there are none."""


class Side(Protocol):
    """The tables of one side as they were before the change that is being carried."""

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        """The rows with these keys (a table of the key columns), in no particular order."""
        ...

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        """The rows whose columns, those that `values` has, hold one of its rows.  May scan."""
        ...

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in key order."""
        ...

    def count(self, table: str) -> int:
        """How many rows there are."""
        ...


@dataclass(frozen=True)
class RowMap:
    """How each row of a new table is made of the row of an old one with the same key."""

    source: str
    step: ProjectionStep


@dataclass(frozen=True)
class Follower:
    """A table whose rows come and go with those of a table of the other side.

    A change of a row that is there is the same change here, of the columns that both have.
    """

    table: str
    make_rows: Callable[[pa.Table], pa.Table] | None
    """What new rows of the other side become here, in the columns at least that only this side has.

    None: it follows only rows there are.
    """
    watches: frozenset[str] = frozenset()
    """Columns of the other side: a change of one, in a row that is there, is not followed."""
    checks: bool = False
    """Whether new rows are refused by making them."""
    blank: frozenset[str] = frozenset()
    """Columns of the other side that new rows have to leave null: else they are not followed."""

    def follows(self, schema: TableSchema, changes: Delta) -> bool:
        """Whether it follows changes of the other side's table, which has that schema."""
        if self.make_rows is None and changes.is_structural:
            return False
        if changes.counts[PATCH] and self.watches:
            patched = changes.ops == PATCH
            places = [schema.position(name) for name in self.watches]
            if any(bool((changes.carries(at) & patched).any()) for at in places):
                return False
        if not self.blank:
            return True
        new = changes.ops == UPSERT
        return not any(_is_set(changes, schema.position(name), new) for name in self.blank)


def _is_set(changes: Delta, position: int, rows: npt.NDArray[np.bool_]) -> bool:
    """Whether changes give a column a value in some of their rows."""
    column = changes.columns[position]
    if column is None or column.null_count == len(column):
        return False
    given = column.is_valid().to_numpy(zero_copy_only=False) & changes.carries(position)
    return bool((given & rows).any())


@dataclass(frozen=True)
class Loss:
    """What a change of an old table wrote and no new table holds: all of it, or part of a row."""

    table: str
    column: str | None = None
    key: str | None = None
    """The key of the row, as a message shows it; None for every row."""

    def __str__(self) -> str:
        part = "what was written"
        if self.column is not None:
            part = f"the column {self.column!r}"
        elif self.key is not None:
            part = "the row"
        return part if self.key is None else f"{part} with the key {self.key}"


class Lens(ABC):
    """A schema change on tables that are known; made by the `plan` of a change."""

    old: Mapping[str, Definition]
    """The tables it reads, in the old schema."""
    new: Mapping[str, Definition]
    """The tables that take their place, in the new schema."""

    conceals: bool = False
    """Whether what it makes hides what it is made of: that is stored as rows, never as a recipe."""

    consults: frozenset[str] = frozenset()
    """Tables that it reads beside, and that are on both sides as they are."""

    def bind(self, side: Side) -> Lens:
        """This lens, for making rows one by one of those that a side has."""
        return self

    def of_table(self, table: str) -> Lens:
        """The part of this lens that a table has to do with, if its parts are independent."""
        return self

    def unlock(self) -> None:
        """`MaskKeyMissing` if rows cross by a key that this process does not have."""
        return

    @abstractmethod
    def directions(self) -> Verdicts:
        """Which directions are legal, and why the others are not."""

    def scan_reason(self) -> str | None:
        """Why the rows have to be looked at before the change; None if it takes them unseen."""
        return None

    def check(self, old: Side) -> None:
        """Look at the rows; `InvalidData` if the change cannot be made on them."""
        return

    def failures(self, old: Side) -> Iterator[str]:
        """The first rows that the change cannot be made on, each as a message."""
        try:
            self.check(old)
        except (InvalidData, DuplicateKey) as error:
            yield str(error)

    @property
    def expressions(self) -> Sequence[tuple[Expression, TableSchema]]:
        """What has to be portable when it is defined, each with the columns that it may read."""
        return ()

    def hides(self, is_right: bool) -> bool:
        """Whether a row may not be there on the other side, of the new one if `is_right`."""
        return False

    def unchanged_source(self, name: str) -> str | None:
        """The old table that a new one has the rows of, one by one; None if none."""
        return None

    def row_map(self, name: str) -> RowMap | None:
        """How the rows of a new table are made one by one; None if they are not."""
        same = self.unchanged_source(name)
        if same is None:
            return None
        pairs = zip(self.new[name].schema.columns, self.old[same].schema.columns, strict=True)
        return RowMap(same, ProjectionStep({new.name: old.name for new, old in pairs}))

    def check_new(self, name: str, rows: pa.Table) -> None:
        """`InvalidData` if all rows of a new table, as they were made, cannot be its rows."""
        return

    @abstractmethod
    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        """The new tables made of the old ones, in no particular order of rows."""

    @property
    def settles(self) -> bool:
        """Whether a change of one side may bring others of the same side with it."""
        return type(self).settle_old is not Lens.settle_old

    def settle_old(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        """A change of old tables with what follows from it in the old tables themselves.

        Whoever writes makes all of it, and `putr` is given all of it.
        """
        return deltas

    def settle_new(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        """The same for a change of new tables, and `putl`."""
        return deltas

    def follower(self, table: str, is_right: bool) -> Follower | None:
        """The table of the other side that follows this one, an old one if `is_right`."""
        return None

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        """The new columns, each with its table, that hold something of an old one."""
        return [
            (name, column)
            for name, definition in self.new.items()
            if any(other.name == column for other in definition.schema.columns)
        ]

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """Rows and values of a change that `putr` carries to nowhere; None if there are none.

        Columns that have no outlets are not looked at.
        """
        return None

    @abstractmethod
    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        """What a change of old tables changes in the new ones."""

    @abstractmethod
    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        """What a change of new tables changes in the old ones."""

    # --- whether both sides are in step ---------------------------------------------------------

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        """The rows that new tables have if both sides are in step, from those that both have.

        What only the new side remembers is taken from it: where both are in step, these are the
        rows it has.  `direction` is that in which changes are carried.
        """
        return {n: iter([d.after]) for n, d in self.putr(_images(self.old, old), old, new).items()}

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        """The same for old tables."""
        return {n: iter([d.after]) for n, d in self.putl(_images(self.new, new), new, old).items()}

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows of a table of one side may be there although the other side has none."""
        return np.zeros(rows.num_rows, bool)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """The columns of which nothing tells whether they are what the other side says."""
        return ()


def _images(tables: Mapping[str, Definition], side: Side) -> TableImages:
    """All rows of tables, as a change that leaves them as they are."""
    found = {}
    for name, definition in tables.items():
        rows = pa.Table.from_batches(side.scan(name), definition.schema.whole)
        found[name] = RowImages(rows, rows)
    return found


class OneTableLens(Lens):
    """A lens on one table, which keeps its name."""

    def __init__(self, table: str, old: Definition, new: Definition):
        self.table = table
        self.old, self.new = {table: old}, {table: new}

    @property
    def old_schema(self) -> TableSchema:
        """The table's schema before the change."""
        return self.old[self.table].schema

    @property
    def new_schema(self) -> TableSchema:
        """The table's schema after the change."""
        return self.new[self.table].schema
