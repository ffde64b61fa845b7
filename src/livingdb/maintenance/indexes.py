"""Indexes: made for a table and dropped, by name.

As a layout, an index is a setting of the database for a table, by its identity, on all branches and
in all of its history; nothing that a reader sees depends on it.  It has a name, and its columns by
their identities: it follows them when they are renamed, and is not there where one of them is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlalchemy import Connection

from livingdb.catalog.tuning import UNDONE
from livingdb.errors import AlreadyExists, InvalidData, NotFound, Unsupported
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.names import check_index, is_hidden
from livingdb.maintenance.layouts import (
    change_settings,
    put_settings,
    table_settings,
    visible_version,
)
from livingdb.tables.index import Version
from livingdb.tables.layout import TableIndex, TableSettings
from livingdb.tables.schema import TableSchema

__all__ = ["create_index", "drop_index", "indexes_of"]


def create_index(
    graph: Graph, branch: str, table: str, columns: str | Sequence[str], name: str | None = None
) -> str:
    """Have rows of a table found by other columns than its key; the name of the index.

    The branch says which table is meant.  The rows of its head are indexed at once.
    """
    graph.check_writable()
    graph.observe_now()
    version = visible_version(graph, branch, table)
    definition = graph.versions.definition(version)
    group = _checked_columns(definition.schema, columns)
    if definition.id is None:
        raise Unsupported(
            f"table {table!r} was made before tables had identities, and cannot have an index: "
            "copy its rows to a table that is made now"
        )
    taken = {each.casefold(): on for each, on in _names_on(graph, branch)}
    chosen = _free_name(table, group, taken) if name is None else check_index(name)
    if chosen.casefold() in taken:
        raise AlreadyExists(
            f"there is an index {chosen!r} already, on {taken[chosen.casefold()]!r}"
        )
    index = TableIndex(chosen, tuple(definition.schema.column(column).id for column in group))

    def with_index(known: TableSettings) -> TableSettings:
        if any(
            _is_same(other.name, chosen) and other.fit(definition.schema) for other in known.indexes
        ):
            raise AlreadyExists(f"there is an index {chosen!r} of {table!r} already")
        return replace(known, indexes=(*known.indexes, index))

    change_settings(graph, definition.id, with_index)
    graph.versions.indexes.ensure(version)
    graph.upkeep.save_indexes()
    with graph.catalog.write() as connection:  # who looked meanwhile saw an index without entries
        graph.catalog.raise_epoch(connection)
    graph.observe_now()
    return chosen


def drop_index(graph: Graph, branch: str, name: str, table: str | None = None) -> None:
    """Have an index no more; `NotFound` if a branch has none of that name.

    If tuning made it, that is undone by hand.
    """
    graph.check_writable()
    if not isinstance(name, str):
        raise InvalidData(f"index {name!r}: give its name")
    graph.observe_now()
    found = [(each, on) for each, on in _names_on(graph, branch, table) if _is_same(each, name)]
    if not found:
        where = f"branch {branch!r} has no index {name!r}"
        raise NotFound(where if table is None else f"{where} on {table!r}")
    if len({on for _, on in found}) > 1:
        tables = " and ".join(repr(on) for _, on in found)
        raise InvalidData(f"the indexes {name!r} of {tables} are called so: say on which table")
    definition = graph.versions.definition(visible_version(graph, branch, found[0][1]))
    assert definition.id is not None

    with graph.catalog.write() as connection:
        known, schema = table_settings(graph, connection, definition.id), definition.schema
        gone = [i for i in known.indexes if _is_same(i.name, name) and i.fit(schema) is not None]
        rest = tuple(index for index in known.indexes if index not in gone)
        put_settings(graph, connection, definition.id, replace(known, indexes=rest))
        _end_advice(graph, connection, definition.id, {index.name for index in gone})
    graph.observe_now()


def _end_advice(graph: Graph, connection: Connection, table: str, names: Collection[str]) -> None:
    """Tuning did not make these indexes any longer, and does not make them again soon."""
    tuning = graph.catalog.tuning
    for row in tuning.applied(connection):
        made = row.details["action"].get("index") if row.action == "index" else None
        if row.subject == table and made in names:
            why = {"undone": now(), "why": "dropped by hand"}
            tuning.change(connection, row, UNDONE, {**row.details, **why})


def indexes_of(graph: Graph, version: Version) -> dict[str, tuple[str, ...]]:
    """The indexes of a version of a table, by name: their columns."""
    graph.observe_now()
    return graph.versions.indexes.named_groups(version)


def _is_same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _names_on(graph: Graph, branch: str, table: str | None = None) -> Iterable[tuple[str, str]]:
    """The indexes on the head of a branch, and the tables that have them."""
    head = graph.snapshots.at(graph.branch(branch).head)
    for name, version in tables_of(graph, head).items():
        if not is_hidden(name) and table in (None, name):
            for index in graph.versions.indexes.named_groups(version):
                yield index, name


def _checked_columns(schema: TableSchema, columns: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(columns, (str, list, tuple)):
        raise InvalidData(f"an index on {columns!r}: give a column, or a list of them")
    group = (columns,) if isinstance(columns, str) else tuple(columns)
    if not group or len(set(group)) < len(group):
        raise InvalidData(f"an index on {group!r}: give at least one column, and each once")
    shown = {column.name for column in schema.visible_columns}
    for column in map(schema.column, group):
        if column.name not in shown:
            raise Unsupported(f"the column {column.name!r} is hidden: there is no index on it")
        if pa.types.is_nested(column.type):
            raise Unsupported(
                f"column {column.name!r}: values of type {column.type} have no order, and no index"
            )
    return group


def _free_name(table: str, group: Sequence[str], taken: Iterable[str]) -> str:
    """A name for an index without one, as PostgreSQL would give it."""
    known = set(taken)
    begin = check_index(f"{table}_{'_'.join(group)}_idx"[-200:])
    numbered = (f"{begin}{number or ''}" for number in range(len(known) + 1))
    return next(name for name in numbered if name.casefold() not in known)
