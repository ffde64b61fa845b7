"""Columns that are computed of others on the way across, and stay while those do not change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.column_lens import (
    Columns,
    common_columns,
    outdated_mask,
    replace_values,
)
from livingdb.evolution.lenses.column_mapping import ColumnMapping
from livingdb.evolution.lenses.lens import Follower
from livingdb.evolution.lenses.mapped_lens import MappedLens
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import CarriedRows, TouchedRows
from livingdb.sql.table_lookups import LOOKUP
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula
from livingdb.trees.compare import differs

__all__ = ["ComputedLens"]


class ComputedLens(MappedLens):
    """Some columns cross in one way there and in another back."""

    there: ColumnMapping

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        there: ColumnMapping,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new, there, back)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        made = self.there.makes
        same = [outlet for outlet in super().outlets(table, column) if outlet[1] not in made]
        return same + [(table, name) for name in made if column in self.there.reads]

    def formulas(self) -> Sequence[Formula] | None:
        return self.there.formulas

    def follower(self, table: str, is_right: bool) -> Follower | None:
        """Rows come and go together where none is hidden.

        A new row whose key a row has that is hidden from its side is carried, and refused there.
        """
        mapping, other = (self.there, self.back) if is_right else (self.back, self.there)
        if mapping is None or not (mapping.is_total or mapping.refuses):
            return None
        found = self.row_follower(is_right, mapping.reads, mapping.refuses)
        if other is not None and other.hides:
            return replace(found, make_rows=None)
        return found

    def need_right(self, touched: TouchedRows) -> Mask:
        return outdated_mask(touched, self.there.reads)

    def need_left(self, touched: TouchedRows) -> Mask:
        assert self.back is not None, "the direction is not legal"
        return outdated_mask(touched, self.back.reads)

    def agree_right(self, touched: TouchedRows, direction: str) -> CarriedRows:
        back = None if direction == "forward" else self.back
        columns = {**common_columns(touched, self.old_schema, self.new_schema)}
        made, hidden = self._agreed_columns(touched, self.there, back, direction)
        return CarriedRows(touched.after.there & ~hidden, {**columns, **made})

    def agree_left(self, touched: TouchedRows, direction: str) -> CarriedRows:
        if self.back is None:
            return super().agree_left(touched, direction)
        columns = {**common_columns(touched, self.new_schema, self.old_schema)}
        made, hidden = self._agreed_columns(touched, self.back, self.there, direction)
        return CarriedRows(touched.after.there & ~hidden, {**columns, **made})

    def _agreed_columns(
        self, touched: TouchedRows, there: ColumnMapping, back: ColumnMapping | None, direction: str
    ) -> tuple[Columns, Mask]:
        """The columns that `there` makes: as they are held where one gives the other.

        A value crossed in one way or in the other and stays while nobody writes it, so that one
        of the two has to give the other.  With the rows that cannot be there.
        """
        held = {name: touched.other.column(name) for name in there.makes}
        hidden = np.zeros(len(touched), bool)
        wrong = ~touched.other.there
        if not self.unverified_columns(direction):
            wrong = wrong | ~_gives(there, back, touched)
        if not wrong.any():
            return held, hidden
        made = there.compute(touched.after.rows.filter(pa.array(wrong)))
        hidden[wrong] = made.hidden
        return {
            name: replace_values(held[name], values, wrong)
            for name, values in zip(there.makes, made.columns, strict=True)
        }, hidden

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """Those made of columns that both sides write: who wrote last is not known.

        And those that were looked up in another table, which may have changed since.
        """
        back = frozenset[str]() if self.back is None else self.back.reads
        if any(name.startswith(LOOKUP) for name in self.there.reads | back):
            return self.there.makes
        if direction == "forward":
            return ()
        both = {column.name for column in self.old_schema.columns} - set(self._own_columns)
        return self.there.makes if (self.there.reads | back) & both else ()

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
            agrees = _is_given(back.compute(other).columns, here, back.makes) & touched.other.there
    rest = ~agrees & touched.other.there
    if rest.any():
        mask = pa.array(rest)
        made = there.compute(here.filter(mask)).columns
        agrees[rest] = _is_given(made, other.filter(mask), there.makes)
    return agrees


def _is_given(made: Sequence[pa.Array], rows: pa.Table, names: Sequence[str]) -> Mask:
    """Where values are those of columns of rows."""
    pairs = zip(made, (flat(rows.column(name)) for name in names), strict=True)
    masks = [~differs(flat(one), other) for one, other in pairs]
    same: Mask = np.logical_and.reduce(masks)
    return same
