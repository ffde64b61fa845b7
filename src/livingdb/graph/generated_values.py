"""Values of identity columns: drawn from counters, in blocks that one process keeps."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import numpy as np
import numpy.typing as npt

from livingdb.catalog.counters import Counters

__all__ = ["GeneratedValues"]

_BLOCK = 32

Numbers = npt.NDArray[np.int64]


class GeneratedValues:
    """Draws for one open database; threads may share it.

    What a process has not used of a block when it ends is lost.
    """

    def __init__(self, counters: Counters):
        self._counters = counters
        self._blocks: dict[str, tuple[int, int]] = {}
        """For each counter the numbers at hand: the next, and the one after the last."""
        self._passed: dict[str, int] = {}
        """For each counter a number that it is known to be past."""
        self._lock = RLock()

    def draw(self, column: str, count: int, least: Callable[[], int]) -> Numbers:
        """So many numbers, ascending; `least` is the first of all, should there be no counter."""
        with self._lock:
            start, stop = self._blocks.get(column, (0, 0))
            held = np.arange(start, min(start + count, stop))
            missing = count - len(held)
            if not missing:
                self._blocks[column] = start + count, stop
                return held
            first = 1 if self._counters.next(column) is not None else least()
            taken = max(missing, _BLOCK)
            begin = self._counters.take(column, taken, first)
            self._blocks[column] = begin + missing, begin + taken
            self._passed[column] = begin + taken - 1
            return np.concatenate([held, np.arange(begin, begin + missing)])

    def move_past(self, column: str, number: int) -> None:
        """A writer gave this number by itself: neither it nor a smaller one is drawn here."""
        with self._lock:
            start, stop = self._blocks.get(column, (0, 0))
            self._blocks[column] = max(start, min(number + 1, stop)), stop
            if number > self._passed.get(column, 0):
                self._counters.move_past(column, number)
                self._passed[column] = number
