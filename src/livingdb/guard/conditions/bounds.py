"""Conditions about how values are distributed: bounds for what distributions measure."""

from __future__ import annotations

from typing import Any

from livingdb.guard.conditions.kinds.distribution import (
    Distinct,
    DistinctShift,
    Ks,
    Mean,
    MeanShift,
    NullRate,
    Psi,
    Quantile,
    QuantileShift,
    Stddev,
    StddevShift,
    Zscore,
)
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import register_constructor

__all__ = [
    "distinct_count",
    "max_distinct_shift",
    "max_ks",
    "max_mean_shift",
    "max_null_rate",
    "max_psi",
    "max_quantile_shift",
    "max_stddev_shift",
    "max_zscore",
    "mean_between",
    "quantile_between",
    "stddev_between",
]


@register_constructor
def max_null_rate(
    column: str, rate: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """At most such a share of the rows has no value in a column."""
    return Bound(NullRate(column, table=table, of=of), at_most=rate, **how)


@register_constructor
def mean_between(
    column: str,
    at_least: float | None = None,
    at_most: float | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """The mean of a column lies between two numbers."""
    return Bound(Mean(column, table=table, of=of), at_least, at_most, **how)


@register_constructor
def max_mean_shift(
    column: str, share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """The mean of a column changes at most by such a share of it."""
    return Bound(MeanShift(column, table=table, of=of), at_most=share, **how)


@register_constructor
def stddev_between(
    column: str,
    at_least: float | None = None,
    at_most: float | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """The standard deviation of a column lies between two numbers."""
    return Bound(Stddev(column, table=table, of=of), at_least, at_most, **how)


@register_constructor
def max_stddev_shift(
    column: str, share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """The standard deviation of a column changes at most by such a share of it."""
    return Bound(StddevShift(column, table=table, of=of), at_most=share, **how)


@register_constructor
def distinct_count(
    column: str,
    at_least: int | None = None,
    at_most: int | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """A column has so many different values."""
    return Bound(Distinct(column, table=table, of=of), at_least, at_most, **how)


@register_constructor
def max_distinct_shift(
    column: str, share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """The number of different values changes at most by such a share of it."""
    return Bound(DistinctShift(column, table=table, of=of), at_most=share, **how)


@register_constructor
def quantile_between(
    column: str,
    q: float,
    at_least: float | None = None,
    at_most: float | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """A quantile of a column lies between two numbers."""
    return Bound(Quantile(column, q, table=table, of=of), at_least, at_most, **how)


@register_constructor
def max_quantile_shift(
    column: str, q: float, share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """A quantile of a column changes at most by such a share of it."""
    return Bound(QuantileShift(column, q, table=table, of=of), at_most=share, **how)


@register_constructor
def max_psi(
    column: str,
    index: float = 0.2,
    bins: int = 10,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """The population stability index between a column before and after stays below a number."""
    return Bound(Psi(column, bins, table=table, of=of), at_most=index, **how)


@register_constructor
def max_ks(
    column: str, distance: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """The distributions before and after lie apart at most so far, from 0 to 1."""
    return Bound(Ks(column, table=table, of=of), at_most=distance, **how)


@register_constructor
def max_zscore(metric: Metric, deviations: float = 3.0, last: int = 20, **how: Any) -> Bound:
    """A number is at most so many standard deviations from what it was at the last changes."""
    return Bound(Zscore(metric, last), at_most=deviations, **how)
