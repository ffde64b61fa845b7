"""Streams into a table: each micro-batch is one transaction, in the database once.

The checkpoint's location names the stream and Spark numbers its batches.  Both are on the edge,
and the last batch is in the catalog, moved by the same transaction: a batch that Spark sends
again after a restart is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from livingdb.errors import InvalidData
from livingdb.spark.writer import TableWriter

__all__ = ["StreamSink"]


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream to one table."""

    def __init__(self, url: str, table: str, options: Mapping[str, str], overwrite: bool) -> None:
        name = options.get("checkpointLocation")
        if not name:
            raise InvalidData(
                "a stream into a table needs a checkpoint: "
                '.option("checkpointLocation", "/a/folder/of/its/own")'
            )
        self.stream = name
        given = {**options, "operation": options.get("operation") or "upsert"}
        self.writer = TableWriter(url, table, given, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: sort, check and stage the rows."""
        return self.writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: one transaction, unless the batch is in already."""
        self.writer.commit_rows(messages, (self.stream, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: a task failed; nothing remains."""
        self.writer.abort(messages)
