"""What databases of the tests name as functions."""

from __future__ import annotations

import pyarrow as pa


def count(tables: dict[str, pa.Table]) -> bytes:
    """How many orders there are."""
    return str(tables["orders"].num_rows).encode()
