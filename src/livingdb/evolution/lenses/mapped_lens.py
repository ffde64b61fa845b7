"""Lenses under which columns of one side are computed of the other's, under a policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateKey
from livingdb.evolution.lenses.column_lens import (
    ColumnLens,
    Columns,
    common_columns,
    replace_values,
)
from livingdb.evolution.lenses.column_mapping import ColumnMapping
from livingdb.evolution.lenses.lens import Follower, Loss, Side, TableImages
from livingdb.evolution.lenses.row_alignment import Mask, align_rows, keys_of
from livingdb.evolution.lenses.row_lens import CarriedRows, TouchedRows
from livingdb.graph.row_constraints import first_key
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = ["MappedLens"]


class MappedLens(ColumnLens):
    """Columns are computed where they are needed; a row without them may be hidden or refused.

    `there` makes columns of the new side, `back` of the old one; None if they are made otherwise.
    """

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        there: ColumnMapping | None,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new)
        self.there, self.back = there, back
        self.drops = there is not None and there.hides

    @abstractmethod
    def need_right(self, touched: TouchedRows) -> Mask:
        """The rows for which the columns of the new side are computed."""

    @abstractmethod
    def need_left(self, touched: TouchedRows) -> Mask:
        """The rows for which the columns of the old side are computed."""

    def row_follower(
        self, is_right: bool, watches: Iterable[str] = (), checks: bool = False
    ) -> Follower:
        """As of any such lens; of new rows only what a function gives is made."""
        found = super().row_follower(is_right, watches, checks)
        mapping = self.there if is_right else self.back
        if mapping is None:
            return found
        make_rows = mapping.checked_columns if checks else mapping.computed_columns
        return replace(found, make_rows=make_rows)

    def hides(self, is_right: bool) -> bool:
        mapping = self.there if is_right else self.back
        return mapping is not None and mapping.hides

    # --- rows that are looked at before the change ----------------------------------------------

    def scan_reason(self) -> str | None:
        return None if self.there is None else self.there.scan_reason

    def check(self, old: Side) -> None:
        for rows in self._rows_to_check(old):
            assert self.there is not None
            self.there.check(rows)

    def failures(self, old: Side) -> Iterator[str]:
        if self.there is None:
            yield from super().failures(old)
        for rows in self._rows_to_check(old):
            assert self.there is not None
            yield from self.there.failures(rows)

    def _rows_to_check(self, old: Side) -> Iterator[pa.Table]:
        """What the function reads of all rows, if one of them may be refused."""
        if self.there is None or not self.there.refuses:
            return
        names = dict.fromkeys([*self.old_schema.key, *sorted(self.there.reads)])
        for batch in old.scan(self.old_name, list(names)):
            yield pa.Table.from_batches([batch])

    # --- carrying -------------------------------------------------------------------------------

    def check_right(self, touched: TouchedRows) -> None:
        if self.there is not None and self.there.refuses:
            self.there.check(touched.after.rows.filter(pa.array(self.need_right(touched))))

    def check_left(self, touched: TouchedRows) -> None:
        if self.back is not None and self.back.refuses:
            self.back.check(touched.after.rows.filter(pa.array(self.need_left(touched))))

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        self._refuse_twins(self.back, touched, self.new_schema)
        columns = common_columns(touched, self.old_schema, self.new_schema)
        if self.there is None:
            return CarriedRows(touched.after.there, {**columns, **self.to_new(touched)})
        made, hidden = map_columns(self.there, touched, self.need_right(touched))
        return CarriedRows(touched.after.there & ~hidden, {**columns, **made})

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        self._refuse_twins(self.there, touched, self.old_schema)
        columns = common_columns(touched, self.new_schema, self.old_schema)
        if self.back is None:
            return CarriedRows(touched.after.there, {**columns, **self.to_old(touched)})
        made, hidden = map_columns(self.back, touched, self.need_left(touched))
        return CarriedRows(touched.after.there & ~hidden, {**columns, **made})

    def _refuse_twins(
        self, mapping: ColumnMapping | None, touched: TouchedRows, there: TableSchema
    ) -> None:
        """`DuplicateKey` for a new row whose key a row has that only the other side can hold."""
        if mapping is None or not mapping.hides:
            return
        twins = touched.other.there & ~touched.before.there & touched.after.there
        if twins.any():
            twins &= mapping.hidden_rows(touched.other.rows)
        if twins.any():
            raise DuplicateKey(
                f"table {self.old_name!r}: there is a row with the key "
                f"{first_key(there, touched.other.rows, twins)} on the other side; it is not seen "
                f"here because {', '.join(mapping.makes)} cannot hold its values"
            )

    # --- what is lost, and what only one side has -----------------------------------------------

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row in quarantine."""
        delta = deltas.get(self.old_name)
        if not delta or not self.drops:
            return None
        schema, rows = self.old_schema, delta.after
        after = align_rows(schema, keys_of(schema, rows), carried[self.new_name].after)
        if after.there.all():
            return None
        return Loss(self.old_name, None, first_key(schema, rows, ~after.there))

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        """Rows that the other side cannot hold."""
        mapping = self.back if is_new else self.there
        return np.zeros(rows.num_rows, bool) if mapping is None else mapping.hidden_rows(rows)


def map_columns(mapping: ColumnMapping, touched: TouchedRows, need: Mask) -> tuple[Columns, Mask]:
    """The columns that a mapping makes: as they are held, but computed of the rows in need.

    With the rows that cannot be there.
    """
    hidden = np.zeros(len(touched), bool)
    held = {name: touched.other.column(name) for name in mapping.makes}
    if not need.any():
        return held, hidden
    rows = touched.after.rows
    made = mapping.compute(rows if need.all() else rows.filter(pa.array(need)))
    hidden[need] = made.hidden
    if need.all():
        return dict(zip(mapping.makes, made.columns, strict=True)), hidden
    return {
        name: replace_values(held[name], values, need)
        for name, values in zip(mapping.makes, made.columns, strict=True)
    }, hidden
