"""What happened to the schema along a line of snapshots: its changes, each with both its sides.

Tables that transactions and merges made or dropped are changes, too, though their edges are none of
schema changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import LivingDBError
from livingdb.evolution.changes.tables import CreateTable, DropTable, creation_of
from livingdb.evolution.lift import Lifter
from livingdb.evolution.replay_schema import replay
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import MadeChange, is_made, planned_tables, table_key
from livingdb.graph.ancestry import last_common_position
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.identity import recorded_change_id
from livingdb.tables.recipe import Definition

__all__ = [
    "fork_of",
    "line_between",
    "made_between",
    "made_of",
    "schema_history",
    "settled_fork",
    "visible_schemas",
]


def visible_schemas(graph: Graph, row: SnapshotRow) -> dict[str, Definition]:
    """The tables of a snapshot that users see."""
    return {
        name: graph.versions.definition(version)
        for name, version in tables_of(graph, row).items()
        if not is_hidden(name)
    }


def fork_of(graph: Graph, *rows: SnapshotRow) -> SnapshotRow | None:
    """The newest snapshot on the lines of first parents of all of them; None if there is none."""
    found: SnapshotRow | None = rows[0]
    for row in rows[1:]:
        if found is None:
            return None
        found = last_common_position(graph.snapshots, found, row)
    return found


def settled_fork(graph: Graph, lifter: Lifter, *rows: SnapshotRow) -> SnapshotRow | None:
    """The newest of those since which nothing was taken back that was made before it."""
    fork = fork_of(graph, *rows)
    while fork is not None:
        gone = {change for row in rows for change in _taken_back(graph, lifter, fork, row)}
        made = _first_made(graph, lifter, fork, gone) if gone else None
        if made is None or made.first is None:
            break
        fork = graph.snapshots.at(made.first)
    return fork


def _taken_back(
    graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow
) -> Iterator[str]:
    """The ids of changes from before a snapshot that were taken back on the way from there."""
    made: set[str] = set()
    for step in lifter.schema_changes_between(since, head):
        edge = graph.record(step.address).edge
        yield from edge.taken_back - made
        made.update(edge.change_ids)


def _first_made(
    graph: Graph, lifter: Lifter, upto: SnapshotRow, changes: Collection[str]
) -> SnapshotRow | None:
    """The first schema change of a line that has one of some changes."""
    start = graph.snapshots.ancestor(upto, 0)
    for step in lifter.schema_changes_between(start, upto):
        if set(changes).intersection(graph.record(step.address).edge.change_ids):
            return step
    return None


def schema_history(
    graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow
) -> list[MadeChange]:
    """The changes of the schema from a snapshot to a later one of its line, in their order.

    A merge in which the other side won has taken back changes that were made before it: those are
    none of them, nor is what a reset of the branch that is followed took back.
    """
    found: list[MadeChange] = []
    now = first = visible_schemas(graph, since)
    for step in lifter.schema_changes_between(since, head):
        assert step.first is not None
        parent = graph.snapshots.at(step.first)
        before, after = visible_schemas(graph, parent), visible_schemas(graph, step)
        found = _joined(found, made_between(graph, since, parent, now, before))
        found = _left_by_resets(found, first, before)
        changes = lifter.schema_changes_of(step)
        gone = graph.record(step.address).edge.taken_back
        try:
            if gone and gone <= {one.identity for one in found}:
                kept = [one for one in found if one.identity not in gone]
                found = made_of([*replay(kept, first, ()).changes, *changes], first)
            else:
                found += made_of(changes, before)
        except LivingDBError:
            left = [one.change for one in found if is_made(one, after)]
            found = made_of([*left, *changes], first)
        now = after
    last = visible_schemas(graph, head)
    found = _joined(found, made_between(graph, since, head, now, last))
    return _left_by_resets(found, first, last)


def _left_by_resets(made: list[MadeChange], first: Schemas, now: Schemas) -> list[MadeChange]:
    """Changes of a schema without those that are gone from it, if just the others lead there."""
    if not made or made[-1].after == now:
        return made
    left = [one.change for one in made if is_made(one, now)]
    try:
        found = made_of(left, first) if len(left) < len(made) else made
    except LivingDBError:
        return made
    return found if (found[-1].after if found else first) == now else made


def _joined(made: Sequence[MadeChange], later: Iterable[MadeChange]) -> list[MadeChange]:
    """Changes and later ones; that a table was dropped is nothing where it came back as it was."""
    found = list(made)
    for one in later:
        rest = [_without_drop(found, name, one) for name in one.tables_from_nothing]
        found = rest[0] if rest and rest[0] is not None else [*found, one]
    return found


def _without_drop(
    made: Sequence[MadeChange], name: str, back: MadeChange
) -> list[MadeChange] | None:
    """Changes without the one that dropped what is back; None if there is no such change."""
    table = back.after[name]
    dropped = [
        at
        for at, one in enumerate(made)
        if one.tables_to_nothing == {name} and one.before[name] == table and table.id is not None
    ]
    if not dropped:
        return None
    since = made[dropped[-1] + 1 :]
    if any(name in tables for one in since for tables in (one.before, one.after)):
        return None
    kept = [
        replace(one, before={**one.before, name: table}, after={**one.after, name: table})
        for one in since
    ]
    return [*made[: dropped[-1]], *kept]


def line_between(
    graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow
) -> list[MadeChange]:
    """The changes from one to the other; none, if a merge took back older ones.

    Then no changes lead from one schema to the other.
    """
    try:
        return schema_history(graph, lifter, since, head)
    except LivingDBError:
        return []


def made_of(changes: Sequence[SchemaChange], tables: Schemas) -> list[MadeChange]:
    """Changes that were made one after the other."""
    found = []
    for change in changes:
        after = planned_tables(change, tables)
        found.append(MadeChange(change, tables, after))
        tables = after
    return found


def made_between(
    graph: Graph, since: SnapshotRow, upto: SnapshotRow, before: Schemas, after: Schemas
) -> Iterator[MadeChange]:
    """The tables that went and came between two schemas without a schema change."""
    now = dict(before)
    gone = _by_key(before).keys() - _by_key(after).keys()
    come = _by_key(after).keys() - _by_key(before).keys()
    for name in _dependents_first(now, {n for n, d in now.items() if table_key(n, d) in gone}):
        change = DropTable(name).with_id(recorded_change_id(f"drop {table_key(name, now[name])}"))
        later = {other: known for other, known in now.items() if other != name}
        yield MadeChange(change, now, later)
        now = later
    new = {n for n, d in after.items() if table_key(n, d) in come}
    for name in reversed(_dependents_first(dict(after), new)):
        later = {**now, name: after[name]}
        made = _creation(graph, since, upto, name, after[name], now)
        yield MadeChange(made, now, later)
        now = later


def _by_key(tables: Schemas) -> dict[str, str]:
    return {table_key(name, definition): name for name, definition in tables.items()}


def _dependents_first(tables: Schemas, some: set[str]) -> list[str]:
    """Tables, those with foreign keys before those that they refer to."""
    found: list[str] = []

    def visit(name: str) -> None:
        if name in found:
            return
        for other in sorted(some):
            links = dict(tables[other].schema.foreign_keys).values()
            if other != name and name in links:
                visit(other)
        if name not in found:
            found.append(name)

    for name in sorted(some):
        visit(name)
    return found


def _creation(
    graph: Graph,
    since: SnapshotRow,
    upto: SnapshotRow,
    name: str,
    definition: Definition,
    before: Schemas,
) -> SchemaChange:
    """The change that made a table, as an edge of the line has it."""
    snapshots = graph.snapshots
    for number, _ in graph.catalog.touches.changes_between(name, since.sequence + 1, upto.sequence):
        row = snapshots.at(number)
        if row.depth > upto.depth or snapshots.ancestor(upto, row.depth) != row:
            continue
        for data in graph.record(row.address).edge.details.get("changes", ()):
            if data["change"] == "CreateTable" and data["table"] == name:
                change = SchemaChange.from_json(data)
                if _makes(change, name, definition, before):
                    return change
    made: CreateTable = creation_of(name, definition)
    return made.with_id(recorded_change_id(f"create {table_key(name, definition)}"))


def _makes(change: SchemaChange, name: str, definition: Definition, before: Schemas) -> bool:
    try:
        return change.plan(before).new.get(name) == definition
    except LivingDBError:
        return False
