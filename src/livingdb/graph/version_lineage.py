"""How two versions of a table are related: by their chains of changes, or not at all."""

from __future__ import annotations

from livingdb.tables.index import Version, VersionIndex, ancestor_at, require
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta

__all__ = ["common_version", "is_base", "tail_between"]


def common_version(index: VersionIndex, one: Version, other: Version) -> Version | None:
    """The last version both come from by changes; None if there is none."""
    if one.origin != other.origin:
        return None
    depth = min(one.depth, other.depth)
    one, other = ancestor_at(index, one, depth), ancestor_at(index, other, depth)
    while one.address != other.address:
        alike = one.skip == other.skip
        one = require(index, one.base if alike else one.skip)
        other = require(index, other.base if alike else other.skip)
    return one


def is_base(index: VersionIndex, old: Version, new: Version) -> bool:
    """Whether a version is another one or comes from it by changes."""
    return (
        old.origin == new.origin
        and old.depth <= new.depth
        and ancestor_at(index, new, old.depth).address == old.address
    )


def tail_between(versions: Versions, old: Version, new: Version) -> Delta | None:
    """The merged changes from a version to one that comes from it; None if they are the same."""
    return None if old.address == new.address else versions.tail_since(old, new)
