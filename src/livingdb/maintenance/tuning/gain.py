"""What an advice is worth, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["MOST_WORSE", "Gain", "OutOfTime", "Price", "worst_ratio"]

MOST_WORSE = 1.05
"""No kind of work may take so much longer after a change, however much others gain."""
_WEIGHTY = 0.01


def worst_ratio(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How much longer that kind of work takes which loses most; kinds that weigh nothing aside."""
    least = _WEIGHTY * sum(before.values())
    kinds = [kind for kind in {**before, **after} if after.get(kind, 0.0) > least]
    return max((after[kind] / max(before.get(kind, 0.0), least) for kind in kinds), default=1.0)


class OutOfTime(Exception):
    """There was not enough time to try something."""


class Gain(float):
    """The seconds that the observed work takes less: what it took `before`, and takes `after`."""

    before: float
    after: float

    def __new__(cls, before: float, after: float) -> Gain:
        """The gain between two costs, in seconds."""
        made = super().__new__(cls, before - after)
        made.before, made.after = before, after
        return made

    @property
    def share(self) -> float:
        """The gain as a share of what the work took before."""
        return float(self) / self.before if self.before > 0 else 0.0

    def __str__(self) -> str:
        told = f"{_seconds(self.before)} to {_seconds(self.after)}"
        return f"{told} ({-100 * self.share:+.0f} %)" if self.before > 0 else told

    def __repr__(self) -> str:
        return f"Gain({self.before:.6g}, {self.after:.6g})"

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.before, self.after

    def to_json(self) -> dict[str, float]:
        """The gain as plain values."""
        return {"before": self.before, "after": self.after}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Gain | None:
        """The inverse of `to_json`; None for None."""
        return None if data is None else cls(float(data["before"]), float(data["after"]))


@dataclass(frozen=True)
class Price:
    """What an advice costs once: seconds of work, and bytes that are stored more, or less."""

    seconds: float = 0.0
    bytes: int = 0

    def __str__(self) -> str:
        parts = [_seconds(self.seconds)] if self.seconds >= 0.0005 else []
        parts += [f"{self.bytes:+,} bytes"] if self.bytes else []
        return ", ".join(parts) or "nothing"


def _seconds(seconds: float) -> str:
    if abs(seconds) >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if abs(seconds) >= 1 else f"{1000 * seconds:.3g} ms"
