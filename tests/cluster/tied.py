"""Processes that end with whoever started them, however that one ends.

As a program: `tied.py parent command…` becomes the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def tie(parent: int) -> None:
    """Be killed when the parent dies; where the system cannot do that, when it already has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    tie(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
