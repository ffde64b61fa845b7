"""Deep check: the rows at every head satisfy what their tables say of them.

A commit looks at what it changes and takes the rest for sound; this looks at every row.  Unique
values are looked at by each check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress

import pyarrow as pa

from livingdb.errors import NotFound
from livingdb.graph.constraints import check_references
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.row_constraints import check_not_null, check_rows
from livingdb.maintenance.check import NOT_HERE
from livingdb.tables.index import Version

__all__ = ["check_constraints"]

Collect = Callable[[str], AbstractContextManager[None]]
"""Makes a problem at a place of whatever is raised inside."""


def check_constraints(graph: Graph, collect: Collect) -> None:
    """Look for rows of branches that break NOT NULL, a length, a check or a foreign key.

    Rows that nobody can read here, as those that a mask with an unknown key has yet to make, are
    left to who can.
    """
    seen: set[tuple[object, ...]] = set()
    for branch in graph.branches.all():
        if is_hidden(branch.name):
            continue
        head = graph.snapshots.at(branch.head)
        tables = {n: v for n, v in tables_of(graph, head).items() if not is_hidden(n)}
        for name, version in tables.items():
            where = f"branch {branch.name}, table {name}"
            with collect(where), suppress(*NOT_HERE):
                _check_rows(graph, name, version, seen)
            for column, target in graph.versions.definition(version).schema.foreign_keys:
                with collect(where), suppress(*NOT_HERE):
                    _check_link(graph, tables, name, column, target, seen)


def _check_rows(graph: Graph, name: str, version: Version, seen: set[tuple[object, ...]]) -> None:
    """`InvalidData` names the first row that breaks a rule about rows."""
    if (version.address,) in seen:
        return
    seen.add((version.address,))
    schema = graph.versions.definition(version).schema
    if schema.has_conditions or not all(column.nullable for column in schema.columns):
        names = [column.name for column in schema.columns]
        for batch in graph.versions.rows(version).batches(names):
            rows = pa.Table.from_batches([batch])
            check_not_null(name, schema, rows)
            check_rows(schema, rows)


def _check_link(
    graph: Graph,
    tables: Mapping[str, Version],
    name: str,
    column: str,
    target: str,
    seen: set[tuple[object, ...]],
) -> None:
    """The same for a foreign key."""
    if target not in tables:
        raise NotFound(f"column {column!r} refers to the table {target!r}, which is not there")
    child, parent, rows = tables[name], tables[target], graph.versions.rows
    link = child.address, column, parent.address
    if link not in seen:
        seen.add(link)
        check_references(name, column, target, rows(child), rows(parent))
