"""What is known of a column: count, nulls, sum and squares, kept from change to change.

A change brings them up to date by the values that go and come; a whole column is read only when
nothing is known of it, as at the first change that a condition asks about.  They are remembered
in the edges of the target's snapshots, so that another process need not begin anew.

Of integers and decimals they are exact.  Floats drift when they are added and subtracted: where
so much goes that digits are lost, the column is read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.plan import WEIGHT
from livingdb.graph.table_ids import names_later
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["STATISTICS", "ColumnStatistics", "Statistics"]

STATISTICS = "statistics"
"""What the details of an edge have them under."""

Number = int | float | Decimal

_DIGITS = 200
"""More than exact sums of decimals can have."""
_LOST = 1e-6
"""Where sums of floats shrink to such a share, digits are lost that matter."""


@dataclass(frozen=True)
class ColumnStatistics:
    """Of a column: how many rows, how many of them null, and for numbers their sum and squares."""

    count: int = 0
    nulls: int = 0
    total: Number = 0
    squares: Number = 0

    @property
    def values(self) -> int:
        """How many are not null."""
        return self.count - self.nulls

    @property
    def null_rate(self) -> float | None:
        """The share of nulls; None of no rows."""
        return self.nulls / self.count if self.count else None

    @property
    def mean(self) -> float | None:
        """The mean; None of no values."""
        return float(self.total) / self.values if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of all values; None of no values."""
        if not self.values:
            return None
        if isinstance(self.total, float) or isinstance(self.squares, float):
            mean = float(self.total) / self.values
            variance = float(self.squares) / self.values - mean * mean
            return math.sqrt(variance) if variance > 0 else variance * 0
        exact = Fraction(self.squares) / self.values - (Fraction(self.total) / self.values) ** 2
        return math.sqrt(exact)

    @property
    def is_imprecise(self) -> bool:
        """Whether the deviation is too small, against the values, to be told from floats."""
        if not isinstance(self.squares, float) or not self.values:
            return False
        deviation = self.deviation or 0.0
        return not deviation**2 > _LOST * self.squares / self.values

    @property
    def is_finite(self) -> bool:
        """Whether no value is infinite or not a number."""
        return math.isfinite(self.total) and math.isfinite(self.squares)

    def has_lost_precision(self, before: ColumnStatistics) -> bool:
        """Whether too little is left, of what they were before something was taken away."""
        if not isinstance(self.squares, float):
            return False
        return before.squares != 0 and not self.squares > _LOST * float(before.squares)

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        return self._combine(other, 1)

    def __sub__(self, other: ColumnStatistics) -> ColumnStatistics:
        return self._combine(other, -1)

    def _combine(self, other: ColumnStatistics, sign: int) -> ColumnStatistics:
        return ColumnStatistics(
            self.count + sign * other.count,
            self.nulls + sign * other.nulls,
            _sum(self.total, other.total, sign),
            _sum(self.squares, other.squares, sign),
        )

    @classmethod
    def of(cls, values: pa.Array | pa.ChunkedArray) -> ColumnStatistics:
        """Those of some values."""
        nulls = values.null_count
        if not _is_number(values.type):
            return cls(len(values), nulls)
        return cls(len(values), nulls, _total(values), _squares(values))

    def to_json(self) -> list[Any]:
        """As plain values."""
        numbers = (self.total, self.squares)
        return [
            self.count,
            self.nulls,
            *(str(one) if isinstance(one, Decimal) else one for one in numbers),
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> ColumnStatistics:
        """The inverse of `to_json`."""
        count, nulls, *numbers = data
        total, squares = (Decimal(one) if isinstance(one, str) else one for one in numbers)
        return cls(count, nulls, total, squares)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _sum(one: Number, other: Number, sign: int) -> Number:
    """One and, or less, another; exactly, unless they are floats."""
    if isinstance(one, float) or isinstance(other, float):
        return float(one) + sign * float(other)
    with localcontext(prec=_DIGITS):
        return one + sign * other


def _squares(values: pa.Array | pa.ChunkedArray) -> Number:
    kind = values.type
    if pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.precision > 37):
        numbers = values.cast(pa.float64(), safe=False)
        return float(pc.sum(pc.multiply(numbers, numbers)).as_py() or 0.0)
    is_whole = pa.types.is_integer(kind)
    digits, scale = (19, 0) if is_whole else (kind.precision, kind.scale)
    wide = values.cast(pa.decimal256(digits, scale))
    found = pc.sum(pc.multiply(wide, wide)).as_py() or Decimal(0)
    return int(found) if is_whole else found


def _total(values: pa.Array | pa.ChunkedArray) -> Number:
    if pa.types.is_floating(values.type):
        return pc.sum(values).as_py() or 0.0
    if pa.types.is_integer(values.type):
        wide = values.cast(pa.decimal128(38, 0))
        return int(pc.sum(wide).as_py() or 0)
    return pc.sum(values.cast(pa.decimal128(38, values.type.scale))).as_py() or Decimal(0)


def _repeat_by_weight(changed: pa.Table, column: str, sign: int) -> pa.ChunkedArray:
    """The values that come (or go, if the sign is negative), as often as they do."""
    weights = changed.column(WEIGHT).to_numpy() * sign
    places = np.repeat(np.arange(len(weights)), np.maximum(weights, 0))
    return changed.column(column).take(pa.array(places))


Weighted = Callable[[str, str, str], pa.Table]


class Statistics:
    """The statistics of one pending change."""

    def __init__(self, graph: Graph, head: SnapshotRow | None, weighted: Weighted):
        self._graph = graph
        self._weighted = weighted
        self._cache: dict[tuple[str, str, str, bool], ColumnStatistics] = {}
        details: Mapping[str, Any] = {}
        if head is not None:
            details = graph.record(head.address).edge.details
        self._known: Mapping[str, list[Any]] = details.get(STATISTICS, {})

    def get(
        self,
        before: Version | None,
        after: Version | None,
        table: str,
        column: str,
        of: str,
        old: bool,
    ) -> ColumnStatistics:
        """Those of a column before (`old`) or after the change."""
        at = of, table, column, old
        if at not in self._cache:
            self._cache[at] = self._find(before, after, table, column, of, old)
        return self._cache[at]

    def _find(
        self,
        before: Version | None,
        after: Version | None,
        table: str,
        column: str,
        of: str,
        old: bool,
    ) -> ColumnStatistics:
        version = before if old else after
        if version is None:
            return ColumnStatistics()
        if old:
            then = self._name_then(version, after, column)
            for place, known in self._known.items():
                is_place = place.startswith(f"{of} ") and place.endswith(f".{then}")
                if is_place and known[0] == version.address.hex()[:16]:
                    return ColumnStatistics.from_json(known[1:])
            return self._scan_column(version, then)
        if before is None or before.definition != version.definition:
            return self._scan_column(version, column)
        was = self.get(before, after, table, column, of, True)
        if before.address == version.address:
            return was
        changed = self._weighted(table, column, of)
        come, gone = _repeat_by_weight(changed, column, 1), _repeat_by_weight(changed, column, -1)
        grown = was + ColumnStatistics.of(come)
        found = grown - ColumnStatistics.of(gone)
        is_sure = found.is_finite and not found.has_lost_precision(grown)
        return found if is_sure else self._scan_column(version, column)

    def _name_then(self, before: Version, after: Version | None, column: str) -> str:
        """What a column was called before the change."""
        if after is None or before.definition == after.definition:
            return column
        definition = self._graph.versions.definition
        return names_later(definition(after), definition(before)).get(column, column)

    def _scan_column(self, version: Version, column: str) -> ColumnStatistics:
        rows = self._graph.versions.rows(version)
        if column not in rows.schema.arrow.names:
            return ColumnStatistics()
        return ColumnStatistics.of(rows.to_arrow([column]).column(column))

    def kept_statistics(
        self, versions: Mapping[tuple[str, str], Version | None]
    ) -> dict[str, list[Any]]:
        """What is to be remembered: by side and table, which version it is of."""
        found: dict[str, list[Any]] = {}
        for (of, table, column, old), known in self._cache.items():
            version = versions.get((of, table))
            if not old and version is not None and known.is_finite:
                found[f"{of} {table}.{column}"] = [
                    version.address.hex()[:16],
                    *known.to_json(),
                ]
        return found
