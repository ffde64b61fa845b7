"""Batches and chunks of rows, joined where each costs something of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from livingdb.chunks.arrow_values import empty

__all__ = ["BATCH_ROWS", "flat", "large_batches"]

BATCH_ROWS = 65_536


def large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least `BATCH_ROWS`, but for the last."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch)
        if count >= BATCH_ROWS:
            yield pa.concat_batches(held)
            held, count = [], 0
    if held:
        yield pa.concat_batches(held)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else empty(column.type)
