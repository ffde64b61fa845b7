"""How values are distributed: means and deviations are kept from change to change; distinct
counts, quantiles and distances between distributions read the column."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.errors import InvalidData
from livingdb.guard.conditions.column_names import identified_text, resolve_column
from livingdb.guard.conditions.kinds.distances import (
    deviation_of,
    distinct_count,
    kolmogorov_smirnov,
    population_stability,
    quantile_of,
)
from livingdb.guard.conditions.metric import Metric, metric_of
from livingdb.guard.conditions.registry import register

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange
    from livingdb.guard.conditions.statistics import ColumnStatistics

__all__ = [
    "Distinct",
    "DistinctShift",
    "Ks",
    "Mean",
    "MeanShift",
    "NullRate",
    "Psi",
    "Quantile",
    "QuantileShift",
    "Stddev",
    "StddevShift",
    "Zscore",
]

_FEW = 5
"""Of so few changes nothing is said."""


@dataclass(frozen=True)
class ColumnMetric(Metric):
    """A number that says something about a column."""

    column: str
    table: str | None = field(default=None, kw_only=True)
    of: str = field(default="target", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidData(f"{self.NAME}: name a column, not {self.column!r}")

    def place(self, pending: PendingChange) -> tuple[str, str]:
        """The table and the column."""
        return resolve_column(pending, self.column, self.table, self.of)

    def _statistics(self, pending: PendingChange, old: bool = False) -> ColumnStatistics:
        return pending.statistics(*self.place(pending), self.of, old)

    def _deviation(self, pending: PendingChange, old: bool = False) -> float | None:
        known = self._statistics(pending, old)
        return deviation_of(self._values(pending, old)) if known.is_imprecise else known.deviation

    def _values(self, pending: PendingChange, old: bool = False) -> Any:
        return pending.values(*self.place(pending), self.of, old)

    def _is_same(self, pending: PendingChange) -> bool:
        """Whether the table does not change."""
        return pending.side(self.of)[self.place(pending)[0]].is_same

    def _has_old(self, pending: PendingChange) -> bool:
        """Whether there was such a column."""
        table, column = self.place(pending)
        rows = pending.rows(table, self.of, old=True)
        return rows is not None and column in rows.schema.arrow.names


def _relative_shift(new: float | None, old: float | None) -> float | None:
    """By which share of the old value the new one differs; from 0, by how much."""
    if new is None or old is None:
        return None
    return abs(new - old) / (abs(old) or 1.0)


@register
@dataclass(frozen=True)
class NullRate(ColumnMetric):
    """The share of rows without a value."""

    NAME: ClassVar[str] = "null_rate"
    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self._statistics(pending).null_rate


@register
@dataclass(frozen=True)
class Mean(ColumnMetric):
    """The mean of the values."""

    NAME: ClassVar[str] = "mean"

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self._statistics(pending).mean


@register
@dataclass(frozen=True)
class MeanShift(ColumnMetric):
    """By which share the mean changes."""

    NAME: ClassVar[str] = "mean_shift"
    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return _relative_shift(
            self._statistics(pending).mean, self._statistics(pending, old=True).mean
        )


@register
@dataclass(frozen=True)
class Stddev(ColumnMetric):
    """The standard deviation of the values."""

    NAME: ClassVar[str] = "stddev"

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self._deviation(pending)


@register
@dataclass(frozen=True)
class StddevShift(ColumnMetric):
    """By which share the standard deviation changes."""

    NAME: ClassVar[str] = "stddev_shift"
    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return _relative_shift(self._deviation(pending), self._deviation(pending, old=True))


@register
@dataclass(frozen=True)
class Distinct(ColumnMetric):
    """How many different values there are; null is none."""

    NAME: ClassVar[str] = "distinct"

    def measure(self, pending: PendingChange) -> int | None:
        """See `Metric.measure`; of a column that is the key, the rows are counted."""
        return self._count(pending, old=False)

    def _count(self, pending: PendingChange, old: bool) -> int:
        table, column = self.place(pending)
        rows = pending.rows(table, self.of, old)
        if rows is None or column not in rows.schema.arrow.names:
            return 0
        if rows.schema.key == (column,) and not rows.schema.key_columns[0].nullable:
            before, after = pending.rows_before, pending.rows_after
            return (before if old else after)(table, self.of)
        return distinct_count(self._values(pending, old))


@register
@dataclass(frozen=True)
class DistinctShift(Distinct):
    """By which share the number of different values changes."""

    NAME: ClassVar[str] = "distinct_shift"
    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:  # type: ignore[override]
        """See `Metric.measure`."""
        if not self._has_old(pending):
            return None
        if self._is_same(pending):
            return 0.0
        return _relative_shift(self._count(pending, old=False), self._count(pending, old=True))


@register
@dataclass(frozen=True)
class Quantile(ColumnMetric):
    """The value below which a share of the values lies; of times, in microseconds since 1970."""

    q: float = 0.5

    NAME: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(self.q, (int, float)) and not isinstance(self.q, bool)
        if not is_number or not 0 <= self.q <= 1:
            raise InvalidData(f"{self.NAME}: q={self.q!r} is no number from 0 to 1")

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return quantile_of(self._values(pending), self.q)


@register
@dataclass(frozen=True)
class QuantileShift(Quantile):
    """By which share a quantile changes."""

    NAME: ClassVar[str] = "quantile_shift"
    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        if not self._has_old(pending):
            return None
        if self._is_same(pending):
            return 0.0
        old, new = self._values(pending, old=True), self._values(pending)
        return _relative_shift(quantile_of(new, self.q), quantile_of(old, self.q))


@dataclass(frozen=True)
class _Distance(ColumnMetric):
    """How far the values after a change are from those before."""

    def _distance(
        self, pending: PendingChange, distance: Callable[[Any, Any], float | None]
    ) -> float | None:
        if not self._has_old(pending):
            return None
        if self._is_same(pending):
            return 0.0
        return distance(self._values(pending, old=True), self._values(pending))


@register
@dataclass(frozen=True)
class Psi(_Distance):
    """The population stability index: below 0.1 is steady, above 0.2 another distribution.

    Numbers and times are counted in as many bins as there are quantiles of the old ones, other
    values one by one; nulls are a bin of their own.
    """

    bins: int = 10

    NAME: ClassVar[str] = "psi"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or self.bins < 2:
            raise InvalidData(f"psi: bins={self.bins!r} is no number from 2 on")

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self._distance(pending, lambda old, new: population_stability(old, new, self.bins))


@register
@dataclass(frozen=True)
class Ks(_Distance):
    """The statistic of Kolmogorov and Smirnov: how far two distributions lie apart at most."""

    NAME: ClassVar[str] = "ks"

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self._distance(pending, kolmogorov_smirnov)


@register
@dataclass(frozen=True)
class Zscore(Metric):
    """How many standard deviations a number is from what it was at the last changes.

    What is remembered with the change is the number itself.  Until it is known of five changes,
    nothing is said.
    """

    metric: Metric
    last: int = 20

    NAME: ClassVar[str] = "zscore"
    HAS_HISTORY: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", metric_of(self.metric))
        if not isinstance(self.metric, Metric) or isinstance(self.metric, Zscore):
            raise InvalidData(f"zscore: {self.metric!r} is nothing that can be measured")
        if not isinstance(self.last, int) or isinstance(self.last, bool) or self.last < _FEW:
            raise InvalidData(f"zscore: last={self.last!r} is no number from {_FEW} on")

    @property
    def is_of_model(self) -> bool:
        """See `NamedValue.is_of_model`."""
        return self.metric.is_of_model

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`."""
        return self.measurement_pair(pending, self.text)[0]

    def measurement_pair(
        self, pending: PendingChange, text: str
    ) -> tuple[float | None, float | None]:
        """See `Metric.measurement_pair`."""
        value = self.metric.measure(pending)
        if value is None:
            return None, None
        past = pending.past_measurements(identified_text(self, pending), text, self.last)
        if len(past) < _FEW:
            return None, value
        usual, spread = statistics.fmean(past), statistics.pstdev(past)
        apart = abs(value - usual)
        if spread <= 1e-12 * abs(usual):
            return (0.0 if apart <= 1e-9 * abs(usual) else math.inf), value
        return apart / spread, value
