"""Rows as they come: batches of one schema, of which only a few are in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

__all__ = ["BATCH_ROWS", "RowStream", "one_batch"]

BATCH_ROWS = 65_536
"""About as many rows as a batch has at most."""


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _nothing() -> None:
    """There is nothing to let go of."""


class RowStream:
    """The rows of an answer, to be read once, by one thread; closed when they are all read."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        close: Callable[[], object] = _nothing,
    ):
        self.schema = schema
        self._batches = iter(batches)
        self._close = close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of what the rows are made from."""
        close, self._close = self._close, _nothing
        self._batches = iter(())
        close()

    def map(
        self, schema: pa.Schema, change: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> RowStream:
        """The same rows, each batch changed on its way."""
        return RowStream(schema, map(change, self), self.close)

    @staticmethod
    def of(table: pa.Table) -> RowStream:
        """Rows that are in memory already."""
        return RowStream(table.schema, table.to_batches(max_chunksize=BATCH_ROWS))
