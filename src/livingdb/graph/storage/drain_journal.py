"""Draining the journal into packs, and joining many small packs into one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from time import time_ns
from typing import Any

from livingdb.catalog.sql.sqlite import reading_engine
from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import StoredChunk
from livingdb.errors import LivingDBError
from livingdb.graph.storage.database_store import DatabaseStore

__all__ = ["JOURNAL_LIMIT_BYTES", "drain_journal", "join_small_packs", "packs_to_join"]

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


PACKS_PER_LEVEL = 8

_LAST_LEVEL = 3


def join_small_packs(store: DatabaseStore) -> int:
    """Join packs until no level has too many; how many packs went."""
    gone = 0
    while True:
        found = packs_to_join(store)
        if not found:
            return gone
        gone += _join(store, found)


def packs_to_join(store: DatabaseStore) -> list[str]:
    """The packs of a level that has too many."""
    by_level: dict[int, list[str]] = {}
    for name, level in store.catalog.packs.levels():
        by_level.setdefault(level, []).append(name)
    for level, names in sorted(by_level.items()):
        if level < _LAST_LEVEL and len(names) >= PACKS_PER_LEVEL:
            return names
    return []


def _join(store: DatabaseStore, names: list[str]) -> int:
    """Copy the chunks of some packs into one, and read that instead."""
    source = store.packs.with_packs(names)
    target = store.packs.with_packs(())
    with target.writer(again=True) as stream:
        stream.put(_chunks(source))
        new = stream.flush()
    levels = {name: max(level, 1) for name, level in store.levels(new).items()}
    with store.catalog.write() as connection:
        still = [name for name, _ in store.catalog.packs.levels(connection)]
        is_done = all(name in still for name in names)
        moment = time_ns() // 1_000
        is_leased = any(lease.until >= moment for lease in store.catalog.leases.all())
        if is_done and is_leased:  # their files go once nobody can be reading them
            store.catalog.packs.retire(connection, names, moment)
        elif is_done:
            store.catalog.packs.remove(connection, names)
        if is_done:
            store.catalog.packs.add(connection, levels)
    if not is_done:
        store.drop_packs(new)
        return 0
    if is_leased:
        store.refresh()
    else:
        store.retire_packs(names)
    return len(names)


def _chunks(source: PackStore) -> Iterator[StoredChunk]:
    for address, body in source.read_in_written_order():
        yield StoredChunk(address, bytes(body[0 : len(body)]))
