"""Evicting: dropping the tree of a version, which is a cached answer and can be made again."""

from __future__ import annotations

from livingdb.tables.index import Version, version_below
from livingdb.tables.recipe import Rows
from livingdb.tables.versions import Versions

__all__ = ["evict"]


def evict(versions: Versions, version: Version) -> bool:
    """Forget the tree of a version; refused (False) where it is the data itself."""
    index = versions.index
    if version.base is None and isinstance(versions.recipe(version), Rows):
        return False
    if version_below(index, version) is None and index.is_hollow(version.origin):
        return False
    index.evict(version.address)
    return True
