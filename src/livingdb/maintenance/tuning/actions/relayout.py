"""Another layout for a table: what `relayout` does by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sqlalchemy import Connection

from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph
from livingdb.maintenance.layouts import lay_out, put_settings, table_settings
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain
from livingdb.maintenance.tuning.trial import try_layout
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.layout import Layout, TableLayout

__all__ = ["Relayout"]


@dataclass(frozen=True)
class Relayout:
    """Let trees of a table, by its identity, be made in a layout; None: that it was made with.

    `name` is what the table was called, and `words` say what is other than `before`.
    """

    subject: str
    name: str
    words: str
    before: TableLayout | None
    after: TableLayout | None

    kind: ClassVar[str] = "relayout"
    is_by_hand: ClassVar[bool] = False

    @classmethod
    def of(cls, table: ObservedTable, layout: Layout, words: str) -> Relayout:
        """Another layout for an observed table."""
        before = table.graph.index.table_settings(table.id).layout
        after = TableLayout.of(layout, table.schema)
        return cls(table.id, table.name, words, before, after)

    def __str__(self) -> str:
        return f"relayout {self.name}: {self.words}"

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return {
            "subject": self.subject,
            "name": self.name,
            "words": self.words,
            "before": None if self.before is None else self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        before, after = (
            None if data[which] is None else TableLayout.from_json(data[which])
            for which in ("before", "after")
        )
        return cls(data["subject"], data["name"], data["words"], before, after)

    def apply(self, graph: Graph, connection: Connection) -> None:
        """See `Action.apply`."""
        known = table_settings(graph, connection, self.subject)
        if known.layout != self.before:
            raise RuleViolation(
                f"table {self.name!r} was given another layout since: db.branch(…).relayout(…) "
                "gives it any"
            )
        put_settings(graph, connection, self.subject, replace(known, layout=self.after))

    def finish(self, graph: Graph, seconds: float) -> None:
        """See `Action.finish`."""
        lay_out(graph, seconds, of_table=self.subject)

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, before=self.after, after=self.before, words="as it was before")

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """See `Action.measure`."""
        table = evidence.table(self.subject)
        if table is None or self.after is None:
            return None
        layout = self.after.fit(table.schema)
        if replace(layout, projection=table.layout.projection) == table.layout:
            return None  # Spark alone would notice
        return try_layout(evidence.model, table, layout, seconds)
