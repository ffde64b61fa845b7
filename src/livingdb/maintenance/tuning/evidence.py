"""What advisors look at: the observed tables, the cost model, and what was done before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from livingdb.catalog.tuning import TuningRow
from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.calibrate import cost_model
from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.workload import ObservedTable, observed_tables

__all__ = ["Evidence"]


@dataclass(frozen=True)
class Evidence:
    """A database at a time, in microseconds; what costs something is asked for once."""

    graph: Graph
    now: int

    @cached_property
    def tables(self) -> Sequence[ObservedTable]:
        """The tables that were observed."""
        return observed_tables(self.graph, self.now)

    @cached_property
    def model(self) -> CostModel:
        """The cost model of the database."""
        return cost_model(self.graph)

    @cached_property
    def records(self) -> Sequence[TuningRow]:
        """What was advised, tried and done before, the oldest first."""
        return self.graph.catalog.tuning.all()

    def table(self, subject: str) -> ObservedTable | None:
        """An observed table by its identity."""
        return next((table for table in self.tables if table.id == subject), None)
