"""Rebases tables and deltas of an older schema onto a newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import short
from livingdb.errors import InvalidData, TransactionConflict, Unsupported
from livingdb.evolution.lenses.lens import Lens, Loss, RowImages, Side, TableImages
from livingdb.evolution.lenses.sides import VersionSide, delta_from_images, images_between
from livingdb.evolution.plan import ChunkSink, apply_changes, new_tables, plan_changes
from livingdb.evolution.schema_change import SchemaChange, unlock_changes
from livingdb.graph.ancestry import common_ancestors, is_ancestor
from livingdb.graph.draft import TableWrite
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import Delta

__all__ = ["Lifter", "tables_in_schema_of"]

Tables = Mapping[str, Version]
Columns = Mapping[str, frozenset[str]]
"""The columns that a change names, by table."""


class Lifter:
    """Brings what was made in an older schema to a newer one of the same branch."""

    def __init__(self, graph: Graph, trust: Sequence[str] = ()):
        self._graph = graph
        self._trust = tuple(trust)

    def schema_changes_between(self, older: SnapshotRow, newer: SnapshotRow) -> list[SnapshotRow]:
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

    def made_between(self, older: SnapshotRow, newer: SnapshotRow) -> frozenset[str]:
        """The ids of the schema changes on the way to a later snapshot; none, if it is not."""
        graph = self._graph
        if not is_ancestor(graph.snapshots, older, newer):
            return frozenset()
        steps = self.schema_changes_between(older, newer)
        return frozenset(i for step in steps for i in graph.record(step.address).edge.change_ids)

    def schema_changes_of(self, step: SnapshotRow) -> list[SchemaChange]:
        """The changes a snapshot made to the schema."""
        details = self._graph.record(step.address).edge.details
        made = [SchemaChange.from_json(data) for data in details.get("changes", ())]
        unlock_changes(made, self._trust)
        return made

    def tables_after(
        self, tables: Tables, changes: Sequence[SchemaChange], staging: ChunkSink
    ) -> tuple[Tables, list[Version]]:
        """Tables in the schema that the changes lead to; only recipes are made: those, too."""
        if not changes:
            return tables, []
        graph = self._graph
        definitions = {name: graph.versions.definition(v) for name, v in tables.items()}
        made, stages = new_tables(graph, plan_changes(definitions, changes), tables, staging)
        return overlay_tables(tables, made), stages

    def lost_changes(
        self, base: Tables, theirs: Tables, changes: Sequence[SchemaChange], staging: Staging
    ) -> dict[str, str]:
        """A table in which theirs changed rows that schema changes leave no place for, and why.

        Values of columns that ours dropped go with the columns.
        """
        if not changes:
            return {}
        versions = self._graph.versions
        deltas: TableImages = {
            name: images_between(versions, old, theirs[name])
            for name, old in base.items()
            if name in theirs
            and theirs[name].address != old.address
            and theirs[name].definition == old.definition
        }
        if not deltas:
            return {}
        try:
            self._carry(base, changes, deltas, {}, staging)
        except ChangeLost as lost:
            return {lost.loss.table: f"{lost.loss} has no place in the schema of the other side"}
        except (InvalidData, Unsupported) as error:
            return {next(iter(deltas)): f"what theirs changed does not fit the schema: {error}"}
        return {}

    def lift_deltas(
        self, step: SnapshotRow, written: Mapping[str, TableWrite], staging: Staging
    ) -> dict[str, TableWrite]:
        """What is written to tables as they were before a schema change, as it is after it.

        `TransactionConflict` if the new schema has no place for something that was written.
        """
        graph = self._graph
        versions = graph.versions
        assert step.first is not None
        before: Tables = tables_of(graph, graph.snapshots.at(step.first))
        deltas: TableImages = {
            name: _row_images(versions.rows(before[name]), each.delta)
            for name, each in written.items()
        }
        columns: Columns = {name: each.columns for name, each in written.items()}
        try:
            made = self.schema_changes_of(step)
            before, deltas, columns = self._carry(before, made, deltas, columns, staging)
        except (InvalidData, Unsupported) as error:
            raise TransactionConflict(
                f"what was written does not fit the schema since {_change_label(step)}: {error}"
            ) from error
        except ChangeLost as lost:
            loss = lost.loss
            raise TransactionConflict(
                f"table {loss.table!r}: {loss} has no place in the schema since "
                f"{_change_label(step)}; try again"
            ) from None
        found = {}
        for name, delta in deltas.items():
            rows, named = versions.rows(before[name]), columns.get(name, frozenset())
            changes = delta_from_images(rows, delta, narrow=not named)
            if named or len(changes):
                found[name] = TableWrite(changes, named)
        return found

    def _carry(
        self,
        tables: Tables,
        changes: Sequence[SchemaChange],
        deltas: TableImages,
        columns: Columns,
        staging: Staging,
    ) -> tuple[Tables, TableImages, Columns]:
        """Tables after schema changes, and what happens to rows and columns of them there.

        `ChangeLost` if something that happens has no place.
        """
        versions = self._graph.versions
        definitions = {name: versions.definition(v) for name, v in tables.items()}
        plan = plan_changes(definitions, changes)
        results = apply_changes(self._graph, plan, tables, staging, recipes="transient")
        for lens, result in zip(plan.lenses, results, strict=True):
            sides = VersionSide(versions, tables), VersionSide(versions, result.tables)
            deltas, columns = _carry_through(lens, deltas, columns, *sides)
            tables = result.tables
        return tables, deltas, columns


class ChangeLost(Exception):
    """Something that was written goes nowhere."""

    def __init__(self, loss: Loss):
        super().__init__(str(loss))
        self.loss = loss


def _carry_through(
    lens: Lens, deltas: TableImages, columns: Columns, old: Side, new: Side
) -> tuple[TableImages, Columns]:
    """What changes of old tables are behind a lens; `ChangeLost` if one has no place there."""
    mine = {name: delta for name, delta in deltas.items() if name in lens.old}
    rest = {name: delta for name, delta in deltas.items() if name not in lens.old}
    if not mine:
        return rest, columns
    beside = {name: delta for name, delta in rest.items() if name in lens.consults}
    carried = lens.putr({**mine, **beside}, old, new)
    loss = lens.loss(mine, carried, old)
    if loss is not None:
        raise ChangeLost(loss)
    named = {name: set(columns.get(name, ())) for name in rest}
    for table in mine:
        for column in sorted(columns.get(table, frozenset()) - set(lens.old[table].schema.key)):
            outlets = lens.outlets(table, column)
            if not outlets:
                raise ChangeLost(Loss(table, column))
            for place, name in outlets:
                named.setdefault(place, set()).add(name)
    return {**rest, **carried}, {name: frozenset(some) for name, some in named.items()}


def _change_label(step: SnapshotRow) -> str:
    """A schema change as a message names it."""
    return f"the schema change {short(step.address)} ({step.message}), which was made meanwhile"


def tables_in_schema_of(graph: Graph, row: SnapshotRow, other: SnapshotRow) -> Tables:
    """The tables of a snapshot in the schema of another one that changed it since.

    `Unsupported` if the way between them is not one of schema changes of the other.
    """
    lifter = Lifter(graph)
    shared = common_ancestors(graph.snapshots, row, other)
    if not shared:
        raise Unsupported(
            "the two share no history, as a masked branch shares none with what it is made of: "
            "read it as it is"
        )
    common = shared[0]
    own, theirs = (
        [
            change
            for step in lifter.schema_changes_between(common, end)
            for change in lifter.schema_changes_of(step)
        ]
        for end in (row, other)
    )
    missing = _remaining_changes(theirs, own)
    if missing is None:
        raise Unsupported(
            "its schema was changed in a way that the other one was not: read it as it is"
        )
    return lifter.tables_after(tables_of(graph, row), missing, graph.scratch())[0]


def _remaining_changes(
    changes: Sequence[SchemaChange], made: Sequence[SchemaChange]
) -> list[SchemaChange] | None:
    """The changes but those that were made; None if others were made, too.

    A change was made if it is the same one, or at least an equal one.
    """
    missing = list(changes)
    for change in made:
        known = {other.id: at for at, other in enumerate(missing) if other.id is not None}
        if change.id in known:
            del missing[known[change.id]]
        elif change in missing:
            missing.remove(change)
        else:
            return None
    return missing


def _row_images(rows: RowSet, changes: Delta) -> RowImages:
    """The rows that changes touch, before and after them."""
    names = [column.name for column in rows.schema.stored_columns]
    found, old = rows.lookup(changes.keys, names)
    _, new = changes.apply(changes.keys[found], old)
    order = rows.schema.whole.names
    tables = [pa.Table.from_arrays(list(side), names=names).select(order) for side in (old, new)]
    return RowImages(*(table.cast(rows.schema.whole) for table in tables))
