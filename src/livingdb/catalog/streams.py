"""The last committed batch of each stream.

Written in the transaction that commits the batch, so that a batch is in once or not at all.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["Streams"]

_stream = schema.stream


class Streams:
    """Reads and writes them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        insert = insert_into(engine.dialect.name, _stream)
        self._put: Any = insert.on_conflict_do_update(
            index_elements=["name"],
            set_={"batch": insert.excluded.batch, "snapshot": insert.excluded.snapshot},
            where=_stream.c.batch < insert.excluded.batch,
        ).execution_options(preserve_rowcount=True)
        self._last = select(_stream.c.batch).where(_stream.c.name == bindparam("name"))

    def last(self, name: str) -> int | None:
        """The last batch of a stream that is in; None if none is."""
        found: int | None = self._queries.scalar(self._last, {"name": name})
        return found

    def put(self, connection: Connection, name: str, batch: int, snapshot: int) -> bool:
        """A batch is in, with this transaction; False if it was before."""
        values = {"name": name, "batch": batch, "snapshot": snapshot}
        return connection.execute(self._put, values).rowcount == 1
