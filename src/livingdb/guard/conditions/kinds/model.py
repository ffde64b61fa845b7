"""Models: what they say of themselves, against the one before, and what they are trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.errors import InvalidData
from livingdb.guard.conditions.kinds.distribution import Psi
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "METRICS",
    "Score",
    "ScoreDrop",
    "max_feature_drift",
    "max_score_drop",
    "min_score",
]

METRICS = "metrics"
"""What the details of an edge have them under."""


def _number(metrics: Mapping[str, Any], name: str) -> float | int | None:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) else None


@register
@dataclass(frozen=True)
class Score(Metric):
    """A metric that the model reports; `InvalidData` if it does not."""

    metric: str

    NAME: ClassVar[str] = "score"
    OF_MODEL: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or not self.metric:
            raise InvalidData(f"{self.NAME}: name a metric of the model, not {self.metric!r}")

    def measure(self, pending: PendingChange) -> float | int | None:
        """See `Metric.measure`."""
        found = _number(pending.metrics, self.metric)
        if found is None:
            known = ", ".join(sorted(pending.metrics)) or "nothing"
            raise InvalidData(f"the model reports no number {self.metric!r}; it reports {known}")
        return found


@register
@dataclass(frozen=True)
class ScoreDrop(Score):
    """How much lower a metric is than that of the model there is; less than 0 if it is higher."""

    NAME: ClassVar[str] = "score_drop"

    def measure(self, pending: PendingChange) -> float | int | None:
        """See `Metric.measure`; nothing of the first model."""
        found = super().measure(pending)
        if pending.head is None or found is None:
            return None
        details = pending.graph.record(pending.head.address).edge.details
        before = _number(details.get(METRICS, {}), self.metric)
        return None if before is None else before - found


@register_constructor
def min_score(metric: str, value: float, **how: Any) -> Bound:
    """A metric of the model is at least so high."""
    return Bound(Score(metric), at_least=value, **how)


@register_constructor
def max_score_drop(metric: str, by: float, **how: Any) -> Bound:
    """A metric of the model is at most so much lower than that of the model there is."""
    return Bound(ScoreDrop(metric), at_most=by, **how)


@register_constructor
def max_feature_drift(column: str, psi: float = 0.2, bins: int = 10, **how: Any) -> Bound:
    """What the model is trained on is distributed as before: max_feature_drift('orders.amount')."""
    return Bound(Psi(column, bins, of="source"), at_most=psi, **how)
