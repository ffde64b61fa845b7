"""Tails: the merged deltas between a materialized version and one of its descendants.

A tail is the one that was asked for last and the changes since, or the deltas of a short line
and the runs that are stored of it, in one pass.  Those of a long one without are merged in *spans*:
the span of a version of depth d covers the changes after depth d with its lowest one-bit cleared,
as in a Fenwick tree.  Each is merged once from smaller ones, so n deltas cost n log n rows, and a
tail is put together from few spans.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.tables.index import Stretch, Version, VersionIndex, require, skip_depth
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import Delta, merge_deltas

__all__ = ["Tails"]


Load = Callable[[Sequence[Stretch]], Sequence[Delta]]
"""Reads the changes that parts of lines name."""

_FEW = 1_024  # deltas and runs that are merged in one pass
_PLACES = 4_096


@dataclass(frozen=True, eq=False)
class BaseRows:
    """The rows that a tail lies over; it is the same as itself only."""

    rows: RowSet


class Tails:
    """Merges deltas and remembers spans and tails, up to a number of rows."""

    def __init__(self, index: VersionIndex, load: Load, limit_rows: int = 4_000_000):
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
        line = self._index.line(version, last.depth, _FEW)
        if line[-1].since != last.address:
            return None
        self._forget((place, last.address))
        return merge_deltas([before, *self._deltas(line[::-1])])

    def clear(self) -> None:
        """Forget what was merged and read so far."""
        with self._lock:
            self._kept.clear()
            self._newest.clear()
            self._rows = 0

    def is_at_hand(self, depth: int, version: Version) -> bool:
        """Whether the changes after a depth up to a version need not be read."""
        line = self._index.line(version, depth, _FEW)
        with self._lock:
            return all(("delta", part.recipe) in self._kept for part in line)

    def since(self, depth: int, version: Version) -> Delta:
        """All changes after a depth up to a version, merged, and not remembered."""
        return merge_deltas(self._parts(depth, version))

    def merge(self, line: Sequence[Stretch]) -> Delta:
        """The changes of parts of a line, merged, and not remembered."""
        return merge_deltas(self._deltas(line))

    def _parts(self, depth: int, version: Version) -> list[Delta]:
        """Deltas that together cover the changes after `depth`, oldest first."""
        line = self._index.line(version, depth, _FEW)
        below = self._at(line[-1].since)
        if below.depth > depth and self._index.has_hollow():  # and a span may go through them
            return [*self._parts(depth, below), merge_deltas(self._deltas(line[::-1]))]
        if below.depth > depth:
            return self._pieces(depth, version)
        return self._deltas(line[::-1])

    def forget_all(self) -> None:
        """Remember nothing: versions that lines went through may be hollow by now."""
        with self._lock:
            self._kept.clear()
            self._newest.clear()
            self._rows = 0

    def _pieces(self, depth: int, version: Version) -> list[Delta]:
        """Spans and deltas that together cover the changes after `depth`, oldest first."""
        pieces: list[Delta] = []
        while version.depth > depth:
            if skip_depth(version.depth) >= depth:
                pieces.append(self._span(version))
                version = self._at(version.skip)
            else:
                pieces.append(self.delta(version))
                version = self._at(version.base)
        return pieces[::-1]

    def _span(self, version: Version) -> Delta:
        """The changes from where the version skips to, merged."""
        floor = skip_depth(version.depth)
        if version.depth - floor == 1:
            return self.delta(version)
        name = ("span", version.address)
        found = self._get(name)
        if found is None:
            below = self._at(version.base)
            found = merge_deltas([*self._pieces(floor, below), self.delta(version)])
            self._put(name, found)
        return found

    def delta(self, version: Version) -> Delta:
        """The changes of one version."""
        return self._deltas([Stretch(version)])[0]

    def _deltas(self, line: Sequence[Stretch]) -> list[Delta]:
        """The changes of each part of a line; those that are not known are read together."""
        found = {part.recipe: self._get(("delta", part.recipe)) for part in line}
        missing = [part for part in line if found[part.recipe] is None]
        if missing:
            for part, changes in zip(missing, self._load(missing), strict=True):
                self._put(("delta", part.recipe), changes)
                found[part.recipe] = changes
        return [delta for delta in found.values() if delta is not None]

    def remember(self, recipe: Address, changes: Delta) -> None:
        """Keep changes that were just written, so that they are not read back."""
        self._put(("delta", recipe), changes)

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
