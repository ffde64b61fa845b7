"""Thins the materializations of a table's history: the further back, the fewer."""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise

from livingdb.chunks.address import Address
from livingdb.tables.evict import evict
from livingdb.tables.index import Version, version_below
from livingdb.tables.versions import Versions

__all__ = ["thin_keyframes"]


def thin_keyframes(
    versions: Versions, head: Version, keep: Container[Address] = ()
) -> list[Version]:
    """Evict old keyframes behind `head` so that the gaps between those kept double.

    Of three in a row the middle one goes if the oldest is at most twice as far from the
    head, in delta rows, as the newest.  So two are kept for each doubling of the distance,
    and what lies in a gap is never further from its keyframe than from the head, however
    often the head moves on.  The versions evicted; the nearest, the origin and those in `keep`
    stay.
    """
    frames = _keyframes(versions, head)
    if not frames:
        return []
    evicted: list[Version] = []
    kept = frames[0]
    for middle, oldest in pairwise(frames[1:]):
        is_near = head.changed - oldest.changed <= 2 * (head.changed - kept.changed)
        if is_near and middle.address not in keep and evict(versions, middle):
            evicted.append(middle)
        else:
            kept = middle
    return evicted


def _keyframes(versions: Versions, head: Version) -> list[Version]:
    """The materialized ancestors of a version, nearest first."""
    frames: list[Version] = []
    frame = versions.nearest_stored(head)
    while frame is not None:
        frames.append(frame)
        below = version_below(versions.index, frame)
        frame = None if below is None else versions.nearest_stored(below)
    return frames
