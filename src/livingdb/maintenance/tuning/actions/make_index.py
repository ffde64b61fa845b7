"""An index on other columns of a table than its key: what `create_index` does by hand."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sqlalchemy import Connection

from livingdb.errors import MaskKeyMissing, RuleViolation, Untrusted
from livingdb.graph.graph import Graph
from livingdb.maintenance.layouts import put_settings, table_settings
from livingdb.maintenance.tuning.actions.store import head_versions
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain
from livingdb.maintenance.tuning.try_index import try_index
from livingdb.tables.layout import TableIndex

__all__ = ["MakeIndex"]


@dataclass(frozen=True)
class MakeIndex:
    """Let rows of a table, by its identity, be found by columns, by theirs; or let them not be.

    `index` is the name by which users can drop it, and `words` are what was indexed.
    """

    subject: str
    index: str
    columns: tuple[str, ...]
    words: str
    is_made: bool = True

    kind: ClassVar[str] = "index"
    is_by_hand: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{'index' if self.is_made else 'drop the index on'} {self.words}"

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return {**vars(self), "columns": list(self.columns)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        return cls(**{**data, "columns": tuple(data["columns"])})

    def apply(self, graph: Graph, connection: Connection) -> None:
        """See `Action.apply`."""
        known = table_settings(graph, connection, self.subject)
        mine = TableIndex(self.index, self.columns)
        columns = [index.columns for index in known.indexes]
        is_there = self.columns in columns if self.is_made else mine in known.indexes
        if is_there is self.is_made:
            raise RuleViolation(
                f"the index on {self.words} was {'made' if self.is_made else 'dropped'} since"
            )
        rest = tuple(index for index in known.indexes if index != mine)
        indexes = (*rest, mine) if self.is_made else rest
        put_settings(graph, connection, self.subject, replace(known, indexes=indexes))

    def finish(self, graph: Graph, seconds: float) -> None:
        """See `Action.finish`: what is not indexed yet is read as before."""
        if not self.is_made:
            return
        end = clock.perf_counter() + seconds
        for version in head_versions(graph, self.subject):
            if clock.perf_counter() >= end:
                break
            try:
                graph.versions.indexes.ensure(version)
            except (MaskKeyMissing, Untrusted):
                continue  # it is for somebody else to do
        graph.upkeep.save_indexes()
        with graph.catalog.write() as connection:  # others saw an index without entries
            graph.catalog.raise_epoch(connection)
        graph.observe_now()

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, is_made=not self.is_made)

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """What reads took that look for rows by its column, and would with it."""
        table = evidence.table(self.subject)
        columns = [] if table is None else table.schema.stored_columns
        column = next((column for column in columns if column.id == self.columns[0]), None)
        if table is None or column is None:
            return None
        return try_index(evidence.model, table, column, seconds)
