"""Rows of several sources side by side, as positions in the tables they are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from livingdb.chunks.arrow_values import as_mask, taken_rows
from livingdb.derivation.arrays.kept_rows import Mask, Positions
from livingdb.derivation.row_numbers import row_numbers
from livingdb.tables.batches import flat

__all__ = ["Frame", "Source", "table_source"]

Source: TypeAlias = Callable[[str], pa.Array]
"""Finds a column of a table."""


def table_source(rows: pa.Table) -> Source:
    """The columns of rows in memory."""
    return lambda name: flat(rows.column(name))


@dataclass(frozen=True)
class Frame:
    """So many joined rows: for each source its table, and where in it their parts are."""

    count: int
    sources: Mapping[str, Source]
    positions: Mapping[str, Positions]

    def column(self, source: str, name: str) -> pa.Array:
        """A column of a source, for all rows."""
        return self.sources[source](name).take(taken_rows(self.positions[source]))

    def narrow(self, rows: Positions | Mask) -> Frame:
        """Some of the rows."""
        positions = {name: places[rows] for name, places in self.positions.items()}
        count = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)
        return Frame(count, self.sources, positions)

    def add(self, name: str, source: Source, places: Positions) -> Frame:
        """The same rows with a part of one more source."""
        positions = {**self.positions, name: places}
        return Frame(self.count, {**self.sources, name: source}, positions)

    def join(
        self, by: Sequence[tuple[str, str]], name: str, rows: pa.Table, columns: Sequence[str]
    ) -> Frame:
        """Each row beside those of a table that have the same values; null is equal to nothing."""
        mine = [self.column(*place) for place in by]
        theirs = [flat(rows.column(column)) for column in columns]
        left, right = _codes(mine, theirs)
        order = np.argsort(right, kind="stable")
        first = np.searchsorted(right[order], left, "left")
        counts = np.searchsorted(right[order], left, "right") - first
        for array in mine:
            if array.null_count:
                counts = np.where(as_mask(array.is_valid()), counts, 0)
        which = np.repeat(np.arange(self.count), counts)
        ends = np.cumsum(counts)
        within = np.arange(len(which)) - np.repeat(ends - counts, counts)
        places = order[np.repeat(first, counts) + within]
        return self.narrow(which).add(name, table_source(rows), places)


def _codes(mine: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> tuple[Positions, Positions]:
    """Numbers for rows of two sides that are equal where their values are."""
    columns = []
    for one, other in zip(mine, theirs, strict=True):
        if one.type != other.type:
            one, other = one.cast(pa.int64()), other.cast(pa.int64())
        columns.append(pa.concat_arrays([one, other]))
    names = [str(number) for number in range(len(columns))]
    numbers = row_numbers(pa.Table.from_arrays(columns, names=names))
    return numbers[: len(mine[0])], numbers[len(mine[0]) :]
