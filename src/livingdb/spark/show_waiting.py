"""A line on the terminal that says what is waited for, and for how long already."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["show_waiting"]

_INTERVAL_SECONDS = 1.0
_CLEAR = "\r\x1b[K"


@contextmanager
def show_waiting(what: str) -> Iterator[None]:
    """Show the line while the block runs, and take it away after; nothing if there is no terminal.

    It goes to standard error as that is now, whatever becomes of it in the block.
    """
    if not _is_terminal():
        yield
        return
    terminal = os.dup(2)
    over = threading.Event()
    thread = threading.Thread(
        target=_tell, args=(terminal, what, over), name="livingdb-waiting", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        os.close(terminal)


def _is_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:  # there is no standard error
        return False


def _tell(terminal: int, what: str, over: threading.Event) -> None:
    began = time.monotonic()
    with suppress(OSError):
        while True:
            seconds = int(time.monotonic() - began)
            _write(terminal, f"{_CLEAR}{what} ({seconds} s)")
            if over.wait(_INTERVAL_SECONDS):
                break
        _write(terminal, _CLEAR)


def _write(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())
