"""Rows written to a Parquet file, in groups, with dictionaries for what repeats only.

A dictionary of values that hardly repeat is made, grows too large and is given up: that is a third
of the work of writing such a column, and the file is larger by what was made until then.  A group
is written by a thread of its own while the rows of the next one are read.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

__all__ = ["RowGroups"]

_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 128 << 20
_SAMPLE_PARTS = 16
_SAMPLE_ROWS = 1024
_MOST_DISTINCT = 0.9


class RowGroups:
    """Writes rows in groups, one while the next is read: of two at a time the rows are held.

    Used in a `with` block; what is left is written at its end.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._thread = ThreadPoolExecutor(1, "livingdb-parquet")
        self._writing: Future[None] | None = None
        self._parquet: Any = None
        self._held: list[pa.RecordBatch] = []
        self._rows, self._bytes = 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; let those there are be written if they are enough."""
        self._held.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._wait()
            self._writing = self._thread.submit(self._write, self._take())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        try:
            with self._thread:
                if error is None:
                    self._wait()
            if error is None and (self._held or self._parquet is None):
                self._write(self._take())
        finally:
            if self._parquet is not None:
                self._parquet.close()

    def _wait(self) -> None:
        """Until the group before is written; what went wrong with it is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _take(self) -> pa.Table:
        rows = pa.Table.from_batches(self._held, self._schema)
        self._held, self._rows, self._bytes = [], 0, 0
        return rows

    def _write(self, rows: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._parquet is None:
            self._parquet = pq.ParquetWriter(
                self._path, self._schema, compression="zstd", use_dictionary=_repeating(rows)
            )
        if len(rows):
            self._parquet.write_table(rows, row_group_size=len(rows))


def _repeating(rows: pa.Table) -> list[str] | bool:
    """The columns that get dictionaries, as Parquet calls them: all but those that hardly repeat.

    They are told by some rows from all over the first group.
    """
    import pyarrow.parquet as pq

    stride = max(_SAMPLE_ROWS, len(rows) // _SAMPLE_PARTS)
    parts = [rows.slice(start, _SAMPLE_ROWS) for start in range(0, len(rows), stride)]
    sample = pa.concat_tables(parts) if parts else rows
    distinct = {
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type)
        and len(sample[field.name].unique()) > _MOST_DISTINCT * len(sample)
    }
    if not distinct:
        return True
    nothing = pa.BufferOutputStream()
    pq.write_table(rows.schema.empty_table(), nothing)
    columns = pq.ParquetFile(nothing.getvalue()).schema
    paths = (columns.column(number).path for number in range(len(columns)))
    return [path for path in paths if path not in distinct]
