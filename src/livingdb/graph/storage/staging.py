"""Staging: what an open transaction has written and nobody else can name yet.

Small chunks wait in memory for the catalog transaction that commits them.  Large chunks, and
all chunks of a large transaction, go straight to packs; those count once the catalog says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from threading import RLock
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.pack_store import PackStream
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.errors import Corruption, TransactionConflict
from livingdb.graph.storage.database_store import JOURNAL_BYTES, DatabaseStore

if TYPE_CHECKING:
    from livingdb.engines.tree_parts import TreeParts
    from livingdb.graph.storage.version_index import CatalogIndex
    from livingdb.trees.forest import Forest

__all__ = ["Scratch", "Staging"]

TRANSACTION_BYTES = 4 << 20


class Staging:
    """The chunks of one transaction; for use as a context manager.

    Left without `keep`, nothing of it remains.  Versions that were made in it and not stored are
    forgotten in any case.  What is larger than `limit_bytes` in all goes to packs, which no other
    transaction relies upon before they count; without a limit, nothing does.  One thread fills it;
    others may find chunks in it meanwhile.
    """

    writes_packs = True

    def __init__(
        self,
        store: DatabaseStore,
        index: CatalogIndex,
        limit_bytes: int | None = TRANSACTION_BYTES,
    ):
        self._store = store
        self._index = index
        self._limit_bytes = limit_bytes
        self._small: dict[Address, StoredChunk] = {}
        self._size_bytes = 0
        self._spilled: set[Address] = set()
        self._taken: set[Address] = set()
        self._stream: PackStream | None = None
        self._own = store.packs.with_packs(())
        self._adopted: set[str] = set()
        self._levels: dict[str, int] = {}
        self._kept = False
        self._ended = False
        self._lock = RLock()

    def __enter__(self) -> Self:
        self._store.attach(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._store.detach(self)
        self._index.forget(self._taken)
        with self._lock:
            stream, self._stream = self._stream, None
            self._ended = True
        if stream is not None:
            stream.__exit__(RuntimeError, None, None)
        made = [name for name in self._own.names if name not in self._adopted]
        if made and not self._kept:
            self._store.drop_packs(made)

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk."""
        if chunk.address in self._store.redacted:
            self._check_redaction(chunk)
        with self._lock:
            if chunk.address in self._small or chunk.address in self._spilled:
                return
            self._taken.add(chunk.address)
            size_bytes = len(chunk.data)
            limit_bytes = self._limit_bytes
            if size_bytes > JOURNAL_BYTES and limit_bytes is not None:
                self._spill(chunk)
                return
            self._small[chunk.address] = chunk
            self._size_bytes += size_bytes
            if limit_bytes is not None and self._size_bytes > limit_bytes:
                for held in self._small.values():
                    self._spill(held)
                self._small.clear()
                self._size_bytes = 0

    def replace(self, chunk: StoredChunk) -> None:
        """Take a chunk, small enough for the journal, in the place of one of the same address."""
        with self._lock:
            old = self._small.pop(chunk.address, None)
            self._size_bytes += len(chunk.data) - (0 if old is None else len(old.data))
            self._small[chunk.address] = chunk

    def retain(self, wanted: Set[Address]) -> None:
        """Let go of chunks that are not wanted, or that others have already."""
        with self._lock:
            own = list(self._small)
            known = self._store.packs.contains(own)
            for address, is_known in zip(own, known.tolist(), strict=True):
                is_redaction = Chunk(address, self._small[address].data).redaction is not None
                if address not in wanted or (is_known and not is_redaction):
                    self._size_bytes -= len(self._small.pop(address).data)

    @staticmethod
    def _check_redaction(chunk: StoredChunk) -> None:
        """Under the address of what was redacted nothing comes back that was erased."""
        if Chunk(chunk.address, chunk.data).redaction is None:
            raise TransactionConflict("rows that this is built upon were erased meanwhile")

    def _spill(self, chunk: StoredChunk) -> None:
        if self._store.packs.contains([chunk.address])[0]:
            return
        if self._stream is None:
            self._stream = self._own.writer()
        self._stream.add(chunk)
        self._spilled.add(chunk.address)

    def adopt(self, packs: Iterable[str], ours: bool = False) -> None:
        """Commit packs, too, that somebody else has written, and keeps if this does not.

        Those that are `ours` go with the rest if this does not.
        """
        names = list(packs)
        self._own.add(*names)
        if not ours:
            self._adopted.update(names)
        self._levels |= self._store.levels(names)

    def join_parts(self, built: TreeParts, forest: Forest, ours: bool = False) -> Address:
        """The root of trees that somebody else has written, side by side."""
        self.adopt(built.packs, ours)
        return forest.join(built.roots, self.sink)

    def find(self, address: Address) -> Buffer | None:
        """The chunk, if it is among these."""
        with self._lock:
            small = self._small.get(address)
            if small is not None:
                return small.data
            if address in self._spilled:
                self.finish_packs()
        try:
            if not self._own.names or not self._own.contains([address])[0]:
                return None
            return self._own.get(address)
        except Corruption:
            if not self._ended:
                raise
            return None  # its packs went while another thread looked

    def finish_packs(self) -> None:
        """Make what went to packs durable and readable here."""
        with self._lock:
            if self._stream is not None:
                stream, self._stream = self._stream, None
                stream.__exit__(None, None, None)
                self._levels |= self._store.levels(stream.names)

    @property
    def journal_bytes(self) -> int:
        """Bytes that go to the journal."""
        return self._size_bytes

    def write(self, connection: Connection) -> None:
        """Put everything in the catalog's transaction; `finish_packs` comes before it."""
        assert self._stream is None
        self._store.journal.put(self._small.values(), connection)
        self._store.catalog.packs.add(connection, self._levels)

    def keep(self) -> None:
        """The catalog's transaction is about to commit: whatever comes of it, packs stay."""
        self._kept = True

    def publish(self) -> None:
        """The catalog's transaction has committed: everybody here reads from its packs."""
        if self._own.names:
            self._store.packs.add(*self._own.names)


class Scratch:
    """Chunks that are never committed: they last as long as the process has the database open."""

    writes_packs = False

    def __init__(self) -> None:
        self._held: dict[Address, Buffer] = {}

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk."""
        self._held[chunk.address] = chunk.data

    def drop(self, chunks: Iterable[StoredChunk]) -> None:
        """Let go of chunks that others have by now."""
        for chunk in chunks:
            self._held.pop(chunk.address, None)

    def find(self, address: Address) -> Buffer | None:
        """The chunk, if it is among these."""
        return self._held.get(address)
