"""Connections of clients that are slow or silent end; they hold nothing that others wait for."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["patient_protocol"]


def patient_protocol(stall_seconds: float) -> type[H11Protocol]:
    """A protocol whose clients may take so long to say what they want, and to take the answer.

    An answer waits while a client has not taken what was sent before; one that does not take it
    in that time is cut off.
    """

    class PatientProtocol(H11Protocol):
        _stalled: asyncio.TimerHandle | None = None
        _silent: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._silent = self.loop.call_later(stall_seconds, self._end_silence)

        def _end_silence(self) -> None:
            if self.cycle is None:
                self.transport.abort()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stalled is None:
                self._stalled = self.loop.call_later(stall_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._forget("_stalled")

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget("_stalled")
            self._forget("_silent")
            super().connection_lost(exc)

        def _forget(self, name: str) -> None:
            timer = getattr(self, name)
            if timer is not None:
                timer.cancel()
                setattr(self, name, None)

    return PatientProtocol
