"""An action: something that can be done to a database, and undone, that no reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from sqlalchemy import Connection

from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain

__all__ = ["Action"]


class Action(Protocol):
    """What is done, as plain values, so that it can be written down.

    An action names its subject by identity: a table, or a sync.  What `is_by_hand` is advised, and
    done by nobody but users.
    """

    kind: ClassVar[str]
    is_by_hand: ClassVar[bool]

    @property
    def subject(self) -> str:
        """The identity of what it is about."""
        ...

    def __str__(self) -> str:
        """What it does, in words."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The action as plain values."""
        ...

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        ...

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Do it, in the transaction that writes it down; `RuleViolation` if it does not apply."""
        ...

    def finish(self, graph: Graph, seconds: float) -> None:
        """Begin with what follows from it; the runner goes on where the time was not enough."""
        ...

    def inverse(self) -> Self:
        """What undoes it."""
        ...

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """What it gained where it was tried, hidden; None where it cannot be tried.

        `OutOfTime` if so many seconds are not enough.
        """
        ...
