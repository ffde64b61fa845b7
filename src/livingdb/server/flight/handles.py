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
    until: float


class Handles(Generic[Kept]):
    """Things of one kind, each of one user, who alone reaches it.

    What rests longer than `idle_seconds` is let go of, with `end`; so is the oldest one of a user
    who has more than `most`, if `replaces`, and else the newest is refused.
    """

    def __init__(
        self,
        what: str,
        most: int,
        idle_seconds: float,
        end: Callable[[Kept], object] = lambda value: None,
        replaces: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._what, self._most, self._idle_seconds = what, most, idle_seconds
        self._end, self._replaces, self._clock = end, replaces, clock
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
            surplus = [mine[0]] if len(mine) >= self._most else []
            if surplus and not self._replaces:
                raise Stopped(
                    "busy", f"{user!r} has {len(mine)} {self._what}s at a time already: end some"
                )
            ended = [self._entries.pop(key).value for key in surplus]
            self._entries[handle] = _Entry(user, value, self._clock() + self._idle_seconds)
        for one in ended:
            self._end(one)
        return handle

    def get(self, user: str, handle: bytes) -> Kept:
        """What the user keeps by a handle; from now on it may rest anew."""
        self.sweep()
        with self._lock:
            entry = self._find(user, handle)
            entry.until = self._clock() + self._idle_seconds
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
            late = [key for key, entry in self._entries.items() if entry.until < now]
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
