"""All versions of a table there ever were, on any branch, whatever it was called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.derivation.hidden_tables import whole_name
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.table_ids import table_id
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition

__all__ = ["all_versions", "versions_by_table"]

_rows, _touches = SealedRows(schema.version), SealedRows(schema.touch)


def all_versions(graph: Graph) -> dict[Address, Version]:
    """Every version that has rows: not those that were forgotten."""
    found = graph.catalog.queries.all(_rows.every)
    rows = [VersionRow(*values) for values in _rows.read_all(found)]
    hollow = graph.catalog.forgotten.versions()
    return {row.address: Version(*row) for row in rows if row.address not in hollow}


def versions_by_table(
    graph: Graph, versions: Mapping[Address, Version], tables: set[str]
) -> dict[str, list[Version]]:
    """The versions of some tables, each after the one that it is a change of.

    A definition says the identity of its table; where one does not, the snapshots do that have it.
    """
    definitions = {version.definition for version in versions.values()}
    known = {address: Definition.load(graph.store, address).id for address in definitions}
    by_origin = _unidentified(graph, versions, known)
    found: dict[str, list[Version]] = {table: [] for table in tables}
    for version in sorted(versions.values(), key=lambda version: version.depth):
        identity = known[version.definition] or by_origin.get(version.origin)
        if identity in found:
            found[identity].append(version)
    return found


def _unidentified(
    graph: Graph, versions: Mapping[Address, Version], known: Mapping[Address, str | None]
) -> dict[Address, str]:
    """The tables of definitions that do not tell, by the first version of their lines.

    What is kept beside the table of a view, under a hidden name, is taken for the view's.
    """
    found: dict[Address, str] = {}
    for name, sequence, address in _touched(graph):
        version = None if address is None else versions.get(address)
        if version is None or version.origin in found or known[version.definition] is not None:
            continue
        snapshot = graph.snapshots.at(sequence)
        visible = whole_name(name)
        if graph.forgotten.find(snapshot) is not None:
            continue
        if is_hidden(visible) or visible not in graph.tables(snapshot):
            continue
        found[version.origin] = table_id(graph, snapshot, visible)
    return found


def _touched(graph: Graph) -> Sequence[tuple[str, int, Address | None]]:
    rows = _touches.read_all(graph.catalog.queries.all(select(schema.touch)))
    return [(name, sequence, address) for name, sequence, address in rows]
