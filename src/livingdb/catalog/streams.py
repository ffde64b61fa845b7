"""The last committed batch of each stream.

Written in the transaction that commits the batch, so that a batch is in once or not at all.
"""

from __future__ import annotations

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Streams"]

_stream = schema.stream
_rows = SealedRows(_stream)


class Streams:
    """Reads and writes them."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def last(self, name: str) -> int | None:
        """The last batch of a stream that is in; None if none is."""
        row = _rows.find(self._queries, name=name)
        return None if row is None else int(row[1])

    def put(self, connection: Connection, name: str, batch: int, snapshot: int) -> bool:
        """A batch is in, with this transaction; False if it was before."""
        values = {"name": name, "batch": batch, "snapshot": snapshot}
        is_older = _stream.c.name == name, _stream.c.batch < batch
        is_first = _rows.insert_missing(connection, [values]) == 1
        if is_first:  # and not one whose row is damaged
            _rows.read_all(connection.execute(_rows.every))
        return is_first or bool(_rows.update(connection, is_older, values))
