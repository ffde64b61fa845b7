"""How many examples a law is tried on: more where there is time for it."""

from __future__ import annotations

import os

__all__ = ["HAS_TIME", "MANY", "tries"]

HAS_TIME = "LIVINGDB_EXAMPLES" in os.environ
"""As `make test-all` has, and `make test` has not."""
_LEAST, _PART = 3, 10


def tries(count: int) -> int:
    """So many examples where there is time for them, else a part: each law is tried."""
    return count if HAS_TIME else min(count, max(count // _PART, _LEAST))


MANY = 1000 if HAS_TIME else 25
"""Of the laws on which everything rests."""
