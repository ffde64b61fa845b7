"""Telling at a place what one does with its files, for as long as it goes on.

Who is killed tells nothing more: a use ends with its process, where that can be looked up, and
else a day after it was told last.
"""

from __future__ import annotations

import json
import os
import socket

from livingdb.files.base import Files
from livingdb.graph.graph import now

__all__ = ["Use", "is_going_on"]

_LAPSE_MICROSECONDS = 86_400_000_000
_HEARTBEAT_MICROSECONDS = 600_000_000
_PROCESSES = "/proc/self/ns/pid"


class Use:
    """What somebody does with the files of a place."""

    def __init__(self, files: Files, name: str) -> None:
        self.name = name
        self._files = files
        self._told = 0

    def tell(self) -> None:
        """Say that it goes on, if that was some time ago."""
        moment = now()
        if moment - self._told > _HEARTBEAT_MICROSECONDS:
            told = {"time": moment, "host": _host(), "process": os.getpid()}
            self._files.write(self.name, json.dumps(told).encode())
            self._told = moment


def is_going_on(told: bytes) -> bool:
    """Whether a use that was told goes on, as far as one can know."""
    try:
        said = json.loads(told)
        time, host, process = int(said["time"]), said["host"], int(said["process"])
    except (ValueError, KeyError, TypeError):
        return False
    if host == _host() and not _is_alive(process):
        return False
    return now() - time < _LAPSE_MICROSECONDS


def _host() -> str:
    """Where processes can be looked up by their numbers."""
    try:
        return f"{socket.gethostname()} {os.readlink(_PROCESSES)}"
    except OSError:
        return socket.gethostname()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
