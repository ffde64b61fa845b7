"""Which table is which in two snapshots, and which column, whatever they are called.

A definition says the identity of its table.  One of an earlier format does not; such a table is
the one that a snapshot created under a name, found by going back along first parents and through
what renamed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.dropped import REMADE
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.graph.names import is_hidden
from livingdb.tables.identity import recorded_table_id
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions

__all__ = ["matching_columns", "matching_tables", "names_before", "names_later", "table_id"]

_KEPT = 4096
_FIRST_SNAPSHOTS = 256
_known: dict[tuple[Address, str], str] = {}
"""Identities found in history; a snapshot has the same one everywhere."""

_TABLE_MAKERS = ("CreateTable", "Decompose", "JoinTables", "Normalize", "SplitTable", "UnionTables")


def table_id(graph: Graph, snapshot: SnapshotRow, name: str) -> str:
    """The identity of a table of a snapshot; `NotFound` names the tables there are."""
    tables = graph.tables(snapshot)
    if name not in tables:
        raise missing_table_error(name, tables)
    definition = graph.versions.definition(graph.versions.require(tables[name]))
    if definition.id is not None:
        return definition.id
    return _known.get((snapshot.address, name)) or _find_in_history(graph, snapshot, name)


def matching_tables(graph: Graph, one: SnapshotRow, other: SnapshotRow) -> dict[str, str]:
    """For each table of one snapshot that another has, too, its name there.

    Tables that users do not see belong to others and go by their names.
    """
    here, there = graph.tables(one), graph.tables(other)
    known = {table_id(graph, other, name): name for name in there if not is_hidden(name)}
    found = {name: name for name in here if is_hidden(name) and name in there}
    for name in here:
        if not is_hidden(name):
            identity = table_id(graph, one, name)
            if identity in known:
                found[name] = known[identity]
    return found


def names_before(
    versions: Versions, old: Mapping[str, Version], new: Mapping[str, Version]
) -> dict[str, str]:
    """What tables that users see were called before a change, by what they are called after it."""
    were, now = (
        {versions.definition(v).id: name for name, v in tables.items() if not is_hidden(name)}
        for tables in (old, new)
    )
    return {name: were[id] for id, name in now.items() if id is not None and id in were}


def names_later(one: Definition, other: Definition) -> dict[str, str]:
    """What the columns of a table are called in another definition of it, where it has them.

    Columns of what is no table of its own, as the answer of a query, go by their names.
    """
    if one.id is not None and one.id == other.id:
        return matching_columns(one.schema, other.schema)
    known = {column.name for column in other.schema.columns}
    return {column.name: column.name for column in one.schema.columns if column.name in known}


def matching_columns(one: TableSchema, other: TableSchema) -> dict[str, str]:
    """For each column of a version of a table that another version has, too, its name there."""
    names = {column.id: column.name for column in other.columns}
    return {c.name: names[c.id] for c in one.columns if c.id in names}


# --- tables of earlier formats ----------------------------------------------------------------


def _find_in_history(graph: Graph, snapshot: SnapshotRow, name: str) -> str:
    """The identity by what created a table, and as what; it is remembered."""
    passed = [(snapshot.address, name)]
    found: str | None = None
    while found is None:
        made = snapshot
        for row, version in _changes(graph, snapshot, name):
            if version is None:
                break
            made = row
            found = _known.get((row.address, name))
            if found is not None or _is_made(graph, row, name):
                break
            if len(passed) == 1:
                passed.append((row.address, name))
        before = _name_before(graph, made, name)
        if found is None and before is None:
            found = recorded_table_id(made.address, name)
        elif before is not None:
            snapshot, name = before
    if len(_known) >= _KEPT:
        _known.clear()
    _known.update(dict.fromkeys(passed, found))
    return found


def _changes(
    graph: Graph, snapshot: SnapshotRow, name: str
) -> Iterator[tuple[SnapshotRow, Address | None]]:
    """What changed a table along first parents, newest first (None: dropped it)."""
    snapshots, touches = graph.snapshots, graph.catalog.touches
    high, size = snapshot.sequence, _FIRST_SNAPSHOTS
    while high >= 0:
        for number, version in touches.changes_between(name, high - size + 1, high):
            row = snapshots.at(number)
            if row.depth <= snapshot.depth and snapshots.ancestor(snapshot, row.depth) == row:
                yield row, version
        high, size = high - size, 2 * size


def _is_made(graph: Graph, row: SnapshotRow, name: str) -> bool:
    """Whether the table of a name that a snapshot has is not the one its first parent has."""
    details = graph.record(row.address).edge.details
    if row.first is None or name in details.get(REMADE, ()):
        return True
    if name not in graph.tables(graph.snapshots.at(row.first)):
        return True
    return any(name == item.get("to") or _makes(item, name) for item in _table_changes(details))


def _name_before(graph: Graph, row: SnapshotRow, name: str) -> tuple[SnapshotRow, str] | None:
    """Where the table was that a snapshot has since then, and as what; None: it created it."""
    details = graph.record(row.address).edge.details
    if name in details.get(REMADE, ()):
        return None
    for item in reversed(_table_changes(details)):
        if _makes(item, name):
            return None
        name = item["table"] if item.get("to") == name else name
    for parent in row.parents:
        source = graph.snapshots.at(parent)
        if name in graph.tables(source):
            return source, name
    return None


def _table_changes(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those of the changes of an edge that make tables or rename them."""
    kinds = ("RenameTable", *_TABLE_MAKERS)
    return [item for item in details.get("changes", ()) if item["change"] in kinds]


def _makes(item: Mapping[str, Any], name: str) -> bool:
    """Whether a change made a new table of that name."""
    if item["change"] == "CreateTable":
        return bool(item["table"] == name)
    into = item.get("into")
    names = [pair[0] for pair in into["$map"]] if isinstance(into, dict) else [into]
    return item["change"] in _TABLE_MAKERS and name in names
