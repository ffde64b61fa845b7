"""Values of identity columns: drawn from counters, in blocks that one process keeps."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import numpy as np

from livingdb.catalog.counters import Counters
from livingdb.tables.identity_column import NumberRule, Numbers

__all__ = ["GeneratedValues"]

_BLOCK = 32


class GeneratedValues:
    """Draws for one open database; threads may share it.

    What a process has not used of a block when it ends is lost.
    """

    def __init__(self, counters: Counters):
        self._counters = counters
        self._blocks: dict[str, tuple[int, int]] = {}
        """For each counter the numbers at hand: the next, and how many there are."""
        self._passed: dict[str, int] = {}
        """For each counter a number that it is known to be past."""
        self._lock = RLock()

    def draw(
        self, column: str, count: int, rule: NumberRule, held: Callable[[], int | None]
    ) -> Numbers:
        """So many numbers by a rule; `held` is the last that rows have, should no counter be."""
        step = rule.increment
        with self._lock:
            start, left = self._blocks.get(column, (0, 0))
            there = min(count, left)
            numbers = rule.numbers(start, there)
            missing = count - there
            if not missing:
                self._blocks[column] = start + step * count, left - count
                return numbers
            known = self._counters.next(column) is not None
            first = rule.start if known else rule.next_after(held())
            taken = max(missing, _BLOCK)
            begin = self._counters.take(column, taken, first, step)
            self._blocks[column] = begin + step * missing, taken - missing
            self._passed[column] = begin + step * (taken - 1)
            return np.concatenate([numbers, rule.numbers(begin, missing)])

    def reserve(
        self, column: str, count: int, rule: NumberRule, held: Callable[[], int | None]
    ) -> int:
        """The first of so many numbers by a rule that follow each other, and nobody else gets."""
        with self._lock:
            known = self._counters.next(column) is not None
            first = rule.start if known else rule.next_after(held())
            return self._counters.take(column, count, first, rule.increment)

    def move_past(self, column: str, number: int | None, rule: NumberRule) -> None:
        """A writer gave this number by itself: neither it nor one before it is drawn here."""
        if number is None or not rule.is_reached(number):
            return
        following, step = rule.next_after(number), rule.increment
        with self._lock:
            start, left = self._blocks.get(column, (0, 0))
            skipped = min(left, max(0, (following - start) // step)) if left else 0
            self._blocks[column] = start + step * skipped, left - skipped
            passed = self._passed.get(column)
            if passed is None or (number - passed) * step > 0:
                self._counters.move_to(column, following, step)
                self._passed[column] = number
