"""Layouts: another one for a table that is there, and laying out what still lies in an old one.

A layout is a setting of the database for a table, by its identity, on all branches and in all of
its history; nothing that a reader sees depends on it.  Setting one writes a row.  Trees are made in
it from then on, and a tree that lies in another one is read as it lies until it is laid out anew:
small ones by the next commit, others when a long tail is folded, by `migrate`, or here.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.pending_note import keep_note
from livingdb.chunks.address import Address
from livingdb.errors import InvalidData, Unsupported
from livingdb.graph.graph import Graph, missing_table_error, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout, TableLayout, TableSettings

__all__ = [
    "DisplacedTree",
    "change_settings",
    "displaced_tree",
    "lay_out",
    "lay_out_due",
    "put_settings",
    "set_layout",
    "table_settings",
    "visible_version",
]


def set_layout(graph: Graph, branch: str, table: str, layout: Layout) -> Layout:
    """Let trees of a table be made in a layout from now on; the one that it had.

    The branch says which table is meant.  Nothing is rewritten, and no version is made.
    """
    graph.check_writable()
    if not isinstance(layout, Layout):
        raise InvalidData(f"layout {layout!r}: give a livingdb.Layout(…)")
    graph.observe_now()
    version = visible_version(graph, branch, table)
    definition, before = graph.versions.definition(version), graph.versions.placements.of(version)
    chosen = TableLayout.of(layout, definition.schema)
    if definition.id is None:
        raise Unsupported(
            f"table {table!r} was made before tables had identities, and keeps the layout that it "
            "was made with: copy its rows to a table that is made now"
        )
    if graph.index.table_settings(definition.id).layout != chosen:
        change_settings(graph, definition.id, lambda known: replace(known, layout=chosen))
    return before.layout


def change_settings(
    graph: Graph, table: str, change: Callable[[TableSettings], TableSettings]
) -> None:
    """Give a table, by its identity, other settings by those that it has."""
    with graph.catalog.write() as connection:
        put_settings(graph, connection, table, change(table_settings(graph, connection, table)))
    graph.observe_now()


def table_settings(graph: Graph, connection: Connection, table: str) -> TableSettings:
    """What a table, by its identity, was given; asked in a transaction."""
    found = graph.catalog.table_layouts.find(connection, table)
    return TableSettings() if found is None else TableSettings.from_json(json.loads(found))


def put_settings(graph: Graph, connection: Connection, table: str, settings: TableSettings) -> None:
    """Let a table have settings, in a transaction; with them goes a note of who gave it these.

    Others know them as soon as they ask for anything that is new.
    """
    keep_note(graph.catalog.queries, connection)
    made = settings.to_json()
    graph.catalog.table_layouts.put(connection, table, json.dumps(made) if made else None)
    graph.catalog.raise_epoch(connection)


def visible_version(graph: Graph, branch: str, table: str) -> Version:
    """The version of a table at the head of a branch; `NotFound` if no user knows it."""
    head = graph.snapshots.at(graph.branch(branch).head)
    if is_hidden(table):
        raise missing_table_error(table, _shown(graph.tables(head)))
    return graph.version(head, table)


def _shown(tables: Mapping[str, Address]) -> dict[str, Address]:
    return {name: version for name, version in tables.items() if not is_hidden(name)}


@dataclass(frozen=True)
class DisplacedTree:
    """A tree that a table of a branch is read from, and that lies in another layout than asked."""

    branch: str
    table: str
    version: Version
    rows: int


def lay_out_due(graph: Graph) -> list[DisplacedTree]:
    """The trees that heads are read from and that are to be laid out anew, the smallest first."""
    graph.observe_now()
    found: dict[Address, DisplacedTree] = {}
    for branch in graph.branches.all():
        for tree in _displaced_trees(graph, branch):
            found.setdefault(tree.version.address, tree)
    return sorted(found.values(), key=lambda tree: (tree.rows, tree.branch, tree.table))


def lay_out(
    graph: Graph,
    seconds: float,
    time: Callable[[], float] = clock.perf_counter,
    of_table: str | None = None,
) -> list[DisplacedTree]:
    """Lay out anew what is due until so many seconds have passed; what was done.

    One that is begun is finished, and whatever was done stays done.  `of_table`: only the trees
    of a table, by its identity.
    """
    graph.check_writable()
    done: list[DisplacedTree] = []
    end = time() + seconds
    for tree in lay_out_due(graph):
        if time() >= end:
            break
        if of_table not in (None, graph.versions.definition(tree.version).id):
            continue
        graph.fold(tree.version)
        done.append(tree)
    if done:
        graph.versions.derived.forget_mapped_rows()
    return done


def _displaced_trees(graph: Graph, branch: BranchRow) -> Iterator[DisplacedTree]:
    for name, version in tables_of(graph, graph.snapshots.at(branch.head)).items():
        found = displaced_tree(graph, version)
        if found is not None:
            yield DisplacedTree(branch.name, name, found, graph.versions.count(found))


def displaced_tree(graph: Graph, version: Version) -> Version | None:
    """The version whose tree one is read from, if that lies in another layout than in force.

    Through lenses, where rows are mapped as they are read.  None also if there is no tree.
    """
    versions = graph.versions
    near = versions.nearest_stored(version)
    while near is None:
        source = versions.derived.row_source(versions.require(version.origin))
        if source is None:
            return None
        version = source.version
        near = versions.nearest_stored(version)
    tree = graph.index.tree(near.address)
    is_right = tree is None or versions.placements.is_in_place(near, tree)
    return None if is_right or graph.index.is_cached(near.address) else near
