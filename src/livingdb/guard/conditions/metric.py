"""What can be measured of a pending change, and bounds for it: `changed_share <= 0.2`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.errors import InvalidData
from livingdb.guard.conditions.column_names import identified_text
from livingdb.guard.conditions.condition import (
    Condition,
    NamedValue,
    Verdict,
    make,
)
from livingdb.guard.conditions.registry import named_class, register

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["Bound", "Metric", "metric_of"]


@dataclass(frozen=True)
class Metric(NamedValue, ABC):
    """A number that says something about a pending change.

    Compared with a number it is a condition: `changed_share() <= 0.2`.
    """

    IS_SHARE: ClassVar[bool] = False
    """Whether it is shown in percent."""

    HAS_HISTORY: ClassVar[bool] = False
    """Whether it is compared with what it was at earlier changes."""

    @abstractmethod
    def measure(self, pending: PendingChange) -> float | int | None:
        """The number; None where there is nothing to measure, and nothing to object to."""

    def measurement_pair(
        self, pending: PendingChange, text: str
    ) -> tuple[float | None, float | None]:
        """The number that is compared, and that which is remembered under a condition's text."""
        value = self.measure(pending)
        return value, value

    def __le__(self, most: float) -> Bound:
        return Bound(self, at_most=most)

    def __lt__(self, most: float) -> Bound:
        return Bound(self, at_most=most, is_open=True)

    def __ge__(self, least: float) -> Bound:
        return Bound(self, at_least=least)

    def __gt__(self, least: float) -> Bound:
        return Bound(self, at_least=least, is_open=True)

    def between(self, least: float, most: float) -> Bound:
        """It has to lie between two numbers, or be one of them."""
        return Bound(self, at_least=least, at_most=most)

    def render_value(self, value: float) -> str:
        """A value in words."""
        if self.IS_SHARE:
            return f"{value:.4g} ({value:.2%})"
        return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


@register
@dataclass(frozen=True)
class Bound(Condition):
    """A metric has to stay within bounds, which belong to them unless they are open."""

    metric: Metric
    at_least: float | int | None = None
    at_most: float | int | None = None
    is_open: bool = False

    NAME: ClassVar[str] = "bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "metric", metric_of(self.metric))
        if not isinstance(self.metric, Metric):
            raise InvalidData(f"{self.metric!r} is nothing that can be measured")
        given = [edge for edge in (self.at_least, self.at_most) if edge is not None]
        if not given or any(not _is_number(edge) for edge in given):
            raise InvalidData(f"{self.metric.text} is compared with a number, not {given}")

    @property
    def is_of_change(self) -> bool:
        """See `NamedValue.is_of_change`."""
        return self.metric.is_of_change

    @property
    def is_of_model(self) -> bool:
        """See `NamedValue.is_of_model`."""
        return self.metric.is_of_model

    @property
    def text(self) -> str:
        """The comparison."""
        if self.at_least is not None and self.at_most is not None:
            if self.is_open:
                return f"bound({self.metric.text}, {self.at_least}, {self.at_most}, true)"
            return f"{self.metric.text} BETWEEN {self.at_least} AND {self.at_most}"
        equal = "" if self.is_open else "="
        if self.at_most is not None:
            return f"{self.metric.text} <{equal} {self.at_most}"
        return f"{self.metric.text} >{equal} {self.at_least}"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        value, kept = self.metric.measurement_pair(pending, self.text)
        if kept is not None and not math.isfinite(kept):
            kept = None
        history = {}
        if kept is not None and self.metric.HAS_HISTORY:
            history[identified_text(self.metric, pending)] = kept
        return Verdict(None if value is None else self._problem(value), kept, history=history)

    def _problem(self, value: float) -> str | None:
        shown = f"{self.metric.text} is {self.metric.render_value(value)}"
        most, least = self.at_most, self.at_least
        word = "less" if self.is_open else "at most"
        if most is not None and not (value < most if self.is_open else value <= most):
            than = f"less than {most}" if self.is_open else f"{word} {most}"
            return f"{shown}; {than} is allowed"
        if least is not None and not (value > least if self.is_open else value >= least):
            than = f"more than {least}" if self.is_open else f"at least {least}"
            return f"{shown}; {than} is expected"
        return None


def metric_of(given: Any) -> Any:
    """A metric by its name, if it is one that needs nothing else; anything else as it is."""
    known = named_class(given) if isinstance(given, str) else None
    if known is None or not issubclass(known, Metric):
        return given
    return make(known, (), {})


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
