"""Functions that databases of these tests name."""

from __future__ import annotations

from typing import Any


def train(tables: dict[str, Any]) -> bytes:
    """A model that knows how many orders there are."""
    return str(tables["orders"].num_rows).encode()
