"""Tables that rows which go were taken apart into, and that nobody erases from: their rows stay.

These are lookup tables, to whose rows others refer as well, and parts of a table that was cut.
They begin as what a schema change makes of the rows, and would lose what only those gave them.
They get the rows that they have as rows of their own instead, so that nothing which was built upon
them, at any head or in any copy, is other than it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.evolution.changes.decompose import Decompose
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.several_changes import SeveralChanges
from livingdb.evolution.lens_evaluator import KIND
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph
from livingdb.maintenance.erasure.redact_versions import RedactedVersions
from livingdb.maintenance.reach import recipe_inputs
from livingdb.tables.index import Tree, Version
from livingdb.tables.recipe import Derived, Recipe, Rows
from livingdb.tables.records import redacted
from livingdb.trees.builder import Sink

__all__ = ["keep_shared_rows", "shared_roots"]


def shared_roots(
    graph: Graph, versions: Mapping[Address, Version], found: RedactedVersions, sink: Sink
) -> dict[Address, Address]:
    """The tables that are cut from versions which lose rows, and the trees of what they are.

    `versions` are all there are; the trees go to the sink.  Tables that lose rows themselves are
    none of them.
    """
    roots = {}
    for address, version in versions.items() if found.held else ():
        if version.base is not None or version.origin in found.lines:
            continue
        recipe = graph.versions.recipe(version)
        if _is_part(recipe) and not found.held.isdisjoint(recipe_inputs(recipe)):
            roots[address] = _root(graph, version, sink)
    return roots


def keep_shared_rows(
    graph: Graph, roots: Mapping[Address, Address], found: RedactedVersions
) -> set[str]:
    """Give such tables the rows they had, where they would have others; what they are called.

    The database is read as it is going to be.
    """
    names = set()
    for address, root in roots.items():
        version = graph.versions.require(address)
        recipe = graph.versions.recipe(version)
        assert isinstance(recipe, Derived)
        if _root(graph, version, _let_go) == root:
            continue
        count = graph.versions.forest(version).count_rows(root)
        rows = Rows(version.definition, root, count)
        found.recipes[address] = redacted(address, rows.to_json())
        found.roots[address] = Tree(root)
        found.versions[address] = replace(version, rows=count)
        names.add(str(recipe.data["part"]))
    return names


def _root(graph: Graph, version: Version, sink: Sink) -> Address:
    versions = graph.versions
    return versions.rows(version).root_in(versions.forest(version), sink)


def _is_part(recipe: Recipe) -> bool:
    """Whether it makes a table of what was in the rows of another, beside what they are now."""
    if not isinstance(recipe, Derived) or recipe.kind != KIND:
        return False
    change, part = SchemaChange.from_json(recipe.data["change"]), recipe.data["part"]
    changes = change.parts if isinstance(change, SeveralChanges) else [change]
    return any(
        (isinstance(one, Normalize) and one.into == part)
        or (isinstance(one, Decompose) and part in one.into)
        for one in changes
    )


def _let_go(_chunk: StoredChunk) -> None:
    """Where chunks go that nobody needs."""
