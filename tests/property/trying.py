"""How much is tried of what could be tried for ever, and the seed that says what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["HAS_TIME", "MANY", "SEED", "some_of", "tries"]

T = TypeVar("T")

HAS_TIME = "LIVINGDB_EXAMPLES" in os.environ
"""As `make test-all` has, and `make test` has not."""
SEED = int(os.environ.get("LIVINGDB_SEED", "0"))
"""`make test-all` takes another one each time, and says which."""
_WHOLE = 500
_EFFORT = int(os.environ.get("LIVINGDB_EXAMPLES", _WHOLE))
_LEAST, _PART = 3, 15


def tries(count: int) -> int:
    """So many examples where there is time for them, else a part: each law is tried.

    That is with LIVINGDB_EXAMPLES=500; with ten times as much, there are ten times as many.
    """
    if not HAS_TIME:
        return min(count, max(count // _PART, _LEAST))
    return max(count * _EFFORT // _WHOLE, min(count, _LEAST))


def some_of(every: Sequence[T], count: int, what: str) -> list[T]:
    """So many of them in their order, with more effort more; the seed of the run says which.

    `what` tells apart those that choose: two of them choose differently.
    """
    most = min(len(every), max(count * _EFFORT // _WHOLE, 1))
    places = Random(f"{SEED} {what}").sample(range(len(every)), most)
    return [every[place] for place in sorted(places)]


MANY = tries(1000) if HAS_TIME else 20
"""Of the laws on which everything rests."""
