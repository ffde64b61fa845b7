"""Lifting: tables and changes of an older schema brought to a newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import TransactionConflict, Unsupported
from livingdb.evolution.evolve import Takes, new_tables, planned
from livingdb.evolution.lenses.lens import Delta
from livingdb.evolution.lenses.sides import VersionSide, changes_of
from livingdb.evolution.schema_change import Change
from livingdb.graph.ancestry import common_ancestors
from livingdb.graph.draft import Lifted
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlaid
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.trees.changes import Changes

__all__ = ["Lifter", "in_schema_of"]

Tables = Mapping[str, Version]


class Lifter:
    """Brings what was made in an older schema to a newer one of the same branch."""

    def __init__(self, graph: Graph):
        self._graph = graph

    def steps(self, older: SnapshotRow, newer: SnapshotRow) -> list[SnapshotRow]:
        """The schema changes on the way from one snapshot to a later one, oldest first."""
        snapshots = self._graph.snapshots
        made = snapshots.of_kind("schema_change", older.sequence + 1, newer.sequence)
        return sorted(
            (
                row
                for row in made
                if older.depth < row.depth <= newer.depth
                and snapshots.ancestor(newer, row.depth).sequence == row.sequence
            ),
            key=lambda row: row.depth,
        )

    def changes(self, step: SnapshotRow) -> list[Change]:
        """The changes a snapshot made to the schema."""
        details = self._graph.record(step.address).edge.details
        return [Change.from_json(data) for data in details.get("changes", ())]

    def tables(
        self, tables: Tables, changes: Sequence[Change], staging: Takes
    ) -> tuple[Tables, list[Version]]:
        """Tables in the schema that the changes lead to; only recipes are made: those, too."""
        if not changes:
            return tables, []
        graph = self._graph
        definitions = {name: graph.versions.definition(v) for name, v in tables.items()}
        made, stages = new_tables(graph, planned(definitions, changes), tables, staging)
        return overlaid(tables, made), stages

    def lifted(
        self,
        base: Tables,
        theirs: Tables,
        steps: tuple[Sequence[SnapshotRow], Sequence[SnapshotRow]],
        staging: Staging,
    ) -> Lifted:
        """Base and theirs in the schema of ours; what theirs changed, too, is not repeated."""
        ours, yours = ([c for step in side for c in self.changes(step)] for side in steps)
        missing = _without(ours, yours)
        if missing is None:
            return Lifted(base, theirs)
        base, first = self.tables(base, ours, staging)
        theirs, second = self.tables(theirs, missing, staging)
        return Lifted(base, theirs, [*first, *second])

    def carried(
        self, step: SnapshotRow, changes: Mapping[str, Changes], staging: Staging
    ) -> dict[str, Changes]:
        """Changes of tables as they were before a schema change, as changes after it."""
        graph = self._graph
        versions = graph.versions
        assert step.first is not None
        before: Tables = tables_of(graph, graph.snapshots.at(step.first))
        deltas = {
            name: _delta(versions.rows(before[name]), change) for name, change in changes.items()
        }
        for change in self.changes(step):
            definitions = {name: versions.definition(v) for name, v in before.items()}
            (lens,) = planned(definitions, [change]).lenses
            after, _ = self.tables(before, [change], staging)
            old, new = VersionSide(versions, before), VersionSide(versions, after)
            mine = {name: delta for name, delta in deltas.items() if name in lens.old}
            rest = {name: delta for name, delta in deltas.items() if name not in lens.old}
            deltas = {**rest, **lens.putr(mine, old, new)} if mine else rest
            before = after
        found = {}
        for name, delta in deltas.items():
            if name not in before:
                raise TransactionConflict(f"table {name!r} was dropped meanwhile")
            found[name] = changes_of(versions.rows(before[name]), delta)
        return found


def in_schema_of(graph: Graph, row: SnapshotRow, other: SnapshotRow) -> Tables:
    """The tables of a snapshot in the schema of another one that changed it since.

    `Unsupported` if the way between them is not one of schema changes of the other.
    """
    lifter = Lifter(graph)
    common = common_ancestors(graph.snapshots, row, other)[0]
    own, theirs = (
        [change for step in lifter.steps(common, end) for change in lifter.changes(step)]
        for end in (row, other)
    )
    missing = _without(theirs, own)
    if missing is None:
        raise Unsupported(
            "its schema was changed in a way that the other one was not: read it as it is"
        )
    return lifter.tables(tables_of(graph, row), missing, graph.scratch())[0]


def _without(changes: Sequence[Change], made: Sequence[Change]) -> list[Change] | None:
    """The changes but those that were made; None if others were made, too."""
    missing = list(changes)
    for change in made:
        if change not in missing:
            return None
        missing.remove(change)
    return missing


def _delta(rows: RowSet, changes: Changes) -> Delta:
    """The rows that changes touch, before and after them."""
    names = [column.name for column in rows.schema.stored]
    found, old = rows.lookup(changes.keys, names)
    _, new = changes.apply(changes.keys[found], old)
    order = rows.schema.arrow.names
    tables = [pa.Table.from_arrays(list(side), names=names).select(order) for side in (old, new)]
    return Delta(*(table.cast(rows.schema.arrow) for table in tables))
