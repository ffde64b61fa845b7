"""Turns: nobody has more requests at work than their share, whatever others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter

from livingdb.server.http.failures import Refusal
from livingdb.server.settings import Limits

__all__ = ["Turns"]

_OWN_THREADS = 40
"""Threads of the server itself: to find out who asks, and for what anybody may ask."""


class _Share:
    """What one user has at work: requests, and streams of events."""

    def __init__(self, limits: Limits):
        self.requests = asyncio.Semaphore(limits.concurrent)
        self.streams = 0
        self.users = 0


class Turns:
    """The shares of all users of one server; for use in its event loop."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def request(self, name: str) -> AsyncIterator[None]:
        """Wait until one request more of a user may begin; a `Refusal` if that takes too long."""
        async with self._share(name) as share:
            try:
                async with asyncio.timeout(self._limits.wait_seconds):
                    await share.requests.acquire()
            except TimeoutError:
                raise Refusal(
                    429,
                    "too_many_requests",
                    f"{self._limits.concurrent} requests of {name!r} are at work already",
                ) from None
            try:
                yield
            finally:
                share.requests.release()

    @asynccontextmanager
    async def stream(self, name: str) -> AsyncIterator[None]:
        """Let a user listen to events, if they do not listen too often already."""
        async with self._share(name) as share:
            if share.streams >= self._limits.streams:
                said = f"{name!r} listens to {share.streams} streams of events already"
                raise Refusal(429, "too_many_requests", said)
            share.streams += 1
            try:
                yield
            finally:
                share.streams -= 1

    @asynccontextmanager
    async def _share(self, name: str) -> AsyncIterator[_Share]:
        share = self._shares.setdefault(name, _Share(self._limits))
        share.users += 1
        self._make_room()
        try:
            yield share
        finally:
            share.users -= 1
            if not share.users:
                self._shares.pop(name, None)
                self._make_room()

    def _make_room(self) -> None:
        """Let there be a thread for each request that may be at work, so that nobody takes all."""
        threads = _OWN_THREADS + len(self._shares) * int(self._limits.concurrent)
        current_default_thread_limiter().total_tokens = threads
