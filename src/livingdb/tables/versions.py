"""Versions: making them, reading them, and choosing which to keep as trees.

A materialization is a cached answer.  Making one (`fold`) or dropping one (`evict`) changes
what a read costs and nothing else.
"""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import pyarrow as pa

from livingdb.chunks.address import Address, short
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.near_chunks import NearChunks
from livingdb.chunks.store import ChunkReader, ChunkStore, StoredChunk
from livingdb.errors import Forgotten, Unsupported
from livingdb.tables.classify import classify
from livingdb.tables.evaluator import Evaluator
from livingdb.tables.index import (
    Run,
    Stretch,
    Tree,
    Version,
    VersionIndex,
    ancestor_address,
    ancestor_at,
    require,
    skip_depth,
)
from livingdb.tables.layout import FOLD_FLOOR_ROWS
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
from livingdb.tables.run import is_run_worth, run_start
from livingdb.tables.schema import TableSchema
from livingdb.tables.secondary_tree import BuiltIndex, RowSource
from livingdb.tables.stored_delta import (
    DeltaEncoder,
    carried_positions,
    load_delta,
    store_delta,
)
from livingdb.tables.table_index import TableIndexes
from livingdb.tables.tail import BaseRows, Tails
from livingdb.tables.unique_index import UniqueIndexes
from livingdb.trees.builder import Sink
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache

__all__ = ["Versions"]

_NEARBY = 8
_LINK_ROWS = 16


KeepAnswer = Callable[[Version, Derived, Sequence[StoredChunk]], None]
KeepIndex = Callable[[BuiltIndex], None]
NoteChange = Callable[[Version, Delta], None]
NoteEvaluation = Callable[[Version, float], None]


class Versions:
    """The versions of tables in one store; recipes of some of them were `redacted`."""

    def __init__(
        self,
        store: ChunkStore,
        index: VersionIndex,
        evaluators: Mapping[str, Evaluator] | None = None,
        cache: Cache | None = None,
        redacted: Set[Address] = frozenset(),
    ):
        self.store = store
        self._redacted = redacted
        self.index = index
        self.evaluators: Mapping[str, Evaluator] = {} if evaluators is None else evaluators
        self.cache = cache if cache is not None else Cache()
        self.placements = Placements(store, index, self.cache)
        self._definition = self.placements.definition_at
        self._tails = Tails(index, self._load_deltas)
        self._encoder = DeltaEncoder()
        self._mapped = lru_cache(maxsize=1024)(self._mapped_rows)
        self._projected_reads: Counter[Address] = Counter()
        self._origin_recipe = lru_cache(maxsize=1024)(lambda a: load_recipe(store, a))
        self._empty: dict[Address, tuple[Forest, Address]] = {}
        self.keep_answer: KeepAnswer = self._put_answer
        """Takes the tree of a version that was evaluated to be read."""
        self.keep_index: KeepIndex = self._put_index
        """Takes an index that was made to be read."""
        self.note_change: NoteChange = lambda version, changes: None
        """Is told of changes that are made."""
        self.note_evaluation: NoteEvaluation = lambda version, seconds: None
        """Is told of versions that are evaluated to be read, and how long that took."""
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
        described = definition.to_chunk()
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
        self.note_change(version, changes)
        start = self._run_start(version)
        if start is not None and self._tails.is_at_hand(start, version):
            run = self.make_run(version, sink)
            if run is not None:
                self.index.put_run(run)
        return version

    def _run_start(self, version: Version) -> int | None:
        """The depth from which a version is to have a run; None if it is to have none."""
        return run_start(version.depth, self.require(version.keyframe).depth)

    def is_run_due(self, version: Version) -> bool:
        """Whether a version is to have a run, and has none: who made it had too much to read."""
        start = self._run_start(version)
        if start is None or self.index.line(version, start, 1)[0].run is not None:
            return False
        if not self.index.has_hollow():
            return True
        return not self.index.is_hollow(ancestor_at(self.index, version, start).address)

    def make_run(self, version: Version, sink: Sink) -> Run | None:
        """The run that a version is to have, if it is worth it; its chunks go to the sink."""
        start = self._run_start(version)
        since = None if start is None else ancestor_at(self.index, version, start)
        if since is None or self.index.is_hollow(since.address):
            return None
        if not is_run_worth(since, version):
            return None
        merged = self._tails.since(since.depth, version)
        stored = self.merged_change(since, merged, sink)
        self._tails.remember(stored.address, merged)
        return Run(version.address, since.address, since.depth, stored.address)

    def anchor(self, since: Version, version: Version, sink: Sink) -> Run:
        """The run to a version from any that it comes from; its chunks go to the sink."""
        stored = self.merged_change(since, self._tails.since(since.depth, version), sink)
        return Run(version.address, since.address, since.depth, stored.address)

    def merged_change(self, since: Version, merged: Delta, sink: Sink) -> StoredChunk:
        """The recipe of changes that many versions made to one: the same, however merged."""
        recipe = store_delta(self.definition(since).schema, merged, since.address, None, sink)
        stored = fresh_recipe(recipe, self._redacted.__contains__)
        sink(stored)
        return stored

    def encode_ahead(self, schema: TableSchema, changes: Delta) -> None:
        """Encode changes that somebody is about to make."""
        self._encoder.encode(changes, carried_positions(schema, changes))

    def relabel(self, version: Version, definition: Definition, sink: Sink) -> Version:
        """A version with the same rows, of a table and columns of other identities.

        It is never built upon what nobody stores.
        """
        near, forest = self.nearest_stored(version), self.placements.forest_of(definition)
        if near is None or self.index.is_cached(near.address):
            root = _build(self.rows(version), forest, sink)
        else:
            root = self.root_of(self._rows_over(near, version), forest, sink)
        return self.adopt(definition, root, self.count(version), sink)

    def derive(self, recipe: Derived, sink: Sink) -> Version:
        """A version whose rows an evaluator finds when they are first read."""
        for text in recipe.data.get("inputs", {}).values():
            self.check_kept(self.require(Address(bytes.fromhex(text))))
        stored = fresh_recipe(recipe, self._is_taken)
        sink(stored)
        definition = self._evaluator(recipe).definition(recipe)
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
        mapped = None if kept is not None else self._mapped(version.origin)
        if mapped is not None:
            self._projected_reads[version.origin] += 1
            if version.origin == version.address:
                return mapped.rows if counts is None else replace(mapped.rows, counts=counts)
            origin = self.require(version.origin)
            tail = self._tails.tail(origin, version, mapped)
            return replace(mapped.rows, tail=tail, counts=counts)
        kept = kept if kept is not None else self._evaluate(version)
        return self._rows_over(kept, version, counts)

    def projected_reads(self, version: Version) -> int:
        """How often the line of a version was read through lenses, by this process."""
        return self._projected_reads[version.origin]

    def forget_projections(self) -> None:
        """Find out anew where rows that are mapped as they are read begin: there is a tree more."""
        self.forget_mapped_rows()
        self._projected_reads.clear()

    def forget_mapped_rows(self) -> None:
        """The trees that rows are mapped from as they are read may be gone."""
        self._mapped.cache_clear()

    def forget_rows(self) -> None:
        """Read everything anew: rows of what was read before may have been erased."""
        self.cache.clear()
        self._tails.clear()
        self._encoder = DeltaEncoder()
        self._origin_recipe.cache_clear()
        self.forget_projections()
        for evaluator in self.evaluators.values():
            evaluator.forget_rows()

    def tree_rows(self, version: Version) -> RowSet:
        """The rows of a version as a stored tree and the tail over it."""
        self.check_kept(version)
        return self._rows_over(self.nearest(version), version)

    def _rows_over(
        self, keyframe: Version, version: Version, counts: ReadCounts | None = None
    ) -> RowSet:
        tree = self.index.tree(keyframe.address)
        assert tree is not None
        schema = self.definition(version).schema
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
        self._mapped.cache_clear()

    def require(self, address: Address) -> Version:
        """The version with this address; `Corruption` if the index does not have it."""
        return self.index.get(address) or require(self.index, address)

    def tail_rows(self, version: Version) -> int:
        """Delta rows a read of the version has to apply."""
        return version.changed - self.nearest(version).changed

    def nearest(self, version: Version) -> Version:
        """The nearest materialized ancestor, the version itself included."""
        kept = self.nearest_stored(version)
        return kept if kept is not None else self._evaluate(version)

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
        recipe = self._origin_recipe(origin.address)
        if not isinstance(recipe, Rows):
            return None
        self.check_kept(origin)
        self.index.materialize(origin.address, Tree(recipe.root))
        return origin

    def _evaluate(self, version: Version, sink: Sink | None = None) -> Version:
        """Make the tree of a version's origin; without a sink, whoever keeps answers has it."""
        origin = self.require(version.origin)
        recipe = self.recipe(origin)
        assert isinstance(recipe, Derived)
        evaluator = self._evaluator(recipe)
        made: list[StoredChunk] = []
        began = clock.perf_counter()
        place, put = self.placements.of(origin), made.append if sink is None else sink
        tree = place.tree(evaluator.root(recipe, self, place.forest, put), put)
        if sink is None:
            self.keep_answer(origin, recipe, made)
            self.index.cache(origin.address, tree)
            self.note_evaluation(origin, clock.perf_counter() - began)
        else:
            self.index.materialize(origin.address, tree)
        return origin

    def computed_root(self, version: Version, sink: Sink) -> Address:
        """The root of the tree that a derived origin makes; nobody but the sink keeps it."""
        recipe = self.recipe(version)
        assert isinstance(recipe, Derived)
        return self._evaluator(recipe).root(recipe, self, self.placements.of(version).forest, sink)

    def _put_answer(self, version: Version, recipe: Derived, chunks: Sequence[StoredChunk]) -> None:
        self.store.put(chunks)

    def _put_index(self, built: BuiltIndex) -> None:
        self.store.put(built.chunks)
        self.index.put(built.version)
        self.index.materialize(built.version.address, Tree(built.root))

    def row_source(self, origin: Version) -> RowSource | None:
        """The version whose rows an origin maps one by one; None if there is none."""
        recipe = self._origin_recipe(origin.address)
        if not isinstance(recipe, Derived):
            return None
        return self._evaluator(recipe).row_source(recipe, self)

    def _mapped_rows(self, origin: Address) -> BaseRows | None:
        """The rows of a derived version, if they can be found as they are read."""
        recipe = self.recipe(self.require(origin))
        assert isinstance(recipe, Derived)
        rows = self._evaluator(recipe).rows(recipe, self)
        return None if rows is None else BaseRows(rows)

    def _evaluator(self, recipe: Derived) -> Evaluator:
        evaluator = self.evaluators.get(recipe.kind)
        if evaluator is None:
            raise Unsupported(f"nothing here evaluates recipes of the kind {recipe.kind!r}")
        return evaluator

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
            loaded.append(load_delta(store, schema, self.forest(part.version).shape, recipe))
        return loaded

    # --- materializing -----------------------------------------------------------------------

    def is_fold_due(self, version: Version) -> bool:
        """Whether the layout in force asks for a tree of the version's own.

        A small table that lies in another layout is laid out anew as it is touched; of a larger
        one a long tail decides, or whoever lays out tables.
        """
        place = self.placements.of(version)
        layout, recorded = place.layout, self.require(version.keyframe)
        if place.is_given and layout.fold != "never" and self._is_displaced(version, recorded):
            return True
        if layout.fold == "auto" and _weight(recorded, version) <= FOLD_FLOOR_ROWS:
            return False
        keyframe = self.nearest_stored(version) or self.require(version.origin)
        tail = version.changed - keyframe.changed
        if layout.fold == "auto":
            tail = _weight(keyframe, version)
        if layout.fold in ("always", "never"):
            return layout.is_fold_due(tail, 0)
        return tail > 0 and layout.is_fold_due(tail, self.count(keyframe))

    def _is_displaced(self, version: Version, recorded: Version) -> bool:
        """Whether the tree that a version is read from lies otherwise, and has few rows."""
        known = self.index.tree(recorded.address)
        if known is not None and self.placements.is_in_place(version, known):
            return False
        near = self.nearest_stored(version)
        tree = None if near is None else self.index.tree(near.address)
        if near is None or tree is None or self.placements.is_in_place(version, tree):
            return False
        return self.count(near) <= FOLD_FLOOR_ROWS

    def version_below(self, version: Version) -> Version | None:
        """The version that another one is reached from; None: none is, or history was cut there."""
        if version.base is None:
            return None
        if not self.index.is_hollow(version.base):
            return self.require(version.base)
        run = self.index.line(version, 0, 1)[0].run
        return None if run is None else self.require(run.since)

    def fold(self, version: Version, sink: Sink) -> Address:
        """Materialize the version in the layout in force; its root.

        It is never built upon what nobody stores, and built anew where the nearest tree lies in
        another layout.
        """
        known = self.folded_root(version)
        if known is not None:
            return known
        near = self.nearest_stored(version)
        is_stored = near is not None and not self.index.is_cached(near.address)
        if not is_stored and (near is not None or self._mapped(version.origin) is None):
            self._evaluate(version, sink)
        rows = self.rows(version)
        place = self.placements.of(version)
        root = self.root_of(rows, place.forest, sink)
        if rows.tail is not None or not _lies_in(rows, place.forest):
            self.index.materialize(version.address, place.tree(root, sink))
        return root

    def folded_root(self, version: Version) -> Address | None:
        """The root of a version's stored tree, if it has one in the layout in force."""
        tree = self.index.tree(version.address)
        if tree is None or self.index.is_cached(version.address):
            return None
        return tree.root if self.placements.is_in_place(version, tree) else None

    def root_of(self, rows: RowSet, forest: Forest, sink: Sink) -> Address:
        """The root of the tree that rows make in a forest."""
        if not isinstance(rows.forest, Forest) or not _lies_in(rows, forest):
            return _build(rows, forest, sink)
        if rows.tail is None:
            return rows.root
        return rows.forest.edit(rows.root, rows.tail, sink)

    def evict(self, version: Version) -> bool:
        """Forget the tree of a version; refused (False) where it is the data itself."""
        if version.base is None and isinstance(self.recipe(version), Rows):
            return False
        if self.version_below(version) is None and self.index.is_hollow(version.origin):
            return False
        self.index.evict(version.address)
        return True


def _lies_in(rows: RowSet, forest: Forest) -> bool:
    """Whether rows are those of a tree, and a tail over it, that lies as those of a forest do."""
    under = rows.forest
    return isinstance(under, Forest) and under.grouping.is_laid_as(forest.grouping)


def _build(rows: RowSet, forest: Forest, sink: Sink) -> Address:
    """The root of a tree that is built of rows, whatever they lie in."""
    names = [column.name for column in rows.schema.stored_columns]
    return forest.build((batch.columns for batch in rows.batches(names)), sink)


def _forgotten(version: Version, why: str) -> Forgotten:
    return Forgotten(f"version {short(version.address)} of a table cannot be read: {why}")


def _weight(keyframe: Version, version: Version) -> int:
    """What a tail costs a reader, in rows: many small deltas cost more than their rows."""
    links = version.depth - keyframe.depth
    return version.changed - keyframe.changed + _LINK_ROWS * links
