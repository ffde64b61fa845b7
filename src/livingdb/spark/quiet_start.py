"""Starting Java without what it says about itself.

What Spark's process writes to standard error goes on to ours, line by line, but for the lines
that every start has.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["filter_stderr"]

_USUAL = (b"WARNING: Using incubator modules",)


@contextmanager
def filter_stderr() -> Iterator[None]:
    """Processes started in the block write to our standard error through a filter."""
    try:
        ours = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    thread = threading.Thread(target=_copy_lines, args=(reading, ours), name="livingdb-stderr")
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy_lines(reading: int, to: int) -> None:
    """Copy lines until nobody writes any more."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(to, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_USUAL):
                out.write(line)
