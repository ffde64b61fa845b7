"""How far the target of a sync is behind what it reads."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Lag"]


class Lag(int):
    """How many snapshots of its sources a target has not seen; `seconds`: for how long.

    `sources` has the number for each source branch, by its name; None: the branch was dropped.
    `reason` says what an active sync waits for, if that is more than its time.
    """

    seconds: float
    sources: Mapping[str, int | None]
    reason: str

    def __new__(
        cls,
        snapshots: int,
        seconds: float = 0.0,
        sources: Mapping[str, int | None] | None = None,
        reason: str = "",
    ) -> Lag:
        """So many snapshots, for so long."""
        made = super().__new__(cls, snapshots)
        made.seconds = seconds
        made.sources = dict(sources or {})
        made.reason = reason
        return made

    @property
    def snapshots(self) -> int:
        """How many snapshots."""
        return int(self)

    def __repr__(self) -> str:
        unit = "snapshot" if int(self) == 1 else "snapshots"
        why = f": {self.reason}" if self.reason else ""
        return f"Lag({int(self)} {unit}, {self.seconds:.1f} s{why})"
