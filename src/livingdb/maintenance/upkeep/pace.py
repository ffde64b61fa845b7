"""A limit on what the runner reads from disks and writes to them, in bytes a second."""

from __future__ import annotations

import resource
import time as clock

__all__ = ["Pace"]

_BLOCK_BYTES = 512


class Pace:
    """Counts what this process moves, as the operating system does, and waits where it is ahead."""

    def __init__(self, bytes_per_second: float | None):
        self._limit = bytes_per_second
        self._began, self._start = clock.monotonic(), _moved_bytes()

    def wait(self, most_seconds: float) -> None:
        """Wait until no more was moved than the time allows, but not for longer than this."""
        if self._limit is None:
            return
        wanted = (_moved_bytes() - self._start) / self._limit
        ahead = wanted - (clock.monotonic() - self._began)
        if ahead > 0 and most_seconds > 0:
            clock.sleep(min(ahead, most_seconds))


def _moved_bytes() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_inblock + used.ru_oublock) * _BLOCK_BYTES
