"""Which snapshots a derived object was made from, and which it would be made from now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.derivation.refresh_view import RefreshInput, SourceVersion
from livingdb.derivation.view import View
from livingdb.engines.request import TableLocation
from livingdb.errors import NotFound
from livingdb.graph.edge_ends import AT
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version

__all__ = [
    "AT",
    "At",
    "RefreshRequest",
    "positions_by_name",
    "refresh_inputs",
    "source_heads",
    "source_positions",
    "source_versions",
]

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


def source_positions(graph: Graph, row: SnapshotRow) -> dict[BranchId, Address]:
    """What a snapshot of a derived object was made from."""
    given = graph.record(row.address).edge.details.get(AT, {})
    former = graph.catalog.former_names
    return {former.branch(branch): Address(bytes.fromhex(text)) for branch, text in given.items()}


def source_heads(
    graph: Graph, view: View
) -> tuple[dict[BranchId, Address], dict[BranchId, BranchRow]]:
    """Where the branches that a view follows are now."""
    rows = graph.branches_by_ids(view.branches)
    missing = [number for number in view.branches if number not in rows]
    if missing:
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
    version = graph.record(address).tables.get(source.table)
    if version is None:
        raise NotFound(f"the table {source.table!r}, which {view.name!r} reads, is not there")
    stored = TableLocation(graph.place.url, address.hex(), source.table)
    return SourceVersion(graph.versions.require(version), stored)


def refresh_inputs(graph: Graph, view: View, old: At | None, new: At) -> dict[str, RefreshInput]:
    """The tables that a view reads, at the last refresh and now."""
    now = source_versions(graph, view, new)
    if old is None or not set(view.branches) <= set(old):
        return {name: RefreshInput(None, item) for name, item in now.items()}
    try:
        then = source_versions(graph, view, old)
    except NotFound:
        return {name: RefreshInput(None, item) for name, item in now.items()}
    return {name: RefreshInput(then[name], item) for name, item in now.items()}
