"""The schema changes that lead from one snapshot to another, and the rows of the one after them.

What only the first has is taken back, newest first; then comes what only the second has, as each
was made: a change that both have, by its id, is none of the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import LivingDBError
from livingdb.evolution.changes.revert_change import revert_of
from livingdb.evolution.changes.tables import CreateTable, DropTable, RenameTable
from livingdb.evolution.lift import Lifter
from livingdb.evolution.merge_schemas import own_changes, replay_changes
from livingdb.evolution.plan import ChunkSink
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import MadeChange, planned_tables, table_key
from livingdb.evolution.schema_history import schema_history, settled_fork, visible_schemas
from livingdb.graph.graph import Graph, tables_of
from livingdb.tables.identity import recorded_change_id
from livingdb.tables.index import Version

__all__ = ["SchemaPath", "find_schema_path", "inverse_id"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class SchemaPath:
    """Schema changes in their order, and the tables of where they start in the schema they end in.

    With a `reason` there is no such path, or rows do not go along it: then the tables are as they
    were, and the changes those that are known.
    """

    made: Sequence[MadeChange]
    tables: Tables
    reason: str | None = None

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The changes, each with its id."""
        return tuple(one.change for one in self.made)


def find_schema_path(
    graph: Graph, lifter: Lifter, start: SnapshotRow, end: SnapshotRow, sink: ChunkSink
) -> SchemaPath:
    """The path from the schema of one snapshot to that of another."""
    tables: Tables = tables_of(graph, start)
    here, there = visible_schemas(graph, start), visible_schemas(graph, end)
    if here == there:
        return SchemaPath((), tables)
    fork = settled_fork(graph, lifter, start, end)
    if fork is None:
        return SchemaPath((), tables, "the two share no history: tables are compared by name")
    tables = _by_later_names(tables, here, there)
    mine, yours = (schema_history(graph, lifter, fork, row) for row in (start, end))
    mine, yours = own_changes(mine, yours), own_changes(yours, mine)
    start_tables = tables_of(graph, start)
    try:
        made = _taken_back(mine, here)
        now = made[-1].after if made else here
        replayed = replay_changes(yours, now, {one.identity for one in made})
        if replayed.conflicts:
            return SchemaPath((), tables, replayed.conflicts[0].reason)
        for change in replayed.onto_ours:
            made.append(MadeChange(change, now, planned_tables(change, now)))
            now = made[-1].after
        reason = _difference(now, there)
        if reason is not None:
            return SchemaPath(made, tables, reason)
        changes = [one.change for one in made]
        return SchemaPath(made, lifter.tables_after(start_tables, changes, sink)[0])
    except LivingDBError as error:
        return SchemaPath((), tables, str(error))


def _by_later_names(tables: Tables, here: Schemas, there: Schemas) -> Tables:
    """Tables by the names that they have elsewhere, by identity."""
    later = {table_key(name, known): name for name, known in there.items()}
    names = {name: later.get(table_key(name, known), name) for name, known in here.items()}
    moved = {name for name, now in names.items() if now != name}
    taken = {name for name in names if name not in moved}
    return {
        names[name] if name in moved and names[name] not in taken else name: version
        for name, version in tables.items()
    }


def inverse_id(identity: str) -> str:
    """The id of what takes a change back on a path."""
    return recorded_change_id(f"revert {identity}")


def _taken_back(made: Sequence[MadeChange], now: Schemas) -> list[MadeChange]:
    """What takes changes back, newest first; `InvalidData` if there is no way back."""
    found: list[MadeChange] = []
    for one in reversed(made):
        change = _inverse(one).with_id(inverse_id(one.identity))
        after = planned_tables(change, now)
        found.append(MadeChange(change, now, after))
        now = after
    return found


def _inverse(one: MadeChange) -> SchemaChange:
    """The change that takes another back: in plain words, where there are any."""
    from livingdb.evolution.changes.rename_column import RenameColumn

    change = one.change
    if isinstance(change, CreateTable):
        return DropTable(change.table)
    if isinstance(change, RenameTable):
        return RenameTable(change.to, change.table)
    if isinstance(change, RenameColumn):
        return RenameColumn(change.table, change.to, change.name)
    return revert_of(change, one.before)


def _difference(one: Schemas, other: Schemas) -> str | None:
    """Why two schemas are not the same but for identities; None if they are."""
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            return f"no schema change tells where the table {name!r} is from, or went"
        if not one[name].is_alike(other[name]):
            return f"the schema changes do not lead to the table {name!r} as it is"
    return None
