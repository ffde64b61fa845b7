"""Draining the journal: its chunks move to a pack, and SQLite gives their pages back."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from livingdb.catalog.sql.sqlite import reading_engine
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import LivingDBError
from livingdb.graph.storage.database_store import DatabaseStore
from livingdb.graph.storage.join_packs import join_small_packs

__all__ = ["JOURNAL_LIMIT_BYTES", "drain_journal"]

JOURNAL_LIMIT_BYTES = 512 << 10


def drain_journal(store: DatabaseStore) -> int:
    """Move what is in the journal to packs; how many chunks that were.

    The pack is durable before the catalog names it and lets go of the journal's copies, in one
    transaction: a reader finds a chunk in one place or the other at any moment.
    """
    moved: list[Address] = []

    def watched(chunk: StoredChunk) -> StoredChunk:
        moved.append(chunk.address)
        return chunk

    with store.packs.writer(again=True) as stream:
        stream.put(watched(chunk) for chunk in store.journal.chunks())
        names = stream.flush()
    if not moved:
        return 0
    levels = store.levels(names)
    with store.catalog.write() as connection:
        store.catalog.packs.add(connection, levels)
        store.journal.remove(moved, connection)
    give_back_pages(store)
    join_small_packs(store)
    return len(moved)


def give_back_pages(store: DatabaseStore) -> None:
    """Let SQLite shrink its files, if it can; other databases see to that themselves."""
    engine = store.catalog.engine
    if engine.dialect.name != "sqlite":
        return
    with suppress(sqlite3.Error, LivingDBError), reading_engine(engine).connect() as connection:
        raw: Any = connection.connection.dbapi_connection
        raw.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
