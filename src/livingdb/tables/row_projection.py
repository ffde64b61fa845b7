"""Rows made of other rows, column by column: a chain of such steps is one pass.

A *step* says where each new column comes from: an old one under the same or another name, or a
formula over old ones.  Steps put one after the other compose: a column that passes through a
hundred renames is read once, and what a later step drops is never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import BrokenConstraint
from livingdb.tables.batches import flat

if TYPE_CHECKING:
    from typing import TypeAlias

__all__ = ["Formula", "NullValue", "ProjectionStep", "RowProjection"]

Mask = npt.NDArray[np.bool_]


class NullValue(BrokenConstraint):
    """A formula gives null for a row, counted among those it is given, where there may be none."""

    def __init__(self, table: str, column: str, row: int):
        super().__init__(f"table {table!r}, column {column!r}: null in a row, but it is NOT NULL")
        self.table, self.column, self.row = table, column, row

    def at_key(self, key: str) -> BrokenConstraint:
        """The same, with the key of the row."""
        return BrokenConstraint(
            f"table {self.table!r}, column {self.column!r}: null in the row with the key {key}, "
            "but the column is NOT NULL"
        )


@dataclass(frozen=True)
class Formula:
    """Columns that are computed of others, for many rows at once."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    compute: Callable[[pa.Table], Sequence[pa.Array | pa.ChunkedArray]]


@dataclass(frozen=True)
class ProjectionStep:
    """One step: the columns of its result.

    same      the old column that each new one is, by their names
    formulas  what gives the others
    keeps     the name of a boolean column that one of them makes: which rows stay; None: all
    """

    same: Mapping[str, str]
    formulas: Sequence[Formula] = ()
    keeps: str | None = None


@dataclass(frozen=True, eq=False)
class _Source:
    """A column of the rows that everything is made of."""

    name: str
    level: int = 0
    depth: int = 0


@dataclass(frozen=True, eq=False)
class _Computation:
    """A formula over columns that are known.

    `level` filters come before it, and at most `depth` computations lead to it.
    """

    formula: Formula
    inputs: tuple[Column, ...]
    level: int
    depth: int
    is_constant: bool
    """Whether it gives every row the same: it reads nothing, or what does."""
    _constants: list[list[pa.Array]] = field(default_factory=list)

    def values(self, arrays: Sequence[pa.Array], count: int) -> list[pa.Array]:
        """What the formula makes of so many rows, whose columns are these."""
        if not self.is_constant or not count:
            return self._compute(arrays, count)
        if not self._constants:
            self._constants.append(self._compute([array.slice(0, 1) for array in arrays], 1))
        if count == 1:
            return self._constants[0]
        places = pa.array(np.zeros(count, np.int64))
        return [array.take(places) for array in self._constants[0]]

    def _compute(self, arrays: Sequence[pa.Array], count: int) -> list[pa.Array]:
        names = list(self.formula.reads)
        if not arrays:  # then it is told how many rows there are
            arrays, names = [pa.nulls(count)], [""]
        rows = pa.Table.from_arrays(arrays, names=names)
        return [flat(array) for array in self.formula.compute(rows)]


@dataclass(frozen=True, eq=False)
class _Made:
    """One column that a computation makes."""

    computation: _Computation
    place: int

    @property
    def level(self) -> int:
        """How many filters come before it."""
        return self.computation.level

    @property
    def depth(self) -> int:
        """How many computations lead to it."""
        return self.computation.depth


if TYPE_CHECKING:
    Column: TypeAlias = _Source | _Made


@dataclass(frozen=True)
class _Plan:
    """What some columns of the result need: source columns, and computations in order."""

    reads: list[str]
    computations: list[_Computation]


@dataclass(frozen=True)
class RowProjection:
    """Steps that were composed: each column of the result as what it is made of."""

    columns: Mapping[str, Column]
    filters: tuple[_Made, ...] = ()
    _plans: dict[tuple[str, ...], _Plan] = field(default_factory=dict, compare=False)

    @classmethod
    def of_columns(cls, names: Iterable[str]) -> RowProjection:
        """Rows with these columns, as they are."""
        return cls({name: _Source(name) for name in names})

    @property
    def drops(self) -> bool:
        """Whether rows may be left out."""
        return bool(self.filters)

    def then(self, step: ProjectionStep) -> RowProjection:
        """This, and a step upon it."""
        made: dict[str, Column] = {new: self.columns[old] for new, old in step.same.items()}
        for formula in step.formulas:
            computation = self._computation(formula)
            made.update((n, _Made(computation, at)) for at, n in enumerate(formula.makes))
        if step.keeps is None:
            return RowProjection(made, self.filters)
        kept = made.pop(step.keeps)
        assert isinstance(kept, _Made)
        return RowProjection(made, (*self.filters, kept))

    def _computation(self, formula: Formula) -> _Computation:
        inputs = tuple(self.columns[name] for name in formula.reads)
        depth = 1 + max((column.depth for column in inputs), default=0)
        is_constant = all(
            isinstance(column, _Made) and column.computation.is_constant for column in inputs
        )
        return _Computation(formula, inputs, len(self.filters), depth, is_constant)

    def source_of(self, name: str) -> str | None:
        """The source column that a column of the result is; None if it is computed."""
        column = self.columns[name]
        return column.name if isinstance(column, _Source) else None

    def constant(self, name: str) -> pa.Scalar | None:
        """The value that a column of the result has in every row; None if it may have several."""
        column = self.columns[name]
        if isinstance(column, _Source) or not column.computation.is_constant:
            return None
        _, (values,) = RowProjection({name: column}).map_rows({}, 1, [name])
        return values[0]

    def reads(self, names: Sequence[str]) -> list[str]:
        """The source columns that some columns of the result, and the choice of rows, need."""
        return self._plan(names).reads

    def _plan(self, names: Sequence[str]) -> _Plan:
        wanted = tuple(names)
        known = self._plans.get(wanted)
        if known is None:
            reads, needed = set[str](), set[_Computation]()
            waiting: list[Column] = [*(self.columns[name] for name in wanted), *self.filters]
            while waiting:
                column = waiting.pop()
                if isinstance(column, _Source):
                    reads.add(column.name)
                elif column.computation not in needed:
                    needed.add(column.computation)
                    waiting += column.computation.inputs
            order = sorted(needed, key=lambda each: (each.level, each.depth))
            known = self._plans[wanted] = _Plan(sorted(reads), order)
        return known

    def map_rows(
        self, rows: Mapping[str, pa.Array], count: int, names: Sequence[str]
    ) -> tuple[Mask | None, list[pa.Array]]:
        """Which of the rows stay (None: all), and some columns of those that do."""
        work = _Evaluation(rows, count)
        for computation in self._plan(names).computations:
            work.filter_until(computation.level, self.filters)
            work.compute(computation)
        work.filter_until(len(self.filters), self.filters)
        return work.kept, [work.column(self.columns[name]) for name in names]


class _Evaluation:
    """Columns of some rows, each computed once for all that need it."""

    def __init__(self, rows: Mapping[str, pa.Array], count: int):
        self._rows = rows
        self._count = count
        self._masks: list[pa.Array | None] = []
        self._results: dict[_Computation, list[pa.Array]] = {}
        self._columns: dict[Column, tuple[int, pa.Array]] = {}
        self.kept: Mask | None = None
        """Which of the rows given are left; None for all."""

    def column(self, column: Column) -> pa.Array:
        """A column, of the rows that are left."""
        known = self._columns.get(column)
        if known is None:
            known = column.level, self._own_values(column)
        level, values = known
        for mask in self._masks[level:]:
            values = values if mask is None else values.filter(mask)
        self._columns[column] = len(self._masks), values
        return values

    def _own_values(self, column: Column) -> pa.Array:
        if isinstance(column, _Source):
            return self._rows[column.name]
        return self._results[column.computation][column.place]

    def compute(self, computation: _Computation) -> None:
        """Compute what a formula makes of the rows that are left."""
        arrays = [self.column(column) for column in computation.inputs]
        try:
            self._results[computation] = computation.values(arrays, self._count)
        except NullValue as error:
            row = error.row if self.kept is None else int(np.flatnonzero(self.kept)[error.row])
            raise NullValue(error.table, error.column, row) from None

    def filter_until(self, level: int, filters: Sequence[_Made]) -> None:
        """Leave out rows by filters whose columns are computed, up to one."""
        while len(self._masks) < level:
            values = self.column(filters[len(self._masks)])
            mask: Mask = values.to_numpy(zero_copy_only=False)
            if mask.all():
                self._masks.append(None)
                continue
            if self.kept is None:
                self.kept = mask.copy()
            else:
                self.kept[np.flatnonzero(self.kept)] = mask
            self._masks.append(values)
            self._count = int(mask.sum())
