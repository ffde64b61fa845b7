"""The threads that encode and decode leaves.

zstd, BLAKE3 and Arrow release the interpreter's lock, so a few threads keep the cores busy.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from livingdb.interruption import check_interruption

__all__ = ["in_order", "pool"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(os.cpu_count() or 1, 8), thread_name_prefix="livingdb-leaf")


def pool() -> ThreadPoolExecutor:
    """The process's pool; a forked child gets one of its own."""
    return _pool(os.getpid())


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], ahead: int = 16
) -> Iterator[Result]:
    """Results in the order of the items, computed up to `ahead` items early, at first fewer.

    `LimitExceeded` before the next one, if whoever takes them was stopped.
    """
    source = iter(items)
    first = next(source, None)
    second = next(source, None)
    if first is None:
        return
    if second is None:
        yield function(first)
        return
    waiting: deque[Future[Result]] = deque(pool().submit(function, i) for i in (first, second))
    early = 2
    try:
        for item in source:
            if len(waiting) >= early:
                check_interruption()
                yield waiting.popleft().result()
                early = min(early + 1, ahead + 1)
            waiting.append(pool().submit(function, item))
        while waiting:
            check_interruption()
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
