"""Where a row lies along the first-parent lines of branches, tags and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.graph.graph import Graph, tables_of
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tracing.blame.version_stretches import changing_snapshots
from livingdb.tracing.whereabouts.row_periods import Period, periods
from livingdb.tracing.whereabouts.row_schemas import KnownRow

__all__ = ["HistoryLines", "LocatedRow"]


@dataclass(frozen=True)
class LocatedRow:
    """A row on a line of history: what it is there, since when, and how."""

    kind: str
    name: str
    head: SnapshotRow
    known: KnownRow
    key: Mapping[str, Any] | None
    how: str
    periods: Sequence[Period]


class HistoryLines:
    """Looks for rows along lines of history."""

    def __init__(self, graph: Graph, with_hidden: bool = False):
        self._graph = graph
        self._with_hidden = with_hidden
        """Whether rows count that are there under keys which nobody here can tell."""

    def find_rows(
        self, kind: str, name: str, head: SnapshotRow, rows: Iterable[KnownRow]
    ) -> Iterator[LocatedRow]:
        """The rows on a line of history, each with the times it was there."""
        for known in rows:
            schema = self.schema(head, known.table)
            if schema is None or (known.is_locked and not self._with_hidden):
                continue
            hidden = {c.name for c in schema.columns if c.read_only and c.computed is None}
            known = replace(known, masked=known.masked | hidden)
            title = "masked clone" if known.masked else kind
            key = known.key(schema)
            if key is None:
                whole = Period(self._first_of(head, known.table), None)
                yield LocatedRow(title, name, head, known, None, "read", [whole])
                continue
            found = periods(self._graph, head, known.table, key)
            if found:
                yield LocatedRow(title, name, head, known, key, "row", found)

    def schema(self, head: SnapshotRow, table: str) -> TableSchema | None:
        """The schema of a table, as it is or was when it was last there."""
        definition = self.definition(head, table)
        return None if definition is None else definition.schema

    def definition(self, head: SnapshotRow, table: str) -> Definition | None:
        """The same with what else is known of the table, also where its rows were forgotten.

        `Forgotten` if not even that is left.
        """
        if self._graph.forgotten.find(head) is None:
            version = self.version(head, table)
        else:
            version = tables_of(self._graph, head).get(table)
        return None if version is None else self._graph.versions.definition(version)

    def version(self, head: SnapshotRow, table: str) -> Version | None:
        """A table as it is, or was when it was last there; `Forgotten` if its rows are."""
        version = self._graph.find_version(head, table)
        if version is None:
            past = (
                address for _, address in changing_snapshots(self._graph, head, table) if address
            )
            address = next(past, None)
            version = None if address is None else self._graph.versions.require(address)
        return version

    def _first_of(self, head: SnapshotRow, table: str) -> SnapshotRow:
        """The snapshot that last made a table of others."""
        number = head.sequence
        for number, _ in changing_snapshots(self._graph, head, table):
            if self._graph.snapshots.at(number).kind == "schema_change":
                break
        return self._graph.snapshots.at(number)
