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

    `open` computes them: each time the same ones, a batch at a time.  `caution` says why another
    engine might give others; nothing, if all give the same.
    """

    schema: pa.Schema
    open: Callable[[], RowStream]
    caution: str = ""

    def first_rows(self, most: int) -> pa.Table:
        """The first of the rows, so many at most; no more is computed than these need."""
        stream, found, left = self.open(), [], most
        try:
            for batch in stream:
                found.append(batch.slice(0, left))
                left -= len(found[-1])
                if left <= 0:
                    break
        finally:
            stream.close()
        return pa.Table.from_batches(found, self.schema)
