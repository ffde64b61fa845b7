"""Tables that a schema change takes apart from others, where rows go from one side alone.

These are lookup tables, to whose rows others refer as well, and parts of a table that was cut.
They begin as what a schema change makes of other rows.  Where those go and nobody erases from such
a table, it would lose what only they gave it; where rows of its own go and what gave them stays,
they would come back as soon as it is computed anew.  It gets the rows that it is to have as rows of
its own instead, so that nothing which was built upon it, at any head or in any copy, is other than
it should be.
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
from livingdb.maintenance.erasure.redact_versions import RedactedVersions, without_rows
from livingdb.maintenance.reach import recipe_inputs
from livingdb.tables.index import Tree, Version
from livingdb.tables.recipe import Derived, Recipe, Rows
from livingdb.tables.records import redacted
from livingdb.trees.builder import Sink

__all__ = ["keep_shared_rows", "shared_roots"]


def shared_roots(
    graph: Graph, versions: Mapping[Address, Version], found: RedactedVersions, sink: Sink
) -> dict[Address, Address]:
    """The tables that are cut from versions which lose rows, or lose rows and are made of such as
    do not, and the trees of what they are to be.

    `versions` are all there are; the trees go to the sink.
    """
    roots = {}
    for address, version in versions.items() if found.held else ():
        if version.base is not None or (
            version.origin in found.lines and address not in found.gone
        ):
            continue
        recipe = graph.versions.recipe(version)
        is_kept = found.held.isdisjoint(recipe_inputs(recipe))
        if address in found.gone:
            if _is_lens(recipe) and (is_kept or _is_part(recipe)):
                forest = graph.versions.forest(version)
                root, keys = _root(graph, version, sink), found.gone[address]
                roots[address] = without_rows(forest, root, keys, sink)
        elif _is_part(recipe) and not is_kept:
            roots[address] = _root(graph, version, sink)
    return roots


def keep_shared_rows(
    graph: Graph, roots: Mapping[Address, Address], found: RedactedVersions
) -> set[str]:
    """Give such tables the rows they are to have, where they would have others.

    The database is read as it is going to be.  What those are called that keep rows of others.
    """
    names = set()
    for address, root in roots.items():
        version = graph.versions.require(address)
        recipe = graph.versions.recipe(version)
        assert isinstance(recipe, Derived)
        if _computed_root(graph, version) == root:
            continue
        count = graph.versions.forest(version).count_rows(root)
        rows = Rows(version.definition, root, count)
        found.recipes[address] = redacted(address, rows.to_json())
        found.roots[address] = Tree(root)
        found.versions[address] = replace(version, rows=count)
        if address not in found.gone:
            names.add(str(recipe.data["part"]))
    return names


def _root(graph: Graph, version: Version, sink: Sink) -> Address:
    versions = graph.versions
    return versions.rows(version).root_in(versions.forest(version), sink)


def _computed_root(graph: Graph, version: Version) -> Address:
    """The root of what a version is when it is computed anew, whatever tree there is of it."""
    versions = graph.versions
    return versions.derived.compute_root(version, _let_go, versions.forest(version))


def _is_lens(recipe: Recipe) -> bool:
    """Whether a schema change makes it of other tables."""
    return isinstance(recipe, Derived) and recipe.kind == KIND


def _is_part(recipe: Recipe) -> bool:
    """Whether it makes a table of what was in the rows of another, beside what they are now."""
    if not isinstance(recipe, Derived) or not _is_lens(recipe):
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
