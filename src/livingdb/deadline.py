"""How long work may take: a limit that holds for what a thread does, and what it hands on.

Queries are interrupted when the time is over; other work looks at the clock whenever it reads a
part of a tree.  Nothing that is being committed is under a limit: who sets one ends it before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Timer

from livingdb.errors import Unsupported

__all__ = ["check_time", "interrupt_in_time", "limit_time"]


@dataclass(frozen=True)
class _Limit:
    seconds: float
    end: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def error(self) -> Unsupported:
        return Unsupported(
            f"this takes longer than {self.seconds:g} s, which is what it may take here: ask for "
            "less, by a condition on the key for instance"
        )


_limit: ContextVar[_Limit | None] = ContextVar("livingdb_time_limit", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Let what is done in the block take so long, or end with `Unsupported`."""
    before = _limit.set(_Limit(seconds, time.monotonic() + seconds))
    try:
        yield
    finally:
        _limit.reset(before)


def check_time() -> None:
    """`Unsupported` if the time is over."""
    limit = _limit.get()
    if limit is not None and limit.is_over:
        raise limit.error()


@contextmanager
def interrupt_in_time(interrupt: Callable[[], object]) -> Iterator[None]:
    """Call `interrupt`, from another thread, if the time is over before the block has ended.

    What the block raises then is told as what it is: `Unsupported`.
    """
    limit = _limit.get()
    if limit is None:
        yield
        return
    check_time()
    timer = Timer(limit.end - time.monotonic(), interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if limit.is_over:
            raise limit.error() from None
        raise
    finally:
        timer.cancel()
