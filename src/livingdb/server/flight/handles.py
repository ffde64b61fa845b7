"""Handles: what a server keeps for a client between calls, by a name that nobody can guess."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from livingdb.errors import NotFound
from livingdb.server.flight.failures import Stopped

__all__ = ["Handles"]

Kept = TypeVar("Kept")
_HANDLE_BYTES = 24


@dataclass
class _Entry(Generic[Kept]):
    user: str
    value: Kept
    used: float


class Handles(Generic[Kept]):
    """Things of one kind, each of one user, who alone reaches it.

    What rests longer than `idle_seconds`, or than `rests` says of it, is let go of, with `end`; so
    is, of a user who has `most` of them, the oldest one that `may_go`, for the newest: if there is
    none, that one is refused.
    """

    def __init__(
        self,
        what: str,
        most: int,
        idle_seconds: float,
        end: Callable[[Kept], object] = lambda value: None,
        may_go: Callable[[Kept], bool] = lambda value: True,
        rests: Callable[[Kept], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._what, self._most = what, most
        self._rests = rests or (lambda value: idle_seconds)
        self._end, self._may_go, self._clock = end, may_go, clock
        self._entries: dict[bytes, _Entry[Kept]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, user: str, value: Kept) -> bytes:
        """Keep something; its handle."""
        self.sweep()
        handle = secrets.token_urlsafe(_HANDLE_BYTES).encode()
        with self._lock:
            mine = [key for key, entry in self._entries.items() if entry.user == user]
            ended = []
            if len(mine) >= self._most:
                first = next((k for k in mine if self._may_go(self._entries[k].value)), None)
                if first is None:
                    raise Stopped(
                        "busy",
                        f"you have {len(mine)} {self._what}s at a time already: end some",
                    )
                ended = [self._entries.pop(first).value]
            self._entries[handle] = _Entry(user, value, self._clock())
        for one in ended:
            self._end(one)
        return handle

    def get(self, user: str, handle: bytes) -> Kept:
        """What the user keeps by a handle; from now on it may rest anew."""
        self.sweep()
        with self._lock:
            entry = self._find(user, handle)
            entry.used = self._clock()
            return entry.value

    def take(self, user: str, handle: bytes) -> Kept:
        """What the user kept by a handle, which is none from now on."""
        self.sweep()
        with self._lock:
            entry = self._find(user, handle)
            del self._entries[handle]
            return entry.value

    def of(self, user: str) -> list[Kept]:
        """Everything that the user keeps, the oldest first."""
        self.sweep()
        with self._lock:
            return [entry.value for entry in self._entries.values() if entry.user == user]

    def sweep(self) -> None:
        """Let go of what rested too long."""
        now = self._clock()
        with self._lock:
            late = [
                key
                for key, entry in self._entries.items()
                if now - entry.used > self._rests(entry.value)
            ]
            ended = [self._entries.pop(key).value for key in late]
        for value in ended:
            self._end(value)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            ended = [entry.value for entry in self._entries.values()]
            self._entries.clear()
        for value in ended:
            self._end(value)

    def _find(self, user: str, handle: bytes) -> _Entry[Kept]:
        entry = self._entries.get(handle)
        if entry is None or entry.user != user:
            raise NotFound(f"there is no such {self._what}: it was closed, or rested too long")
        return entry
