"""How far a derived object is behind what it reads."""

from __future__ import annotations

__all__ = ["Lag"]


class Lag(int):
    """How many snapshots of its sources a derived object has not seen; `seconds`: for how long."""

    seconds: float

    def __new__(cls, snapshots: int, seconds: float = 0.0) -> Lag:
        """So many snapshots, for so long."""
        made = super().__new__(cls, snapshots)
        made.seconds = seconds
        return made

    @property
    def snapshots(self) -> int:
        """How many snapshots."""
        return int(self)

    def __repr__(self) -> str:
        unit = "snapshot" if int(self) == 1 else "snapshots"
        return f"Lag({int(self)} {unit}, {self.seconds:.1f} s)"
