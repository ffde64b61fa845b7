"""The lenses of syncs: schema changes, on the tables that they were planned on."""

from __future__ import annotations

from collections.abc import Sequence

from livingdb.catalog.ids import SyncId
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.proposal import Tables
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_change import SchemaChange, unlock_changes
from livingdb.graph.graph import Graph
from livingdb.tables.recipe import Definition

__all__ = ["SyncLenses", "lens_of", "lens_over"]


class SyncLenses:
    """The lenses of the syncs of one database; each is planned once."""

    def __init__(self, graph: Graph, trust: Sequence[str] = ()):
        self._graph = graph
        self._trust = tuple(trust)
        self._lenses: dict[tuple[SyncId, str], Lens] = {}

    def of(self, sync: SyncRow) -> Lens:
        """The lens of a sync."""
        place = sync.id, str(sync.spec["snapshot"])
        known = self._lenses.get(place)
        if known is None or known.conceals:
            unlock_changes([SchemaChange.from_json(sync.spec["change"])], self._trust)
        if known is None:
            known = self._lenses[place] = lens_of(self._graph, sync)
        return known


def lens_of(graph: Graph, sync: SyncRow) -> Lens:
    """The lens of a sync: its change, on the tables as they were when it was made."""
    return SchemaChange.from_json(sync.spec["change"]).plan(_planned_on(graph, sync))


def lens_over(graph: Graph, sync: SyncRow, tables: Tables) -> Lens:
    """The lens of a sync over tables of another time: its change, by the names they had."""
    then = definitions_of(graph, tables)
    change = SchemaChange.from_json(sync.spec["change"])
    (followed,) = follow_names([change], _planned_on(graph, sync), then)
    return followed.plan(then)


def _planned_on(graph: Graph, sync: SyncRow) -> dict[str, Definition]:
    """The tables that the change of a sync was planned on."""
    record = graph.record(Address(bytes.fromhex(sync.spec["snapshot"])))
    versions = graph.versions
    return {
        name: versions.definition(versions.require(address))
        for name, address in record.tables.items()
    }
