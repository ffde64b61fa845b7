"""What actions share that are written down field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sqlalchemy import Connection

from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph

__all__ = ["PlainAction"]


class PlainAction:
    """An action, a dataclass, whose fields are plain values already."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        return cls(**data)

    def require_alone(self, graph: Graph, connection: Connection) -> None:
        """`RuleViolation` if another record has the same in force, where that is all there is."""
        applied = graph.catalog.tuning.applied(connection)
        same = [row for row in applied if row.action == self.kind]
        if [row.details["action"] for row in same].count(self.to_json()) > 1:
            raise RuleViolation(f"{self}: somebody else has done that since")
