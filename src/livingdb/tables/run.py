"""Runs: the changes of many versions merged, and stored beside them.

Who opens a database reads the changes since the last tree, and many small ones cost by their
number.  So every 32nd version after a tree has a run: the change that makes it of the version 32
before.  Of every eighth such version it goes back eight times as far, and so on, so that few runs
and fewer than 32 changes make up any line.  A run is a cached answer: a version is what its own
recipe says, with it or without.
"""

from __future__ import annotations

from collections.abc import Set

from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.tables.index import Run, Version, VersionIndex, ancestor_at, require
from livingdb.tables.placement import Placements
from livingdb.tables.recipe import fresh_recipe
from livingdb.tables.stored_delta import store_delta
from livingdb.tables.tail import Tails
from livingdb.trees.builder import Sink
from livingdb.trees.delta import Delta

__all__ = ["Runs", "is_run_worth", "run_start"]

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


class Runs:
    """Makes the runs of versions in one store; recipes of some of them were `redacted`."""

    def __init__(
        self, index: VersionIndex, placements: Placements, tails: Tails, redacted: Set[Address]
    ):
        self._index = index
        self._placements = placements
        self._tails = tails
        self._redacted = redacted

    def is_due(self, version: Version) -> bool:
        """Whether a version is to have a run, and has none: who made it had too much to read."""
        start = self._start(version)
        if start is None or self._index.line(version, start, 1)[0].run is not None:
            return False
        if not self._index.has_hollow():
            return True
        return not self._index.is_hollow(ancestor_at(self._index, version, start).address)

    def put_if_at_hand(self, version: Version, sink: Sink) -> None:
        """Have the run that a new version is to have, unless something has to be read for it."""
        start = self._start(version)
        if start is not None and self._tails.is_at_hand(start, version):
            run = self.make(version, sink)
            if run is not None:
                self._index.put_run(run)

    def make(self, version: Version, sink: Sink) -> Run | None:
        """The run that a version is to have, if it is worth it; its chunks go to the sink."""
        start = self._start(version)
        since = None if start is None else ancestor_at(self._index, version, start)
        if since is None or self._index.is_hollow(since.address):
            return None
        if not is_run_worth(since, version):
            return None
        merged = self._tails.since(since.depth, version)
        stored = self.merged_change(since, merged, sink)
        self._tails.remember(stored.address, merged)
        return Run(version.address, since.address, since.depth, stored.address)

    def anchor(self, since: Version, version: Version, sink: Sink) -> Run:
        """The run to a version from any that it comes from; its chunks go to the sink."""
        stored = self.merged_change(since, self._tails.since(since.depth, version), sink)
        return Run(version.address, since.address, since.depth, stored.address)

    def merged_change(self, since: Version, merged: Delta, sink: Sink) -> StoredChunk:
        """The recipe of changes that many versions made to one: the same, however merged."""
        schema = self._placements.definition_at(since.definition).schema
        recipe = store_delta(schema, merged, since.address, None, sink)
        stored = fresh_recipe(recipe, self._redacted.__contains__)
        sink(stored)
        return stored

    def _start(self, version: Version) -> int | None:
        """The depth from which a version is to have a run; None if it is to have none."""
        return run_start(version.depth, require(self._index, version.keyframe).depth)
