"""Which snapshots a derived object was made from, and which it would be made from now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.derivation.refresh_view import RefreshInput, SourceVersion
from livingdb.derivation.view import SourceTable, View
from livingdb.errors import Corruption, NotFound
from livingdb.graph.ancestry import first_parents
from livingdb.graph.edge_ends import AT
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.table_location import table_location
from livingdb.tables.index import Version

__all__ = [
    "AT",
    "At",
    "RefreshRequest",
    "last_derived_snapshot",
    "last_version_made",
    "positions_by_name",
    "refresh_inputs",
    "source_heads",
    "source_names",
    "source_positions",
    "source_versions",
    "table_name_in",
    "view_over_heads",
]

_MADE = ("derive", "propagate")
"""The kinds of edges that a sync makes."""

At = Mapping[BranchId, Address]
"""A snapshot for each branch that a view follows."""


@dataclass(frozen=True)
class RefreshRequest:
    """A version of a derived object to be made: of what, over which tables, beside what it has.

    `held` are the tables it has, `at` the snapshots it is made from; `full`: nothing it has counts.
    """

    view: View
    inputs: Mapping[str, RefreshInput]
    held: Mapping[str, Version]
    at: At
    trust: Sequence[str] = ()
    full: bool = False
    before: At = field(default_factory=dict)
    """What the tables it has were made from, where that matters."""
    borrowed: Mapping[str, Version] = field(default_factory=dict)
    """Of the tables it has, those whose rows are those of another object's, which stay that's."""


def source_positions(graph: Graph, row: SnapshotRow) -> dict[BranchId, Address]:
    """What a snapshot of a derived object was made from."""
    given = graph.record(row.address).edge.details.get(AT, {})
    former = graph.catalog.former_names
    return {former.branch(branch): Address(bytes.fromhex(text)) for branch, text in given.items()}


def source_names(graph: Graph, row: SnapshotRow) -> dict[BranchId, str]:
    """The branches that a snapshot was made from: as they are called, or were before they went."""
    edge = graph.record(row.address).edge
    positions = source_positions(graph, row)
    there = {number: found.name for number, found in graph.branches.by_ids(positions).items()}
    gone = [(name, text) for name, text in edge.sources.items() if name not in there.values()]
    for number, address in positions.items():
        if number not in there:
            called = [name for name, text in gone if text == address.hex()]
            there[number] = called[0] if called else "?"
    return there


def last_derived_snapshot(graph: Graph, head: SnapshotRow) -> SnapshotRow | None:
    """The newest version of a derived object that its sync has made, before what others wrote."""
    line = first_parents(graph.snapshots, head)
    return next((row for row in line if _is_derived(graph, row)), None)


def last_version_made(graph: Graph, branch: BranchRow) -> SnapshotRow | None:
    """The same; if somebody reset the branch to what is none, the last one that it was at."""
    found = last_derived_snapshot(graph, graph.snapshots.at(branch.head))
    if found is not None:
        return found
    moves = (graph.snapshots.at(move.snapshot) for move in graph.movements.of(branch))
    return next((row for row in moves if _is_derived(graph, row)), None)


def _is_derived(graph: Graph, row: SnapshotRow) -> bool:
    return row.kind in _MADE and bool(source_positions(graph, row))


def source_heads(
    graph: Graph, view: View, among: Sequence[BranchId] | None = None
) -> tuple[dict[BranchId, Address], dict[BranchId, BranchRow]]:
    """Where the branches that a view follows are now, or some `among` them."""
    wanted = view.branches if among is None else among
    rows = graph.branches_by_ids(wanted)
    if any(number not in rows for number in wanted):
        raise NotFound(f"a branch that {view.name!r} reads was dropped")
    return {n: graph.snapshots.at(row.head).address for n, row in rows.items()}, rows


def positions_by_name(at: At, names: Mapping[BranchId, str]) -> dict[str, str]:
    """The snapshots by the names of branches, as an edge has them."""
    return {names.get(branch, branch): address.hex() for branch, address in at.items()}


def source_versions(graph: Graph, view: View, at: At) -> dict[str, SourceVersion]:
    """The tables that a view reads in these snapshots."""
    return {name: _source_version(graph, view, name, at) for name in view.tables}


def _source_version(graph: Graph, view: View, name: str, at: At) -> SourceVersion:
    source = view.tables[name]
    address = Address(bytes.fromhex(source.snapshot)) if source.snapshot else at[source.branch]
    tables = graph.record(address).tables
    try:
        table = table_name_in(graph, source, tables)
    except Corruption:
        row = graph.snapshots.find(address)
        if row is not None:
            graph.forgotten.check(row)
        raise
    if table is None:
        raise NotFound(f"the table {source.table!r}, which {view.name!r} reads, is not there")
    stored = table_location(graph, address, table)
    return SourceVersion(graph.versions.require(tables[table]), stored)


def view_over_heads(graph: Graph, view: View) -> View:
    """A view by what its tables are called on their branches now, where they are there."""
    rows = graph.branches_by_ids(view.branches)
    tables = dict(view.tables)
    for plain, source in view.tables.items():
        if not source.snapshot and source.branch in rows:
            held = graph.tables(graph.snapshots.at(rows[source.branch].head))
            name = table_name_in(graph, source, held)
            if name is not None and name != source.table:
                tables[plain] = replace(source, table=name)
    return view if tables == view.tables else replace(view, tables=tables)


def table_name_in(graph: Graph, source: SourceTable, tables: Mapping[str, Address]) -> str | None:
    """What a table that a view reads is called among the tables of a snapshot; None: it is gone."""
    if source.table in tables and (
        not source.id or _table_id(graph, tables[source.table]) in (None, source.id)
    ):
        return source.table
    if not source.id:
        return None
    shown = {name: version for name, version in tables.items() if not is_hidden(name)}
    return next((n for n, v in shown.items() if _table_id(graph, v) == source.id), None)


def _table_id(graph: Graph, version: Address) -> str | None:
    return graph.versions.definition(graph.versions.require(version)).id


def refresh_inputs(graph: Graph, view: View, old: At | None, new: At) -> dict[str, RefreshInput]:
    """The tables that a view reads, at the last refresh and now."""
    if view.what == "clone":
        return _clone_inputs(graph, view, old, new)
    now = source_versions(graph, view, new)
    if old is None or not set(view.branches) <= set(old):
        return {name: RefreshInput(None, item) for name, item in now.items()}
    try:
        then = source_versions(graph, view, old)
    except NotFound:
        return {name: RefreshInput(None, item) for name, item in now.items()}
    return {name: RefreshInput(then[name], item) for name, item in now.items()}


def _clone_inputs(graph: Graph, view: View, old: At | None, new: At) -> dict[str, RefreshInput]:
    """The tables that a clone sees: all there are on its source, whichever they are."""
    (branch,) = view.branches
    sides: list[dict[str, SourceVersion]] = []
    for address in ((old or {}).get(branch), new[branch]):
        tables = {} if address is None else graph.record(address).tables
        sides.append(
            {
                name: SourceVersion(
                    graph.versions.require(version),
                    None if address is None else table_location(graph, address, name),
                )
                for name, version in tables.items()
                if not is_hidden(name)
            }
        )
    then, now = sides
    were = {graph.versions.definition(item.version).id: item for item in then.values()}
    were.pop(None, None)
    return {
        name: RefreshInput(
            were.get(graph.versions.definition(item.version).id, then.get(name)), item
        )
        for name, item in now.items()
    }
