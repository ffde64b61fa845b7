"""Rows that refer to others, and sums and counts that agree between source and target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.stage_inputs import weighted_diff
from livingdb.errors import InvalidData
from livingdb.guard.conditions.column_names import (
    ReferencedTable,
    resolve_column,
    resolve_reference,
    resolve_table,
)
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.kinds.repeated_values import (
    distinct_values,
    has_no_null,
    is_in_values,
    unquarantined_rows,
)
from livingdb.guard.conditions.kinds.row_conditions import RowCondition, columns_of, row_count_text
from livingdb.guard.conditions.pending_change import is_true
from livingdb.guard.conditions.registry import register, register_constructor
from livingdb.tables.batches import flat
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "CountsReconcile",
    "NoOrphans",
    "Reconciles",
    "counts_reconcile",
    "no_orphans",
    "reconciles",
]


@register
@dataclass(frozen=True)
class NoOrphans(RowCondition):
    """What rows refer to is there; a row with a null among the columns refers to nothing.

    Rows that come are judged, and those that stay while what they refer to goes, if the referenced
    table is read or written by the sync.
    """

    columns: tuple[str, ...]
    references: str
    to: tuple[str, ...] = field(default=(), kw_only=True)

    NAME: ClassVar[str] = "no_orphans"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", columns_of(self.columns, self.NAME))
        object.__setattr__(self, "to", (self.to,) if isinstance(self.to, str) else tuple(self.to))
        if not isinstance(self.references, str) or not self.references:
            raise InvalidData("no_orphans: references= names a table, as in 'customers.id'")
        super().__post_init__()

    @property
    def judged_columns(self) -> Sequence[str]:
        """See `RowCondition.judged_columns`."""
        return self.columns

    def _resolve_reference(self, pending: PendingChange) -> ReferencedTable:
        found = resolve_reference(pending, self.references, self.to)
        if len(found.columns) != len(self.columns):
            raise InvalidData(
                f"({', '.join(self.columns)}) cannot refer to {found.name} by "
                f"({', '.join(found.columns)}): name as many columns with to="
            )
        return found

    def violation_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """See `RowCondition.violation_mask`."""
        known = self._resolve_reference(pending)
        values = distinct_values(rows, self.columns)
        found = _semi_join(pending.versions.rows(known.new), values, known.columns)
        missing = pc.invert(is_in_values(rows, self.columns, found))
        return pc.and_(has_no_null(rows, self.columns), missing)

    def release_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """See `Condition.release_mask`: what they refer to has come."""
        known = self._resolve_reference(pending)
        if known.old is not None and known.old.address == known.new.address:
            return None
        return pc.invert(is_true(self.violation_mask(rows, pending, table)))

    def violating_rows(self, pending: PendingChange, table: str) -> pa.Table:
        """See `RowCondition.violating_rows`; with those whose other end goes."""
        come = super().violating_rows(pending, table)
        left = self._orphaned_rows(pending, table)
        if left is None or not left.num_rows:
            return come
        key = list(pending.schema(table, self.of).key)
        if self.of == "target":
            left = unquarantined_rows(pending, table, left)
        rest = left.filter(pc.invert(is_in_values(left, key, come.select(key))))
        return pa.concat_tables([come, rest.select(come.column_names)])

    def _orphaned_rows(self, pending: PendingChange, table: str) -> pa.Table | None:
        """The rows that refer to what has gone."""
        known = self._resolve_reference(pending)
        rows = pending.rows(table, self.of)
        if rows is None or known.old is None or known.old.address == known.new.address:
            return None
        gone = _removed_values(pending, known)
        if gone is None or not gone.num_rows:
            return None
        there = _semi_join(pending.versions.rows(known.new), gone, known.columns)
        gone = gone.filter(pc.invert(is_in_values(gone, gone.column_names, there)))
        return _semi_join(
            rows, gone, self.columns, [column.name for column in rows.schema.stored_columns]
        )

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with {', '.join(self.columns)} not in {self.references}"


def _removed_values(pending: PendingChange, known: ReferencedTable) -> pa.Table | None:
    """The values that rows of the referenced table had and may not have any more."""
    assert known.old is not None
    if known.old.definition == known.new.definition:
        changed = weighted_diff(pending.versions, known.old, known.new, known.columns)
        rows = changed.filter(pc.less(changed.column(WEIGHT), 0))
        return distinct_values(rows, known.columns)
    old = pending.versions.rows(known.old)
    if not set(known.columns) <= set(old.schema.arrow.names):
        return None
    return distinct_values(old.to_arrow(list(known.columns)), known.columns)


def _semi_join(
    rows: RowSet, values: pa.Table, columns: Sequence[str], read: Sequence[str] | None = None
) -> pa.Table:
    """The rows that hold one of the rows of `values` in some columns."""
    kinds = [rows.schema.column(name).type for name in columns]
    wanted = _values_that_fit(values, kinds).rename_columns(list(columns))
    return matching_rows(rows, wanted, list(columns if read is None else read))


def _values_that_fit(values: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """The rows of `values` as columns of these types hold them; what they cannot hold is left out.

    `InvalidData` for values that do not compare with the type at all.
    """
    arrays, fits = [], np.ones(values.num_rows, bool)
    for column, kind in zip(values.columns, kinds, strict=True):
        given = flat(column)
        try:
            made = given.cast(kind)
        except pa.ArrowInvalid:
            made = _cast_unsafe(given, kind)
            same = pc.equal(made.cast(given.type, safe=False), given)
            fits &= same.to_numpy(zero_copy_only=False)
        arrays.append(made)
    return pa.Table.from_arrays(arrays, names=values.column_names).filter(pa.array(fits))


def _cast_unsafe(given: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return given.cast(kind, safe=False)
    except pa.ArrowInvalid as error:
        raise InvalidData(f"{given.type} cannot refer to {kind}: {error}") from None


@dataclass(frozen=True)
class _Agreement(Condition):
    """Two numbers agree, but for a tolerance."""

    source: str
    target: str
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (self.source, self.target):
            if not isinstance(name, str) or not name:
                raise InvalidData(f"{self.NAME}: name what is to agree, not {name!r}")
        is_number = isinstance(self.tolerance, (int, float)) and math.isfinite(self.tolerance)
        if not is_number or self.tolerance < 0:
            raise InvalidData(f"{self.NAME}: tolerance={self.tolerance!r} is no number from 0 on")

    def _verdict(self, one: int | float | Decimal, other: int | float | Decimal) -> Verdict:
        if not math.isfinite(one) or not math.isfinite(other):
            same = one == other or (math.isnan(one) and math.isnan(other))
            return Verdict(None if same else self._problem(one, other))
        apart = abs(Fraction(one) - Fraction(other))
        problem = None if apart <= Fraction(self.tolerance) else self._problem(one, other)
        return Verdict(problem, int(apart) if apart.denominator == 1 else float(apart))

    def _problem(self, one: object, other: object) -> str:
        but = f"; they may differ by {self.tolerance}" if self.tolerance else ""
        return f"{self.source} of the source is {one}, {self.target} of the target {other}{but}"


@register
@dataclass(frozen=True)
class Reconciles(_Agreement):
    """The sum of a column of the source is that of a column of the target."""

    NAME: ClassVar[str] = "reconciles"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`; the sums are kept from change to change."""
        totals = []
        for column, of in ((self.source, "source"), (self.target, "target")):
            place = resolve_column(pending, column, of=of)
            totals.append(pending.statistics(*place, of=of).total)
        return self._verdict(*totals)


@register
@dataclass(frozen=True)
class CountsReconcile(_Agreement):
    """A table of the source has as many rows as one of the target."""

    NAME: ClassVar[str] = "counts_reconcile"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        counts = [
            pending.rows_after(resolve_table(pending, table, of), of)
            for table, of in ((self.source, "source"), (self.target, "target"))
        ]
        return self._verdict(*counts)


@register_constructor
def no_orphans(
    columns: str | Sequence[str],
    references: str,
    to: str | Sequence[str] = (),
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> NoOrphans:
    """What rows refer to is there: `references` is 'table', 'table.column' or 'branch.table'.

    `to` are the columns that several columns refer to, if they are not the key.
    """
    return NoOrphans(columns, references, to=to, table=table, of=of, **how)  # type: ignore[arg-type]


@register_constructor
def reconciles(source: str, target: str, tolerance: float = 0.0, **how: Any) -> Reconciles:
    """The sums of two columns agree: reconciles('orders.amount', 'totals.total')."""
    return Reconciles(source, target, tolerance, **how)


@register_constructor
def counts_reconcile(source: str, target: str, tolerance: float = 0, **how: Any) -> CountsReconcile:
    """Two tables have the same number of rows: counts_reconcile('orders', 'clean_orders')."""
    return CountsReconcile(source, target, tolerance, **how)
