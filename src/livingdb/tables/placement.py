"""Placement: in which layout the trees of a table are made now, and where those lie that it has.

A definition says the layout that its table was made with.  A table may have been given another one
since: that is a setting of the database and no part of a table's history, so a tree says for itself
in which layout it lies (see `index.Tree`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from livingdb.chunks.address import Address
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.tables.index import Tree, Version, VersionIndex
from livingdb.tables.layout import Layout, TableLayout
from livingdb.tables.recipe import Definition
from livingdb.trees.builder import Sink
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache

__all__ = ["Placement", "Placements"]

_REMEMBERED = 1024
_MADE = 64


@dataclass(frozen=True)
class Placement:
    """Where trees of versions of a definition go.

    `definition` is theirs with the layout in force, and `other` its record, if trees lie otherwise
    in it than in their own.  `is_given`: the table was given a layout since it was made.
    """

    definition: Definition
    forest: Forest
    other: StoredChunk | None = None
    is_given: bool = False

    @property
    def layout(self) -> Layout:
        """The layout in force."""
        return self.definition.layout

    def tree(self, root: Address, sink: Sink) -> Tree:
        """A tree that was made here; what says so goes to the sink."""
        if self.other is None:
            return Tree(root)
        sink(self.other)
        return Tree(root, self.other.address)


class Placements:
    """Where the trees of tables lie in one store, and where new ones go."""

    def __init__(self, store: ChunkStore, index: VersionIndex, cache: Cache):
        self._store = store
        self._index = index
        self._cache = cache
        self._made: dict[Address, Definition] = {}
        """Definitions that were made here and not asked for yet, by their addresses."""
        self.definition_at: Callable[[Address], Definition] = lru_cache(_REMEMBERED)(
            self._load_definition
        )
        """The definition at an address."""
        self.forest_at: Callable[[Address], Forest] = lru_cache(_REMEMBERED)(self._load_forest)
        """The trees that rows of tables lie in whose definition is at an address."""
        self._placement = lru_cache(_REMEMBERED)(self._make_placement)

    def of(self, version: Version) -> Placement:
        """Where trees of a version go: in the layout that its table has now."""
        table = self.definition_at(version.definition).id
        chosen = None if table is None else self._index.table_settings(table).layout
        return self._placement(version.definition, chosen)

    def definition_in_force(self, definition: Definition) -> Definition:
        """A definition with the layout that its table has now."""
        table = definition.id
        chosen = None if table is None else self._index.table_settings(table).layout
        if chosen is None:
            return definition
        return replace(definition, layout=chosen.fit(definition.schema))

    def is_in_place(self, version: Version, tree: Tree) -> bool:
        """Whether a tree of a version lies as trees of its table are made now."""
        place = self.of(version)
        if place.other is None and tree.layout is None:
            return True
        return self.forest_under(version, tree).grouping.is_laid_as(place.forest.grouping)

    def forest_of(self, definition: Definition) -> Forest:
        """The trees that rows of a table of that definition lie in."""
        return Forest(self._store, definition.layout.grouping(definition.schema), self._cache)

    def forest_under(self, version: Version, tree: Tree) -> Forest:
        """The trees that a tree of a version is one of."""
        return self.forest_at(version.definition if tree.layout is None else tree.layout)

    def remember(self, definition: Definition) -> StoredChunk:
        """The record of a definition that is made: who asks for it next need not read it."""
        described = definition.to_chunk()
        if len(self._made) >= _MADE:
            self._made = {}
        self._made[described.address] = definition
        return described

    def _load_definition(self, address: Address) -> Definition:
        made = self._made.pop(address, None)
        return Definition.load(self._store, address) if made is None else made

    def _load_forest(self, definition: Address) -> Forest:
        return self.forest_of(self.definition_at(definition))

    def _make_placement(self, address: Address, chosen: TableLayout | None) -> Placement:
        definition, forest = self.definition_at(address), self.forest_at(address)
        if chosen is None:
            return Placement(definition, forest)
        wanted = replace(definition, layout=chosen.fit(definition.schema))
        made = self.forest_of(wanted)
        if made.grouping.is_laid_as(forest.grouping):
            return Placement(wanted, forest, is_given=True)
        return Placement(wanted, made, wanted.to_chunk(), is_given=True)
