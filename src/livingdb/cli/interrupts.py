"""Ctrl-C while an engine computes and does not listen: the second one ends the process at once.

Nothing is lost by that: what is not committed was never there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from livingdb.cli.exits import INTERRUPTED

__all__ = ["exit_on_second_interrupt"]

_ASKED = 2


@contextmanager
def exit_on_second_interrupt() -> Iterator[None]:
    """Let a second Ctrl-C end the process while the block runs; for the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(reading,), daemon=True)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        watch.join()
        os.close(reading)


def _watch(reading: int) -> None:
    """Count interrupts until nobody can send any more."""
    count = 0
    while data := os.read(reading, 64):
        count += data.count(signal.SIGINT)
        if count >= _ASKED:
            os._exit(INTERRUPTED)
