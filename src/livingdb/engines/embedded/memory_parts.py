"""The memory of queries in parts: those of one user share one, and take nothing from the others.

There are few parts, so that together they stay below what queries may take in all.  A user at work
has the part that the fewest have then; it is that user's alone while no more are at work than there
are parts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["PARTS", "MemoryParts", "current_part", "in_common_memory"]

PARTS = 4

_current: ContextVar[int | None] = ContextVar("livingdb_memory_part", default=None)


def current_part() -> int | None:
    """The part in which queries are answered here; None: in memory that is nobody's."""
    return _current.get()


@contextmanager
def in_common_memory() -> Iterator[None]:
    """Let queries inside be answered in memory that is nobody's: they are no user's own."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


class MemoryParts:
    """Who has which part."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, int] = {}
        self._at_work: Counter[str] = Counter()

    @contextmanager
    def of(self, owner: str) -> Iterator[None]:
        """Let queries inside be answered in the part of one user."""
        token = _current.set(self._enter(owner))
        try:
            yield
        finally:
            _current.reset(token)
            self._leave(owner)

    def _enter(self, owner: str) -> int:
        with self._lock:
            if owner not in self._parts:
                shared = Counter(self._parts.values())
                self._parts[owner] = min(range(PARTS), key=lambda part: shared[part])
            self._at_work[owner] += 1
            return self._parts[owner]

    def _leave(self, owner: str) -> None:
        with self._lock:
            self._at_work[owner] -= 1
            if not self._at_work[owner]:
                del self._at_work[owner], self._parts[owner]
