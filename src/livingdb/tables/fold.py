"""Folding: making a tree of a version's own, so that nothing lies over it as a tail.

A materialization is a cached answer: making one changes what a read costs and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.chunks.address import Address
from livingdb.tables.index import Version
from livingdb.tables.layout import FOLD_FLOOR_ROWS
from livingdb.trees.builder import Sink

if TYPE_CHECKING:
    from livingdb.tables.versions import Versions

__all__ = ["fold", "folded_root", "is_fold_due"]

_LINK_ROWS = 16


def is_fold_due(versions: Versions, version: Version) -> bool:
    """Whether the layout in force asks for a tree of the version's own.

    A small table that lies in another layout is laid out anew as it is touched; of a larger
    one a long tail decides, or whoever lays out tables.
    """
    place = versions.placements.of(version)
    layout, recorded = place.layout, versions.require(version.keyframe)
    if place.is_given and layout.fold != "never" and _is_displaced(versions, version, recorded):
        return True
    if layout.fold == "auto" and _weight(recorded, version) <= FOLD_FLOOR_ROWS:
        return False
    keyframe = versions.nearest_stored(version) or versions.require(version.origin)
    tail = version.changed - keyframe.changed
    if layout.fold == "auto":
        tail = _weight(keyframe, version)
    if layout.fold in ("always", "never"):
        return layout.is_fold_due(tail, 0)
    return tail > 0 and layout.is_fold_due(tail, versions.count(keyframe))


def _is_displaced(versions: Versions, version: Version, recorded: Version) -> bool:
    """Whether the tree that a version is read from lies otherwise, and has few rows."""
    index, placements = versions.index, versions.placements
    known = index.tree(recorded.address)
    if known is not None and placements.is_in_place(version, known):
        return False
    near = versions.nearest_stored(version)
    tree = None if near is None else index.tree(near.address)
    if near is None or tree is None or placements.is_in_place(version, tree):
        return False
    return versions.count(near) <= FOLD_FLOOR_ROWS


def _weight(keyframe: Version, version: Version) -> int:
    """What a tail costs a reader, in rows: many small deltas cost more than their rows."""
    links = version.depth - keyframe.depth
    return version.changed - keyframe.changed + _LINK_ROWS * links


def fold(versions: Versions, version: Version, sink: Sink) -> Address:
    """Materialize the version in the layout in force; its root.

    It is never built upon what nobody stores, and built anew where the nearest tree lies in
    another layout.
    """
    known = folded_root(versions, version)
    if known is not None:
        return known
    index, near = versions.index, versions.nearest_stored(version)
    is_stored = near is not None and not index.is_cached(near.address)
    if not is_stored and (near is not None or not versions.derived.is_mapped(version.origin)):
        versions.derived.evaluate(version, sink)
    rows = versions.rows(version)
    place = versions.placements.of(version)
    root = rows.root_in(place.forest, sink)
    if rows.tail is not None or not rows.lies_in(place.forest):
        index.materialize(version.address, place.tree(root, sink))
    return root


def folded_root(versions: Versions, version: Version) -> Address | None:
    """The root of a version's stored tree, if it has one in the layout in force."""
    tree = versions.index.tree(version.address)
    if tree is None or versions.index.is_cached(version.address):
        return None
    return tree.root if versions.placements.is_in_place(version, tree) else None
