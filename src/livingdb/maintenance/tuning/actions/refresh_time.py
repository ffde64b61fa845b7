"""When a view that may be behind is refreshed within its lag: early, or as late as is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sqlalchemy import Connection

from livingdb.graph.graph import Graph
from livingdb.graph.schedule import HALF
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain

__all__ = ["RefreshTime"]


@dataclass(frozen=True)
class RefreshTime:
    """Let a sync, by its identity, be due after such a share of its lag."""

    subject: str
    name: str
    share: float
    before: float = HALF

    kind: ClassVar[str] = "refresh"
    is_by_hand: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"refresh {self.name} after {100 * self.share:.0f} % of its lag"

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        return cls(**data)

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Nothing more is to be written down: the record is what the runner goes by."""

    def finish(self, graph: Graph, seconds: float) -> None:
        """Nothing follows."""

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, share=self.before, before=self.share)

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """It is a matter of hours: later runs tell."""
        return None
