"""Tidying packs: many small ones become one, so that a chunk is looked for in few places.

A pack's *level* grows with the logarithm of its size.  When there are enough packs of a level
they are copied into one, chunk by chunk: a chunk is copied once per level.
"""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import StoredChunk
from livingdb.graph.storage.database_store import DatabaseStore

__all__ = ["PACKS_PER_LEVEL", "join_small_packs"]

PACKS_PER_LEVEL = 8
_LAST_LEVEL = 3


def join_small_packs(store: DatabaseStore) -> int:
    """Join packs until no level has too many; how many packs went."""
    gone = 0
    while True:
        found = _packs_to_join(store)
        if not found:
            return gone
        gone += _join(store, found)


def _packs_to_join(store: DatabaseStore) -> list[str]:
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
    source = store.packs.reading(names)
    target = store.packs.reading(())
    with target.writer(again=True) as stream:
        stream.put(_chunks(source))
        new = stream.flush()
    levels = {name: max(level, 1) for name, level in store.levels(new).items()}
    with store.catalog.write() as connection:
        still = [name for name, _ in store.catalog.packs.levels(connection)]
        is_done = all(name in still for name in names)
        if is_done:
            store.catalog.packs.remove(connection, names)
            store.catalog.packs.add(connection, levels)
    if not is_done:
        store.drop_packs(new)
        return 0
    store.retire_packs(names)
    return len(names)


def _chunks(source: PackStore) -> Iterator[StoredChunk]:
    for address in source.in_written_order():
        body = source.get(address)
        yield StoredChunk(address, bytes(body[0 : len(body)]))
