"""One table in memory, driven as the database drives it, with everything counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.tables import ingest
from livingdb.tables.fold import fold
from livingdb.tables.index import MemoryIndex, Tree, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.shape import Shape


class CountingStore(MemoryStore):
    """Remembers which chunks were read and which were put."""

    def __init__(self) -> None:
        self.read: list[Address] = []
        self.written: list[Address] = []
        super().__init__()

    def get(self, address: Address) -> bytes:
        self.read.append(address)
        return super().get(address)

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        arriving = list(chunks)
        self.written += [chunk.address for chunk in arriving]
        super().put(arriving)


class CountingIndex(MemoryIndex):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get(self, version: Address) -> Version | None:
        self.asked += 1
        return super().get(version)

    def tree(self, version: Address) -> Tree | None:
        self.asked += 1
        return super().tree(version)

    def root(self, version: Address) -> Address | None:
        """The root of the version's tree."""
        found = self.tree(version)
        return None if found is None else found.root


class Lab:
    """A table and its versions."""

    def __init__(
        self,
        columns: dict[str, str],
        key: str | list[str],
        layout: Layout | None = None,
        store: ChunkStore | None = None,
    ):
        self.store = CountingStore()
        self.kept: ChunkStore = self.store if store is None else store
        self.index = CountingIndex()
        self.versions = Versions(self.kept, self.index)
        self.schema = TableSchema.of(columns, key)
        self.definition = Definition(self.schema, Layout() if layout is None else layout)

    @property
    def shape(self) -> Shape:
        return self.definition.layout.grouping(self.schema).row_shape

    def sink(self, chunk: StoredChunk) -> None:
        self.kept.put([chunk])

    def create(self, data: object) -> Version:
        columns, _ = ingest.sorted_rows(self.schema, self.shape, data)
        return self.versions.create(self.definition, [columns], self.sink)

    def upsert(self, base: Version, data: object) -> Version:
        changes = ingest.upserts(self.schema, self.shape, data)
        return self.versions.change(base, changes, self.sink)

    def patch(self, base: Version, data: object) -> Version:
        changes = ingest.patches(self.schema, self.shape, data)
        return self.versions.change(base, changes, self.sink)

    def delete(self, base: Version, keys: object) -> Version:
        changes = ingest.deletes(self.schema, self.shape, keys)
        return self.versions.change(base, changes, self.sink)

    def fold(self, version: Version) -> Address:
        return fold(self.versions, version, self.sink)

    def reopen(self) -> Versions:
        """The same store and index, with nothing cached and nothing counted yet."""
        self.versions = Versions(self.kept, self.index)
        self.store.read.clear()
        self.store.written.clear()
        self.index.asked = 0
        return self.versions

    def rows(self, version: Version) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.versions.rows(version).to_arrow().to_pylist()
        return found
