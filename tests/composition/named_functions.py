"""What databases of these tests name as functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.condition import PendingChange

_FAILS: list[bool] = []


@contextmanager
def failing() -> Iterator[None]:
    """Meanwhile no model can be made."""
    _FAILS.append(True)
    try:
        yield
    finally:
        _FAILS.pop()


def train(tables: dict[str, pa.Table]) -> bytes:
    """How many orders there are."""
    if _FAILS:
        raise RuntimeError("out of order")
    return str(tables["orders"].num_rows).encode()


def is_small(change: PendingChange) -> Any:
    """The rows that come with a large amount."""
    rows = change.come("careful")
    return rows.filter(pc.greater(rows.column("amount"), 100))
