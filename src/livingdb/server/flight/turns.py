"""Turns: nobody has more calls at work than their share, whatever others do."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

from livingdb.server.flight.failures import Stopped
from livingdb.server.flight.limits import FlightLimits

__all__ = ["Turns"]


class Turns:
    """How many calls each user has at work."""

    def __init__(self, limits: FlightLimits):
        self._limits = limits
        self._working: dict[str, int] = {}
        self._changed = Condition()

    @property
    def working(self) -> int:
        """How many calls are at work."""
        return sum(self._working.values())

    def take(self, user: str) -> Callable[[], None]:
        """Wait for a turn; what gives it back.  `Stopped` if it takes too long to come."""
        most = self._limits.concurrent
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: self._working.get(user, 0) < most, self._limits.wait_seconds
            )
            if not is_free:
                raise Stopped("busy", f"{most} calls of {user!r} are at work already")
            self._working[user] = self._working.get(user, 0) + 1
        return lambda: self._give_back(user)

    def _give_back(self, user: str) -> None:
        with self._changed:
            left = self._working[user] - 1
            if left:
                self._working[user] = left
            else:
                del self._working[user]
            self._changed.notify_all()
