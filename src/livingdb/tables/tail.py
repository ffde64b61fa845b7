"""Tails: the merged deltas between a materialized version and one of its descendants.

A tail is the one that was asked for last and the changes since, or the deltas of a short line
in one pass.  Those of a long one are merged in *runs*: the run of a version of depth d covers the
changes after depth d with its lowest one-bit cleared, as in a Fenwick tree.  Each run is merged
once from smaller ones, so n deltas cost n log n rows, and a tail is put together from few runs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.tables.index import Version, VersionIndex, require, skip_depth
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import Delta, merge_deltas

__all__ = ["Tails"]


_FEW = 1_024  # changes that are merged in one pass
_PLACES = 4_096


@dataclass(frozen=True, eq=False)
class BaseRows:
    """The rows that a tail lies over; it is the same as itself only."""

    rows: RowSet


class Tails:
    """Merges deltas and remembers runs and tails, up to a number of rows."""

    def __init__(
        self,
        index: VersionIndex,
        load: Callable[[Sequence[Version]], Sequence[Delta]],
        limit_rows: int = 4_000_000,
    ):
        self._index = index
        self._load = load
        self._limit_rows = limit_rows
        self._kept: OrderedDict[Hashable, Delta] = OrderedDict()
        self._newest: dict[Hashable, Version] = {}
        """The version of the last tail over each place."""
        self._rows = 0
        self._lock = threading.Lock()

    def tail(self, keyframe: Version, version: Version, below: BaseRows | None = None) -> Delta:
        """All changes after `keyframe` up to `version`, merged; there is at least one.

        `below` are the rows of the keyframe, if they have a tail of their own, which is in it.
        """
        place = keyframe.address if below is None or below.rows.tail is None else below
        name = (place, version.address)
        found = self._get(name)
        if found is not None:
            return found
        merged = self._longer_tail(place, version)
        if merged is None:
            first = [] if below is None or below.rows.tail is None else [below.rows.tail]
            merged = merge_deltas([*first, *self._parts(keyframe.depth, version)])
        self._put(name, merged)
        if len(self._newest) > _PLACES:
            self._newest.clear()
        self._newest[place] = version
        return merged

    def _longer_tail(self, place: Hashable, version: Version) -> Delta | None:
        """The tail of a version that comes from that of the last one by few changes."""
        last = self._newest.get(place)
        if last is None or not 0 < version.depth - last.depth <= _FEW:
            return None
        before = self._get((place, last.address))
        if before is None:
            return None
        line = self._line(last.depth, version)
        if line[0].base != last.address:
            return None
        self._forget((place, last.address))
        return merge_deltas([before, *self._deltas(line)])

    def _parts(self, depth: int, version: Version) -> list[Delta]:
        """Deltas that together cover the changes after `depth`, oldest first."""
        if version.depth - depth > _FEW:
            return self._pieces(depth, version)
        return self._deltas(self._line(depth, version))

    def _line(self, depth: int, version: Version) -> list[Version]:
        """The versions after `depth` up to one, oldest first."""
        self._index.preload_line(version, depth)
        line = [version]
        while line[-1].depth > depth + 1:
            line.append(self._at(line[-1].base))
        return line[::-1]

    def _pieces(self, depth: int, version: Version) -> list[Delta]:
        """Runs and deltas that together cover the changes after `depth`, oldest first."""
        pieces: list[Delta] = []
        while version.depth > depth:
            if skip_depth(version.depth) >= depth:
                pieces.append(self._run(version))
                version = self._at(version.skip)
            else:
                pieces.append(self.delta(version))
                version = self._at(version.base)
        return pieces[::-1]

    def _run(self, version: Version) -> Delta:
        """The changes from where the version skips to, merged."""
        floor = skip_depth(version.depth)
        if version.depth - floor == 1:
            return self.delta(version)
        name = ("run", version.address)
        found = self._get(name)
        if found is None:
            below = self._at(version.base)
            found = merge_deltas([*self._pieces(floor, below), self.delta(version)])
            self._put(name, found)
        return found

    def delta(self, version: Version) -> Delta:
        """The changes of one version."""
        return self._deltas([version])[0]

    def _deltas(self, versions: Sequence[Version]) -> list[Delta]:
        """The changes of each version; those that are not known are read together."""
        found = {v.address: self._get(("delta", v.address)) for v in versions}
        missing = [version for version in versions if found[version.address] is None]
        if missing:
            for version, changes in zip(missing, self._load(missing), strict=True):
                self._put(("delta", version.address), changes)
                found[version.address] = changes
        return [delta for delta in found.values() if delta is not None]

    def remember(self, version: Address, changes: Delta) -> None:
        """Keep a delta that was just written, so that it is not read back."""
        self._put(("delta", version), changes)

    def _at(self, address: Address | None) -> Version:
        return require(self._index, address)

    def _get(self, name: Hashable) -> Delta | None:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found

    def _put(self, name: Hashable, changes: Delta) -> None:
        with self._lock:
            old = self._kept.pop(name, None)
            self._kept[name] = changes
            self._rows += len(changes) + 64 - (len(old) + 64 if old is not None else 0)
            while self._rows > self._limit_rows and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._rows -= len(dropped) + 64

    def _forget(self, name: Hashable) -> None:
        with self._lock:
            old = self._kept.pop(name, None)
            if old is not None:
                self._rows -= len(old) + 64
