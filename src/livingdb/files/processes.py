"""Processes of this machine: what tells one from all others, and whether it has ended."""

from __future__ import annotations

import os
import socket
from functools import cache

__all__ = ["has_ended", "process_name"]

_PARTS = 4


def process_name() -> str:
    """What this process is called: its host and number, and what no other that has them shares."""
    number = os.getpid()
    return f"{socket.gethostname()}:{number}:{_start(number)}:{_machine()}"


def has_ended(name: str) -> bool:
    """Whether a process is known to have ended: of one of another machine, nothing is known."""
    parts = name.rsplit(":", _PARTS - 1)
    if len(parts) < _PARTS or not _machine() or parts[3] != _machine() or not parts[1].isdigit():
        return False
    return _start(int(parts[1])) != parts[2]


def _start(number: int) -> str:
    """When a process began, in ticks of the machine; empty if there is none, or nobody knows."""
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    # A process that ended and that nobody asked about yet has its number still.
    return "" if words[0] in ("Z", "X") else words[19]


@cache
def _machine() -> str:
    """What tells this machine, since it was started, and the numbers of its processes apart."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid').strip('pid:[]')}"
    except OSError:
        return ""
