"""A query that is planned: the columns that it gives, and its rows when they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from livingdb.engines.row_stream import RowStream

__all__ = ["QueryPlan"]


@dataclass(frozen=True)
class QueryPlan:
    """What a query gives, over the rows that there were when it was planned.

    `open` computes them: each time the same ones, a batch at a time.
    """

    schema: pa.Schema
    open: Callable[[], RowStream]
