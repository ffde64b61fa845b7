"""How many examples a law is tried on: more where there is time for it."""

from __future__ import annotations

import os

__all__ = ["MANY"]

MANY = 1000 if "LIVINGDB_EXAMPLES" in os.environ else 250
"""Of the laws on which everything rests; `make test-all` has the time."""
