"""What it costs to maintain a stage and to make it anew, so that the cheaper can be chosen.

The unit is a microsecond of one core, as measured with the embedded engine on tables of 200,000
rows under UNION, INTERSECT, EXCEPT and DISTINCT (`docs/design/derived.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FLOOR_ROWS", "RefreshCost"]

FLOOR_ROWS = 1000
"""Up to so many changed rows nothing is estimated: they are followed."""

_CHANGED_ROW = 4.0
"""To find a changed row, work out what it changes, and store that."""
_SCANNED_ROW = 0.2
"""To look at a row of a source for the values of changed rows."""
_READ_ROW = 0.25
"""To read a row of a source, and answer the query over it."""
_STORED_ROW = 1.1
"""To build a row of the answer into trees, and compare it with what is held."""
_JOB = 500_000.0
"""To run anything on Spark."""


@dataclass(frozen=True)
class RefreshCost:
    """What decides: how many rows changed at most, how many the sources have and are held."""

    strategy: str
    changed: int
    sources: int
    held: int
    is_spark: bool = False

    @property
    def of_maintaining(self) -> float:
        """To follow what changed; touched values are looked for among all rows of the sources."""
        scanned = self.sources if self.strategy == "touched" else 0
        return _CHANGED_ROW * self.changed + _SCANNED_ROW * scanned

    @property
    def of_recomputing(self) -> float:
        """To answer everything again."""
        job = _JOB if self.is_spark else 0.0
        return job + _READ_ROW * self.sources + _STORED_ROW * self.held

    @property
    def is_full_cheaper(self) -> bool:
        """Whether everything is made anew sooner."""
        return self.changed > FLOOR_ROWS and self.of_maintaining > self.of_recomputing
