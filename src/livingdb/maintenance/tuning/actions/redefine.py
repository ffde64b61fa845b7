"""Another definition of a view: advised, and left to users, who see it in the view's history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sqlalchemy import Connection

from livingdb.errors import Unsupported
from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.actions.plain_action import PlainAction
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain

__all__ = ["Redefine"]


@dataclass(frozen=True)
class Redefine(PlainAction):
    """Derive a view, by the identity of its sync, again: with materialize='none', for instance."""

    subject: str
    name: str
    materialize: str

    kind: ClassVar[str] = "redefine"
    is_by_hand: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"derive {self.name} again with materialize={self.materialize!r}"

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Refused: a definition is the user's, and another one is a snapshot of the view."""
        raise Unsupported(f"{self}: by hand, with branch.derive({self.name!r}, …, replace=True)")

    def finish(self, graph: Graph, seconds: float) -> None:
        """Nothing follows."""

    def inverse(self) -> Self:
        """It is never done here."""
        raise Unsupported(f"{self}: it is done, and undone, by hand")

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """It cannot be tried without being done."""
        return None
