"""Lifting: tables and changes of an older schema brought to a newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import short
from livingdb.errors import InvalidData, TransactionConflict, Unsupported
from livingdb.evolution.evolve import Takes, new_tables, planned, stages_of
from livingdb.evolution.lenses.lens import Delta, Deltas, Lens, Loss, Side
from livingdb.evolution.lenses.row_alignment import keys_of, match
from livingdb.evolution.lenses.sides import VersionSide, changes_of, delta_of
from livingdb.evolution.schema_change import Change
from livingdb.graph.ancestry import common_ancestors
from livingdb.graph.draft import Lifted, Written
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlaid
from livingdb.graph.storage.staging import Staging
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.changes import Changes
from livingdb.trees.compare import choose, differs

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
        lost = self._lost(self.tables(base, yours, staging)[0], theirs, missing, staging)
        base, first = self.tables(base, ours, staging)
        theirs, second = self.tables(theirs, missing, staging)
        return Lifted(base, theirs, [*first, *second], lost)

    def _lost(
        self, base: Tables, theirs: Tables, changes: Sequence[Change], staging: Staging
    ) -> dict[str, str]:
        """A table in which theirs changed what schema changes leave no place for, and why."""
        versions = self._graph.versions
        deltas: Deltas = {
            name: delta_of(versions, old, theirs[name])
            for name, old in base.items()
            if name in theirs
            and theirs[name].address != old.address
            and theirs[name].definition == old.definition
        }
        if not changes or not any(deltas.values()):
            return {}
        definitions = {name: versions.definition(v) for name, v in base.items()}
        columns: Columns = {n: _set_columns(definitions[n].schema, d) for n, d in deltas.items()}
        plan = planned(definitions, changes)
        try:
            for lens, stage in zip(
                plan.lenses, stages_of(self._graph, plan, base, staging), strict=True
            ):
                sides = VersionSide(versions, base), VersionSide(versions, stage.tables)
                deltas, columns = _through(lens, deltas, columns, *sides)
                base = stage.tables
        except Lost as lost:
            return {lost.loss.table: f"{lost.loss} has no place in the schema that ours has"}
        except (InvalidData, Unsupported) as error:
            return {next(iter(deltas)): f"what theirs changed does not fit the schema: {error}"}
        return {}

    def carried(
        self, step: SnapshotRow, written: Mapping[str, Written], staging: Staging
    ) -> dict[str, Written]:
        """What is written to tables as they were before a schema change, as it is after it.

        `TransactionConflict` if the new schema has no place for something that was written.
        """
        graph = self._graph
        versions = graph.versions
        assert step.first is not None
        before: Tables = tables_of(graph, graph.snapshots.at(step.first))
        deltas: Deltas = {
            name: _delta(versions.rows(before[name]), each.changes)
            for name, each in written.items()
        }
        columns: Columns = {name: each.columns for name, each in written.items()}
        definitions = {name: versions.definition(v) for name, v in before.items()}
        try:
            plan = planned(definitions, self.changes(step))
            stages = stages_of(graph, plan, before, staging)
            for lens, stage in zip(plan.lenses, stages, strict=True):
                sides = VersionSide(versions, before), VersionSide(versions, stage.tables)
                deltas, columns = _through(lens, deltas, columns, *sides)
                before = stage.tables
        except (InvalidData, Unsupported) as error:
            raise TransactionConflict(
                f"what was written does not fit the schema since {_shown(step)}: {error}"
            ) from error
        except Lost as lost:
            loss = lost.loss
            raise TransactionConflict(
                f"table {loss.table!r}: {loss} has no place in the schema since {_shown(step)}; "
                "try again"
            ) from None
        found = {}
        for name, delta in deltas.items():
            rows, named = versions.rows(before[name]), columns.get(name, frozenset())
            changes = changes_of(rows, delta, narrow=not named)
            if named or len(changes):
                found[name] = Written(changes, named)
        return found


class Lost(Exception):
    """Something that was written goes nowhere."""

    def __init__(self, loss: Loss):
        super().__init__(str(loss))
        self.loss = loss


Columns = Mapping[str, frozenset[str]]
"""The columns that a change names, by table."""


def _through(
    lens: Lens, deltas: Deltas, columns: Columns, old: Side, new: Side
) -> tuple[Deltas, Columns]:
    """What changes of old tables are behind a lens; `Lost` if one of them is nothing there."""
    mine = {name: delta for name, delta in deltas.items() if name in lens.old}
    rest = {name: delta for name, delta in deltas.items() if name not in lens.old}
    if not mine:
        return rest, columns
    carried = lens.putr(mine, old, new)
    loss = lens.loss(mine, carried, old)
    if loss is not None:
        raise Lost(loss)
    named = {name: set(columns.get(name, ())) for name in rest}
    for table in mine:
        for column in sorted(columns.get(table, frozenset()) - set(lens.old[table].schema.key)):
            outlets = lens.outlets(table, column)
            if not outlets:
                raise Lost(Loss(table, column))
            for place, name in outlets:
                named.setdefault(place, set()).add(name)
    return {**rest, **carried}, {name: frozenset(some) for name, some in named.items()}


def _set_columns(schema: TableSchema, delta: Delta) -> frozenset[str]:
    """The columns to which a delta gives values: others than they had, or than their defaults."""
    before = match(schema, keys_of(schema, delta.after), delta.before)
    found = set()
    for column in schema.shown:
        default = pa.array([column.default], column.type)
        fills = default.take(pa.array(np.zeros(delta.after.num_rows, np.int64)))
        held = choose(fills, before.column(column.name), before.there)
        if differs(held, flat(delta.after.column(column.name))).any():
            found.add(column.name)
    return frozenset(found)


def _shown(step: SnapshotRow) -> str:
    """A schema change as a message names it."""
    return f"the schema change {short(step.address)} ({step.message}), which was made meanwhile"


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
