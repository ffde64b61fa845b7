"""Columns that are computed of others on the way across, and stay while those do not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData, LivingDBError
from livingdb.evolution.lenses.column_lens import (
    ColumnLens,
    Columns,
    common_columns,
    outdated_mask,
    replace_values,
)
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import CarriedRows, TouchedRows
from livingdb.sql.expressions import Expression
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.compare import differs

__all__ = ["ColumnMapping", "ComputedLens", "expression_mapping"]


@dataclass(frozen=True)
class ColumnMapping:
    """How columns of one side give columns of the other."""

    reads: frozenset[str]
    """The columns that it reads."""
    makes: tuple[str, ...]
    """The columns that it makes."""
    compute: Callable[[pa.Table], Sequence[pa.Array]]
    """Their values for rows."""

    def map_columns(self, touched: TouchedRows) -> Columns:
        """The columns it makes on the other side after a change."""
        held = {name: touched.other.column(name) for name in self.makes}
        need = outdated_mask(touched, self.reads)
        if not need.any():
            return held
        if need.all():
            return dict(zip(self.makes, self.compute(touched.after.rows), strict=True))
        made = self.compute(touched.after.rows.filter(pa.array(need)))
        return {
            name: replace_values(held[name], values, need)
            for name, values in zip(self.makes, made, strict=True)
        }


class ComputedLens(ColumnLens):
    """Some columns cross in one way there and in another back."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        there: ColumnMapping,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new)
        self.there, self.back = there, back

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        made = self.there.makes
        same = [outlet for outlet in super().outlets(table, column) if outlet[1] not in made]
        return same + [(table, name) for name in made if column in self.there.reads]

    def to_new(self, touched: TouchedRows) -> Columns:
        return self.there.map_columns(touched)

    def to_old(self, touched: TouchedRows) -> Columns:
        assert self.back is not None, "the direction is not legal"
        return self.back.map_columns(touched)

    def agree_right(self, touched: TouchedRows, direction: str) -> CarriedRows:
        back = None if direction == "forward" else self.back
        columns = {**common_columns(touched, self.old_schema, self.new_schema)}
        columns |= self._agreed_columns(touched, self.there, back, direction)
        return CarriedRows(touched.after.there, columns)

    def agree_left(self, touched: TouchedRows, direction: str) -> CarriedRows:
        if self.back is None:
            return super().agree_left(touched, direction)
        columns = {**common_columns(touched, self.new_schema, self.old_schema)}
        columns |= self._agreed_columns(touched, self.back, self.there, direction)
        return CarriedRows(touched.after.there, columns)

    def _agreed_columns(
        self, touched: TouchedRows, there: ColumnMapping, back: ColumnMapping | None, direction: str
    ) -> Columns:
        """The columns that `there` makes: as they are held where one gives the other.

        A value crossed in one way or in the other and stays while nobody writes it, so that one
        of the two has to give the other.
        """
        held = {name: touched.other.column(name) for name in there.makes}
        wrong = ~touched.other.there
        if not self.unverified_columns(direction):
            wrong = wrong | ~_gives(there, back, touched)
        if not wrong.any():
            return held
        made = there.compute(touched.after.rows.filter(pa.array(wrong)))
        return {
            name: replace_values(held[name], values, wrong)
            for name, values in zip(there.makes, made, strict=True)
        }

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """Those made of columns that both sides write: who wrote last is not known."""
        if direction == "forward":
            return ()
        both = {column.name for column in self.old_schema.columns} - set(self._own_columns)
        reads = self.there.reads | (frozenset() if self.back is None else self.back.reads)
        return self.there.makes if reads & both else ()

    @property
    def _own_columns(self) -> Sequence[str]:
        """The columns of the old side that the new side has in another form."""
        made = () if self.back is None else self.back.makes
        return (*made, *self.there.makes)


def _gives(there: ColumnMapping, back: ColumnMapping | None, touched: TouchedRows) -> Mask:
    """Where columns of one side give those of the other, or the other way round."""
    here, other = touched.after.rows, touched.other.rows
    agrees = np.zeros(len(touched), bool)
    if back is not None:
        with suppress(LivingDBError):  # what does not fit on the way back came the other way
            agrees = _is_given(back.compute(other), here, back.makes) & touched.other.there
    rest = ~agrees & touched.other.there
    if rest.any():
        mask = pa.array(rest)
        made = there.compute(here.filter(mask))
        agrees[rest] = _is_given(made, other.filter(mask), there.makes)
    return agrees


def _is_given(made: Sequence[pa.Array], rows: pa.Table, names: Sequence[str]) -> Mask:
    """Where values are those of columns of rows."""
    pairs = zip(made, (flat(rows.column(name)) for name in names), strict=True)
    masks = [~differs(flat(one), other) for one, other in pairs]
    same: Mask = np.logical_and.reduce(masks)
    return same


def expression_mapping(
    texts: Mapping[str, str], schema: TableSchema, makes: Sequence[Column]
) -> ColumnMapping:
    """Columns that expressions over a row of the schema give, by name."""
    wanted = {column.name for column in makes}
    if set(texts) != wanted:
        raise InvalidData(
            f"there are expressions for {', '.join(sorted(texts))}, but the columns are "
            f"{', '.join(sorted(wanted))}"
        )
    expressions = [(Expression(texts[column.name]), column.type) for column in makes]
    for expression, data_type in expressions:
        expression.check(schema.arrow, data_type)

    def compute(rows: pa.Table) -> list[pa.Array]:
        return [expression.values(rows, data_type) for expression, data_type in expressions]

    reads = frozenset[str]().union(*(expression.columns for expression, _ in expressions))
    return ColumnMapping(reads, tuple(column.name for column in makes), compute)
