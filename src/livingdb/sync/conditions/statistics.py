"""What is known of a column: count, nulls, sum and squares, kept from change to change.

A change brings them up to date by the values that go and come; a whole column is read only when
nothing is known of it, as at the first change that a condition asks about.  They are remembered
in the edges of the target's snapshots, so that another process need not begin anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.model import WEIGHT
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["STATISTICS", "ColumnStatistics", "Statistics"]

STATISTICS = "statistics"
"""What the details of an edge have them under."""

Number = int | float | Decimal


@dataclass(frozen=True)
class ColumnStatistics:
    """Of a column: how many rows, how many of them null, and for numbers their sum and squares."""

    count: int = 0
    nulls: int = 0
    total: Number = 0
    squares: float = 0.0

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
        mean = self.mean
        if mean is None:
            return None
        return math.sqrt(max(0.0, self.squares / self.values - mean * mean))

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        return self._with(other, 1)

    def __sub__(self, other: ColumnStatistics) -> ColumnStatistics:
        return self._with(other, -1)

    def _with(self, other: ColumnStatistics, sign: int) -> ColumnStatistics:
        one, two = self.total, other.total
        if isinstance(one, float) != isinstance(two, float):
            one, two = float(one), float(two)
        return ColumnStatistics(
            self.count + sign * other.count,
            self.nulls + sign * other.nulls,
            one + sign * two,  # type: ignore[operator]
            self.squares + sign * other.squares,
        )

    @classmethod
    def of(cls, values: pa.Array | pa.ChunkedArray) -> ColumnStatistics:
        """Those of some values."""
        nulls = values.null_count
        if not _is_number(values.type):
            return cls(len(values), nulls)
        numbers = values.cast(pa.float64(), safe=False)
        squares = pc.sum(pc.multiply(numbers, numbers)).as_py() or 0.0
        return cls(len(values), nulls, _total(values), squares)

    def to_json(self) -> list[Any]:
        """As plain values."""
        total = str(self.total) if isinstance(self.total, Decimal) else self.total
        return [self.count, self.nulls, total, self.squares]

    @classmethod
    def from_json(cls, data: list[Any]) -> ColumnStatistics:
        """The inverse of `to_json`."""
        count, nulls, total, squares = data
        return cls(count, nulls, Decimal(total) if isinstance(total, str) else total, squares)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _total(values: pa.Array | pa.ChunkedArray) -> Number:
    if pa.types.is_floating(values.type):
        return pc.sum(values).as_py() or 0.0
    if pa.types.is_integer(values.type):
        wide = values.cast(pa.decimal128(38, 0))
        return int(pc.sum(wide).as_py() or 0)
    return pc.sum(values.cast(pa.decimal128(38, values.type.scale))).as_py() or Decimal(0)


def _repeated(changed: pa.Table, column: str, sign: int) -> pa.ChunkedArray:
    """The values that come (or go, if the sign is negative), as often as they do."""
    weights = changed.column(WEIGHT).to_numpy() * sign
    places = np.repeat(np.arange(len(weights)), np.maximum(weights, 0))
    return changed.column(column).take(pa.array(places))


Weighted = Callable[[str, str, str], pa.Table]


class Statistics:
    """The statistics of one crossing."""

    def __init__(self, graph: Graph, head: SnapshotRow | None, weighted: Weighted):
        self._graph = graph
        self._weighted = weighted
        self._found: dict[tuple[str, str, str, bool], ColumnStatistics] = {}
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
        if at not in self._found:
            self._found[at] = self._find(before, after, table, column, of, old)
        return self._found[at]

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
            known = self._known.get(f"{of} {table}.{column}")
            if known is not None and known[0] == version.address.hex()[:16]:
                return ColumnStatistics.from_json(known[1:])
            return self._scanned(version, column)
        if before is None or before.definition != version.definition:
            return self._scanned(version, column)
        was = self.get(before, after, table, column, of, True)
        if before.address == version.address:
            return was
        changed = self._weighted(table, column, of)
        come, gone = _repeated(changed, column, 1), _repeated(changed, column, -1)
        return was + ColumnStatistics.of(come) - ColumnStatistics.of(gone)

    def _scanned(self, version: Version, column: str) -> ColumnStatistics:
        rows = self._graph.versions.rows(version)
        if column not in rows.schema.arrow.names:
            return ColumnStatistics()
        return ColumnStatistics.of(rows.to_arrow([column]).column(column))

    def kept(self, versions: Mapping[tuple[str, str], Version | None]) -> dict[str, list[Any]]:
        """What is to be remembered: by side and table, which version it is of."""
        found: dict[str, list[Any]] = {}
        for (of, table, column, old), known in self._found.items():
            version = versions.get((of, table))
            if not old and version is not None:
                found[f"{of} {table}.{column}"] = [
                    version.address.hex()[:16],
                    *known.to_json(),
                ]
        return found
