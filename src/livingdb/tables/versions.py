"""Versions: making them, and reading them from the nearest tree and what lies over it.

A materialization is a cached answer.  Making one (`fold.py`) or dropping one (`evict.py`) changes
what a read costs and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import islice

import pyarrow as pa

from livingdb.chunks.address import Address, short
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.near_chunks import NearChunks
from livingdb.chunks.store import ChunkReader, ChunkStore, StoredChunk
from livingdb.errors import Forgotten
from livingdb.tables.classify import classify
from livingdb.tables.derived_versions import DerivedVersions
from livingdb.tables.evaluator import Evaluator
from livingdb.tables.index import (
    Stretch,
    Tree,
    Version,
    VersionIndex,
    ancestor_address,
    ancestor_at,
    require,
    skip_depth,
)
from livingdb.tables.listeners import Listeners
from livingdb.tables.placement import Placements
from livingdb.tables.read_counts import ReadCounts
from livingdb.tables.recipe import (
    Change,
    Counts,
    Definition,
    Derived,
    Recipe,
    Rows,
    fresh_recipe,
    load_recipe,
)
from livingdb.tables.rows import RowSet
from livingdb.tables.run import Runs
from livingdb.tables.schema import TableSchema
from livingdb.tables.stored_delta import (
    DeltaDecoder,
    DeltaEncoder,
    carried_positions,
    load_delta,
    store_delta,
)
from livingdb.tables.table_index import TableIndexes
from livingdb.tables.tail import Tails
from livingdb.tables.unique_index import UniqueIndexes
from livingdb.trees.builder import Sink
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache

__all__ = ["Versions"]

_NEARBY = 8


class Versions:
    """The versions of tables in one store; recipes of some of them were `redacted`."""

    def __init__(
        self,
        store: ChunkStore,
        index: VersionIndex,
        evaluators: Mapping[str, Evaluator] | None = None,
        cache: Cache | None = None,
        redacted: Set[Address] = frozenset(),
        listeners: Listeners | None = None,
    ):
        self.store = store
        self._redacted = redacted
        self.index = index
        self.cache = cache if cache is not None else Cache()
        self.placements = Placements(store, index, self.cache)
        self._definition = self.placements.definition_at
        self._origin_recipe = lru_cache(maxsize=1024)(lambda a: load_recipe(store, a))
        self._tails = Tails(index, self._load_deltas)
        self._encoder, self._decoder = DeltaEncoder(), DeltaDecoder()
        self.runs = Runs(index, self.placements, self._tails, redacted)
        self.derived = DerivedVersions(self, self._tails, {} if evaluators is None else evaluators)
        self.listeners = Listeners.storing(store, index) if listeners is None else listeners
        self.times_forgotten = 0
        """How often what was read before became out of date: rows of it may have been erased."""
        self._empty: dict[Address, tuple[Forest, Address]] = {}
        self.uniques = UniqueIndexes(self)
        self.indexes = TableIndexes(self)

    # --- making ------------------------------------------------------------------------------

    def create(
        self, definition: Definition, batches: Iterable[Sequence[pa.Array]], sink: Sink
    ) -> Version:
        """A version that holds these rows: stored columns, sorted by key, each key once."""
        forest = self.placements.forest_of(definition)
        count = 0

        def counted() -> Iterable[Sequence[pa.Array]]:
            nonlocal count
            for columns in batches:
                count += len(columns[0])
                yield columns

        root = forest.build(counted(), sink)
        return self.adopt(definition, root, count, sink)

    def adopt(self, definition: Definition, root: Address, count: int, sink: Sink) -> Version:
        """A version that holds the rows under a root that is there already."""
        return self._adopt(definition.to_chunk(), root, count, sink)

    def _adopt(self, described: StoredChunk, root: Address, count: int, sink: Sink) -> Version:
        sink(described)
        recipe = fresh_recipe(Rows(described.address, root, count), self._is_taken)
        sink(recipe)
        address = recipe.address
        version = Version(address, described.address, address, None, None, 0, 0, address, count)
        self.index.put(version)
        self.index.materialize(address, Tree(root))
        return version

    def _is_taken(self, address: Address) -> bool:
        """Whether an address is that of a version which is not what it was: erased from, or cut.

        Others that come from it count on that.
        """
        return address in self._redacted or self.index.is_hollow(address)

    def change(
        self, base: Version, changes: Delta, sink: Sink, counts: Counts | None = None
    ) -> Version:
        """A version that is `base` with the changes made; `counts` if the caller knows them."""
        self.check_kept(base)
        schema = self._definition(base.definition).schema
        recipe = store_delta(schema, changes, base.address, counts, sink, self._encoder)
        stored = fresh_recipe(recipe, self._is_taken)
        sink(stored)
        rows = None if changes.is_structural else base.rows
        if counts is not None and base.rows is not None:
            rows = base.rows + counts.inserted - counts.deleted
        version = self._child(base, stored.address, len(changes), rows)
        self.index.put(version)
        self._tails.remember(version.address, changes)
        self.listeners.note_change(version, changes)
        self.runs.put_if_at_hand(version, sink)
        return version

    def encode_ahead(self, schema: TableSchema, changes: Delta) -> None:
        """Encode changes that somebody is about to make."""
        self._encoder.encode(changes, carried_positions(schema, changes))

    def relabel(self, version: Version, definition: Definition, sink: Sink) -> Version:
        """A version with the same rows, of a table and columns of other identities.

        It is never built upon what nobody stores.
        """
        described = self.placements.remember(definition)
        near, forest = self.nearest_stored(version), self.placements.forest_at(described.address)
        if near is None or self.index.is_cached(near.address):
            root = self.rows(version).build_in(forest, sink)
        else:
            root = self._rows_over(near, version).root_in(forest, sink)
        return self._adopt(described, root, self.count(version), sink)

    def derive(self, recipe: Derived, sink: Sink) -> Version:
        """A version whose rows an evaluator finds when they are first read."""
        for text in recipe.data.get("inputs", {}).values():
            self.check_kept(self.require(Address(bytes.fromhex(text))))
        stored = fresh_recipe(recipe, self._is_taken)
        sink(stored)
        definition = self.derived.definition(recipe)
        address = stored.address
        version = Version(address, definition, address, None, None, 0, 0, address)
        self.index.put(version)
        return version

    def _child(self, base: Version, address: Address, changed: int, rows: int | None) -> Version:
        depth = base.depth + 1
        keyframe = base.address if self.index.tree(base.address) else base.keyframe
        return Version(
            address,
            base.definition,
            base.origin,
            base.address,
            ancestor_address(self.index, base, skip_depth(depth)),
            depth,
            base.changed + changed,
            keyframe,
            rows,
        )

    # --- reading -----------------------------------------------------------------------------

    def definition(self, version: Version) -> Definition:
        """The schema of a version, and the layout that its table was made with."""
        return self._definition(version.definition)

    def is_alike(self, one: Version, other: Version) -> bool:
        """Whether two versions have the same columns, which may differ in identity alone."""
        if one.definition == other.definition:
            return True
        return self.definition(one).is_alike(self.definition(other))

    def recipe(self, version: Version) -> Recipe:
        """How the version comes to be."""
        return load_recipe(self.store, version.address)

    def origin_recipe(self, version: Version) -> Recipe:
        """How the first version of its line came to be, remembered."""
        return self._origin_recipe(version.origin)

    def forest(self, version: Version) -> Forest:
        """The trees of a version's own definition; a tree that it has may lie in others."""
        return self.placements.forest_at(version.definition)

    def rows(self, version: Version, counts: ReadCounts | None = None) -> RowSet:
        """The rows of a version: its nearest materialization and the tail over it.

        Rows that can be found as they are read are: nothing is materialized for them.  `counts` is
        told how they are read.
        """
        self.check_kept(version)
        kept = self.nearest_stored(version)
        if kept is None:
            mapped = self.derived.rows(version, counts)
            if mapped is not None:
                return mapped
            kept = self.derived.evaluate(version)
        return self._rows_over(kept, version, counts)

    def forget_rows(self) -> None:
        """Read everything anew: rows of what was read before may have been erased."""
        self.times_forgotten += 1
        self.cache.clear()
        self._tails.clear()
        self._encoder, self._decoder = DeltaEncoder(), DeltaDecoder()
        self._origin_recipe.cache_clear()
        self.derived.forget_rows()

    def tree_rows(self, version: Version) -> RowSet:
        """The rows of a version as a stored tree and the tail over it."""
        self.check_kept(version)
        return self._rows_over(self.nearest(version), version)

    def _rows_over(
        self, keyframe: Version, version: Version, counts: ReadCounts | None = None
    ) -> RowSet:
        tree = self.index.tree(keyframe.address)
        assert tree is not None
        schema = self._definition(version.definition).schema
        is_own = keyframe.address == version.address
        tail = None if is_own else self._tails.tail(keyframe, version)
        forest = self.placements.forest_under(version, tree)
        indexes = self.indexes.of(keyframe)
        return RowSet(schema, forest, tree.root, tail, counts=counts, indexes=indexes)

    def empty(self, definition: Definition) -> RowSet:
        """A table of that definition without rows."""
        stored = definition.to_chunk()
        forest = self._empty.get(stored.address)
        if forest is None:
            memory = MemoryStore()
            trees = Forest(memory, definition.layout.grouping(definition.schema))
            root = trees.build([], lambda chunk: memory.put([chunk]))
            forest = self._empty[stored.address] = (trees, root)
        return RowSet(definition.schema, *forest)

    def count(self, version: Version) -> int:
        """How many rows a version has, remembered once it is known."""
        known = self.index.get(version.address)
        if known is not None and known.rows is not None:
            return known.rows
        rows = self.rows(version).count()
        self.index.set_rows(version.address, rows)
        return rows

    def summary(self, version: Version) -> Counts:
        """Rows inserted, updated and deleted since the version's base.

        From the recipe where the writer compared the rows, else by comparing them now.
        """
        recipe = self.recipe(version)
        if not isinstance(recipe, Change):
            return Counts(self.count(version), 0, 0)
        if recipe.counts is not None:
            return recipe.counts
        base = self.require(recipe.base)
        return classify(self.rows(base), self._load_delta(version))[1]

    def tail_since(self, old: Version, new: Version) -> Delta:
        """The merged changes that made `new` of `old`, which it comes from and is not."""
        self.check_kept(old)
        self.check_kept(new)
        return self._tails.tail(old, new)

    def merged_line(self, line: Sequence[Version]) -> Delta:
        """What the changes of versions come to, each made to the one before it; without runs."""
        return self._tails.merge([Stretch(version) for version in line])

    def anchor_delta(self, version: Version) -> Delta:
        """What the run comes to that leads to a version whose base was forgotten."""
        return self._tails.merge(self.index.line(version, 0, 1))

    def delta(self, version: Version) -> Delta:
        """The changes that made a version of its base; `Forgotten` if these are gone."""
        if version.base is not None and self.index.is_hollow(version.base):
            raise _forgotten(version, "the changes that made it are merged with earlier ones")
        self.check_kept(version)
        return self._tails.delta(version)

    def check_kept(self, version: Version) -> None:
        """`Forgotten` if the rows of a version are gone for good."""
        if self.index.is_hollow(version.address):
            raise _forgotten(version, "retention took its rows")

    def forget_cut_lines(self) -> None:
        """Snapshots were forgotten: what is remembered of lines may lead through them."""
        self._tails.forget_all()
        self.derived.forget_mapped_rows()

    def require(self, address: Address) -> Version:
        """The version with this address; `Corruption` if the index does not have it."""
        return self.index.get(address) or require(self.index, address)

    def tail_rows(self, version: Version) -> int:
        """Delta rows a read of the version has to apply."""
        return version.changed - self.nearest(version).changed

    def nearest(self, version: Version) -> Version:
        """The nearest materialized ancestor, the version itself included."""
        kept = self.nearest_stored(version)
        return kept if kept is not None else self.derived.evaluate(version)

    def nearest_stored(self, version: Version) -> Version | None:
        """The nearest materialized ancestor that is there already, the version itself included."""
        if self.index.tree(version.address) is not None:
            return version
        recorded = self.require(version.keyframe)
        is_kept = self.index.tree(recorded.address) is not None
        floor = recorded.depth if is_kept else -1
        nearby = self.index.materialized_versions(version.origin, floor, version.depth)
        # The keyframes on record may all be gone where history was cut: then one nearby is there.
        is_cut = not is_kept and self.index.is_hollow(version.origin)
        for candidate in nearby if is_cut else islice(nearby, _NEARBY):
            if ancestor_at(self.index, version, candidate.depth).address == candidate.address:
                return candidate
        return recorded if is_kept else self._nearest_keyframe(recorded)

    def _nearest_keyframe(self, keyframe: Version) -> Version | None:
        """The first keyframe still materialized, going back from one on record."""
        while self.index.tree(keyframe.address) is None:
            if keyframe.keyframe == keyframe.address:
                return self._restore(keyframe)
            keyframe = self.require(keyframe.keyframe)
        return keyframe

    def _restore(self, origin: Version) -> Version | None:
        """An origin of rows is its own root, whatever the index forgot."""
        recipe = self.origin_recipe(origin)
        if not isinstance(recipe, Rows):
            return None
        self.check_kept(origin)
        self.index.materialize(origin.address, Tree(recipe.root))
        return origin

    def _load_delta(self, version: Version) -> Delta:
        return self._load_deltas([Stretch(version)])[0]

    def _load_deltas(self, parts: Sequence[Stretch]) -> list[Delta]:
        """The changes that parts of lines name; what can be had in one go is."""
        store: ChunkReader = self.store
        if len(parts) > 1:
            near = NearChunks(self.store, [part.recipe for part in parts])
            recipes = [load_recipe(near, part.recipe) for part in parts]
            named = [a for recipe in recipes if isinstance(recipe, Change) for a in recipe.chunks]
            store = NearChunks(self.store, named)
        else:
            recipes = [load_recipe(self.store, part.recipe) for part in parts]
        loaded = []
        for part, recipe in zip(parts, recipes, strict=True):
            assert isinstance(recipe, Change)
            schema = self._definition(part.version.definition).schema
            shape = self.forest(part.version).shape
            loaded.append(load_delta(store, schema, shape, recipe, self._decoder))
        return loaded


def _forgotten(version: Version, why: str) -> Forgotten:
    return Forgotten(f"version {short(version.address)} of a table cannot be read: {why}")
