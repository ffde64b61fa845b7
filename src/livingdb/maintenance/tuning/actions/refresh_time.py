"""When a view that may be behind is refreshed within its lag: early, or as late as is safe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from sqlalchemy import Connection

from livingdb.graph.graph import Graph
from livingdb.graph.schedule import HALF
from livingdb.maintenance.tuning.actions.plain_action import PlainAction
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain

__all__ = ["RefreshTime"]


@dataclass(frozen=True)
class RefreshTime(PlainAction):
    """Let a sync, by its identity, be due after such a share of its lag."""

    subject: str
    name: str
    share: float
    before: float = HALF

    kind: ClassVar[str] = "refresh"
    is_by_hand: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"refresh {self.name} after {100 * self.share:.0f} % of its lag"

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Nothing more is to be written down: the record is what the runner goes by."""
        self.require_alone(graph, connection)

    def finish(self, graph: Graph, seconds: float) -> None:
        """Nothing follows."""

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, share=self.before, before=self.share)

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """It is a matter of hours: later runs tell."""
        return None
