"""Runs: the changes of many versions merged, and stored beside them.

Who opens a database reads the changes since the last tree, and many small ones cost by their
number.  So every 32nd version after a tree has a run: the change that makes it of the version 32
before.  Of every eighth such version it goes back eight times as far, and so on, so that few runs
and fewer than 32 changes make up any line.  A run is a cached answer: a version is what its own
recipe says, with it or without.
"""

from __future__ import annotations

from livingdb.tables.index import Version

__all__ = ["is_run_worth", "run_start"]

_CHANGES = 32
_WIDER = 8
_ROWS_A_CHANGE = 64
"""Larger changes cost a reader what their rows do, merged or not."""


def run_start(depth: int, keyframe: int) -> int | None:
    """Where the run to a version of this depth begins, if it is to have one.

    `keyframe` is the depth of the tree that it lies over.
    """
    changes = depth - keyframe
    if changes <= 0 or changes % _CHANGES:
        return None
    width = _CHANGES
    while changes % (width * _WIDER) == 0:
        width *= _WIDER
    return depth - width


def is_run_worth(since: Version, version: Version) -> bool:
    """Whether the changes between two versions are small, so that one is read for many."""
    return version.changed - since.changed <= _ROWS_A_CHANGE * (version.depth - since.depth)
