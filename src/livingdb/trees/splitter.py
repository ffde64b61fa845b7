"""Where chunks end.

`content`: the hash of the key decides, with a hazard that grows with the number of items
since the chunk began, so that sizes vary little.  It looks at keys from the start of the
chunk to the item that closes it and at nothing else: that is what makes a tree canonical.
`capacity`: even pieces of whatever lies there, as a B+-tree would; it depends on history.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from livingdb.trees.keys import KeyArray, hash_keys, key_lengths

__all__ = ["CapacitySplitter", "ContentSplitter", "Splitter"]

Positions = npt.NDArray[np.int64]

_SHAPE = 4
_MEAN = math.gamma(1 + 1 / _SHAPE)
_UNIT = 2.0**32


class Splitter(Protocol):
    """Decides where chunks end."""

    def ends(self, keys: KeyArray, level: int, final: bool) -> Positions:
        """Ends of the chunks closed among these items, the first of which starts a chunk.

        An end is the count of items up to and with the closing one.  Items after the last
        end belong to a chunk still open; `final` closes it, because no more items follow.
        """
        ...


@dataclass(frozen=True)
class ContentSplitter:
    """Closes a chunk after an item whose key hash falls under a growing hazard (Weibull).

    `target_rows` is the mean size of a leaf and `fanout` that of an interior node; no chunk
    has more than twice that many items, or more key bytes than `max_key_bytes` and one key
    (but an interior node always takes two items, however long their keys).
    """

    target_rows: int = 4096
    fanout: int = 256
    max_key_bytes: int = 1 << 20

    def ends(self, keys: KeyArray, level: int, final: bool) -> Positions:
        """See `Splitter.ends`."""
        count = len(keys)
        target = self.target_rows if level == 0 else self.fanout
        least = 1 if level == 0 else 2  # a level must have fewer nodes than the one below
        thresholds = _thresholds(target, least)
        hashes = hash_keys(keys, level) >> np.uint64(32)
        # Few items can close a chunk at all; `closes_at` is from which place in it they do.
        able = np.flatnonzero(hashes < np.uint64(thresholds[-1]))
        closes_at = np.searchsorted(thresholds, hashes[able].astype(np.int64), side="right") + 1
        latest_start = able + 1 - closes_at
        heavy = _HeavyKeys(keys, self.max_key_bytes)
        ends: list[int] = []
        start = at = 0
        while start < count:
            at += int(np.searchsorted(able[at : at + 2 * target], start))
            window = latest_start[at : at + 2 * target] >= start
            place = int(window.argmax()) if len(window) else 0
            found = len(window) > 0 and bool(window[place])
            end = min(int(able[at + place]) + 1 if found else count + 1, start + 2 * target)
            end = min(end, max(heavy.end(start), start + least))
            if end > count:
                break
            ends.append(end)
            start = end
        if final and start < count:
            ends.append(count)
        return np.array(ends, np.int64)


@lru_cache(maxsize=64)
def _thresholds(target: int, least: int) -> Positions:
    """Per number of items in the chunk, below which 32-bit hash value the chunk closes."""
    scale = target / _MEAN
    items = np.arange(1, 2 * target + 1, dtype=np.float64)
    exposure = ((items / scale) ** _SHAPE) - (((items - 1) / scale) ** _SHAPE)
    hazard = -np.expm1(-exposure)
    hazard[: least - 1] = 0
    return np.floor(hazard * _UNIT).astype(np.int64)


class _HeavyKeys:
    """Finds where a chunk closes because of its key bytes."""

    def __init__(self, keys: KeyArray, limit: int):
        self.limit = limit
        self.sums: Positions | None = None
        if keys.dtype == object or len(keys) * keys.dtype.itemsize >= limit:
            self.sums = np.cumsum(key_lengths(keys))

    def end(self, start: int) -> Any:
        if self.sums is None:
            return math.inf
        before = int(self.sums[start - 1]) if start else 0
        position = int(np.searchsorted(self.sums, before + self.limit, side="left"))
        return position + 1 if position < len(self.sums) else math.inf


@dataclass(frozen=True)
class CapacitySplitter:
    """Cuts what lies there into even chunks of about `target_rows`, or `fanout`, items.

    A chunk takes up to one and a half times its target before it splits, and a chunk under
    a quarter of it stays open, so that an edit joins it with its neighbour.
    """

    target_rows: int = 4096
    fanout: int = 256

    def ends(self, keys: KeyArray, level: int, final: bool) -> Positions:
        """See `Splitter.ends`."""
        count = len(keys)
        target = self.target_rows if level == 0 else self.fanout
        if count == 0 or (not final and count < max(target // 4, 2)):
            return np.empty(0, np.int64)
        pieces = 1 if count <= target + target // 2 else max(2, round(count / target))
        return np.linspace(0, count, pieces + 1).round().astype(np.int64)[1:]
