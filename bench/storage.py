"""Drives the storage layer for measurements: one table, trees or versions over a store."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from bench import workloads
from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.tables import ingest
from livingdb.tables.fold import fold, is_fold_due
from livingdb.tables.index import MemoryIndex, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.thin_keyframes import thin_keyframes
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta, merge_deltas
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache

SCHEMA = TableSchema.of(workloads.SCHEMA, "id")


class CountingStore(MemoryStore):
    """A store in memory that knows how many bytes it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0

    def sink(self, chunk: StoredChunk) -> None:
        """Keep one chunk."""
        if not self.contains([chunk.address])[0]:
            self.size_bytes += len(chunk.data)
            self.put([chunk])


def grouping(layout: Layout):
    """The trees of the workload's table in this layout."""
    return layout.grouping(SCHEMA)


def changes_of(layout: Layout, change: workloads.Change) -> Delta:
    """A workload's change as sorted changes."""
    shape = grouping(layout).row_shape
    made = ingest.upserts(SCHEMA, shape, change.upserts)
    if not len(change.deletes):
        return made
    return merge_deltas([ingest.deletes(SCHEMA, shape, change.deletes), made])


def forest(store: ChunkStore, layout: Layout, cache_bytes: int = 256 << 20) -> Forest:
    """The trees of the workload's table."""
    return Forest(store, grouping(layout), Cache(cache_bytes))


def build(trees: Forest, table: pa.Table, sink) -> Address:
    """The root of a whole table."""
    columns, _ = ingest.sorted_rows(SCHEMA, trees.shape, table)
    return trees.build([columns], sink)


def replay_versions(
    layout: Layout, base: pa.Table, history: Iterable[workloads.Change]
) -> tuple[CountingStore, Versions, Version]:
    """A version for every commit, folded when due; store, versions and the last one."""
    store = CountingStore()
    versions = Versions(store, MemoryIndex())
    columns, _ = ingest.sorted_rows(SCHEMA, grouping(layout).row_shape, base)
    version = versions.create(Definition(SCHEMA, layout), [columns], store.sink)
    for change in history:
        version = versions.change(version, changes_of(layout, change), store.sink)
        if is_fold_due(versions, version):
            fold(versions, version, store.sink)
            thin_keyframes(versions, version)
    return store, versions, version
