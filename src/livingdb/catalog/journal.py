"""The journal: small new chunks, kept in the catalog's own SQL database.

Chunks that arrive with a commit travel inside the transaction that commits them, so a commit
costs one sync.  The journal is drained into packs later: read `chunks()`, write them
elsewhere, then `remove` exactly those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    BindParameter,
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    bindparam,
    delete,
    func,
    select,
)

from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.chunks.address import ADDRESS_BYTES, Address, short
from livingdb.chunks.store import StoredChunk, missing_chunk
from livingdb.errors import Corruption

__all__ = ["Journal", "journal_table"]

_ADDRESSES_PER_QUERY = 500
_CHUNKS_PER_PAGE = 64
_ADDRESSES_PER_PAGE = 4_096


def journal_table(metadata: MetaData) -> Table:
    """The journal's table, described in `metadata`; whoever owns the metadata creates it."""
    return Table(
        "chunk",
        metadata,
        Column("address", LargeBinary(ADDRESS_BYTES), primary_key=True),
        Column("data", LargeBinary, nullable=False),
    )


class Journal:
    """A `ChunkStore` in a table of a SQLite or PostgreSQL database.

    What joins a caller's transaction (`connection=`) is seen by others when that transaction
    commits, and by reads of this object not before.
    """

    def __init__(self, engine: Engine, table: Table, queries: Queries | None = None) -> None:
        self._queries = queries if queries is not None else Queries(engine)
        self._writing = writing_engine(engine)
        self._statements = _statements(engine.dialect.name, table)

    def get(self, address: Address) -> bytes:
        """The stored bytes; `Corruption` if there is no such chunk."""
        found = self._queries.run_prepared(self._statements.get, {"address": address})
        if not found:
            raise missing_chunk(address)
        return _data(address, found[0][0])

    def get_many(self, addresses: Sequence[Address]) -> dict[Address, bytes]:
        """The stored bytes of those of the addresses that are here."""
        found: dict[Address, bytes] = {}
        for part in _parts(addresses):
            rows = self._queries.all(self._statements.get_many, {"wanted": part})
            found.update((Address(address), _data(address, data)) for address, data in rows)
        return found

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are here."""
        found: set[Address] = set()
        for part in _parts(addresses):
            rows = self._queries.all(self._statements.contains, {"wanted": part})
            found.update(Address(address) for (address,) in rows)
        return np.fromiter((address in found for address in addresses), np.bool_)

    def put(self, chunks: Iterable[StoredChunk], connection: Connection | None = None) -> None:
        """Keep the chunks: in the transaction of `connection`, else durably in one of its own."""
        # In address order, so that two writers of the same chunks cannot wait for each other.
        rows = sorted((chunk.address, chunk.data) for chunk in chunks)
        if rows:
            parameters = [{"address": address, "data": data} for address, data in rows]
            with self._transaction(connection) as transaction:
                self._statements.insert.run_many(transaction, parameters)

    def remove(self, addresses: Sequence[Address], connection: Connection | None = None) -> None:
        """Drop these chunks if they are here: all or none, joining `connection` as `put` does."""
        if addresses:
            with self._transaction(connection) as transaction:
                for part in _parts(sorted(addresses)):
                    transaction.execute(self._statements.remove, {"wanted": part})

    def chunks(self) -> Iterator[StoredChunk]:
        """The chunks here, in address order, a bounded number in memory at a time.

        No transaction is open between two chunks: those put or removed meanwhile may or may
        not appear.
        """
        for address, data in self._pages(self._statements.page, _CHUNKS_PER_PAGE):
            yield StoredChunk(Address(address), _data(address, data))

    def addresses(self) -> Iterator[Address]:
        """Every address here, each once, in address order."""
        for (address,) in self._pages(self._statements.address_page, _ADDRESSES_PER_PAGE):
            yield Address(address)

    def size_bytes(self) -> int:
        """How many bytes of chunks are here: what a drain would write."""
        return int(self._queries.scalar(self._statements.size))

    def __len__(self) -> int:
        return int(self._queries.scalar(self._statements.count))

    def _pages(self, statement: Any, limit: int) -> Iterator[Any]:
        after = b""
        while True:
            rows = self._queries.all(statement, {"after": after, "limit": limit})
            yield from rows
            if len(rows) < limit:
                return
            after = rows[-1][0]

    def _transaction(self, connection: Connection | None) -> AbstractContextManager[Connection]:
        return self._writing.begin() if connection is None else nullcontext(connection)


def _data(address: bytes, found: object) -> bytes:
    """The bytes of a chunk; SQLite may say that damaged ones are a text or a number."""
    if not isinstance(found, bytes):
        raise Corruption(f"chunk {short(Address(address))} of the journal is not stored as bytes")
    return found


class _Statements:
    """What a journal asks and says."""

    def __init__(self, dialect: str, table: Table) -> None:
        address, data = table.c.address, table.c.data
        wanted = address.in_(bindparam("wanted", expanding=True))
        self.insert = PreparedStatement(insert_into(dialect, table).on_conflict_do_nothing())
        self.get = PreparedStatement(select(data).where(address == bindparam("address")))
        self.get_many = select(address, data).where(wanted)
        self.contains = select(address).where(wanted)
        self.remove = delete(table).where(wanted)
        self.count = select(func.count()).select_from(table)
        self.size = select(func.coalesce(func.sum(func.length(data)), 0))
        after = address > bindparam("after")
        limit: BindParameter[int] = bindparam("limit")
        self.page = select(address, data).where(after).order_by(address).limit(limit)
        self.address_page = select(address).where(after).order_by(address).limit(limit)


@lru_cache(maxsize=8)
def _statements(dialect: str, table: Table) -> _Statements:
    """Built once: SQLAlchemy then finds the compiled form in its cache at every call."""
    return _Statements(dialect, table)


def _parts(addresses: Sequence[Address]) -> Iterator[Sequence[Address]]:
    for start in range(0, len(addresses), _ADDRESSES_PER_QUERY):
        yield addresses[start : start + _ADDRESSES_PER_QUERY]
