"""Reach: which chunks snapshots, versions and trees are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.store import ChunkStore
from livingdb.tables.recipe import Change, Definition, Derived, Recipe, Rows
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache, Entries, Reader

__all__ = ["Trees", "addresses_in", "recipe_chunks", "recipe_inputs", "references"]

_ADDRESS = re.compile(rb"[0-9a-f]{64}")


def recipe_chunks(recipe: Recipe) -> Iterator[Address]:
    """The chunks a recipe names, except versions and trees."""
    if isinstance(recipe, Change):
        yield from recipe.chunks
    elif isinstance(recipe, Rows):
        yield recipe.definition


def addresses_in(payload: bytes) -> list[Address]:
    """The addresses that a record names.  Of a change: its base, and the chunks of its rows."""
    return [Address(bytes.fromhex(text.decode())) for text in _ADDRESS.findall(payload)]


def recipe_inputs(recipe: Recipe) -> list[Address]:
    """The versions whose rows a derived one is made of."""
    if not isinstance(recipe, Derived):
        return []
    return [Address(bytes.fromhex(text)) for text in recipe.data.get("inputs", {}).values()]


class Trees:
    """Walks trees; what was walked once is not walked again."""

    def __init__(self, store: ChunkStore, cache: Cache | None = None):
        self._store = store
        self._cache = cache if cache is not None else Cache()
        self._forests: dict[Address, Forest] = {}
        self.seen: set[Address] = set()

    def forest(self, definition: Address) -> Forest:
        """The trees of tables of that definition."""
        found = self._forests.get(definition)
        if found is None:
            known = Definition.load(self._store, definition)
            found = Forest(self._store, known.layout.grouping(known.schema), self._cache)
            self._forests[definition] = found
        return found

    def walk(self, definition: Address, root: Address) -> Iterator[Address]:
        """The chunks under a root that were not met before, the root first."""
        return self.walk_forest(self.forest(definition), root)

    def walk_forest(self, forest: Forest, root: Address) -> Iterator[Address]:
        """As `walk`, of a tree of a forest."""
        if root in self.seen:
            return
        self.seen.add(root)
        yield root
        for reader, top in zip(forest.readers, forest.roots(root), strict=True):
            yield from self._nodes(reader, top)

    def _nodes(self, reader: Reader, top: Address) -> Iterator[Address]:
        waiting = [(top, False)]
        while waiting:
            address, is_leaf = waiting.pop()
            is_new = address not in self.seen
            if is_new:
                self.seen.add(address)
                yield address
            elif is_leaf:
                continue
            node = reader.read(address, keep=False)
            if isinstance(node, Entries):
                fresh = [child for child in node.addresses if child not in self.seen]
                waiting += [(child, node.level <= 1) for child in fresh]


def references(store: ChunkStore, address: Address) -> Iterator[Address]:
    """What a chunk is stored against: dictionaries and the bases of patches, to the end."""
    while True:
        found = Chunk(address, store.get(address), store.get).reference
        if found is None:
            return
        yield found
        address = found
