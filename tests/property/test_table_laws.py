"""The laws of tables: overlay, canonical folds, deltas that come back as they went.

Rows of a version are those of its base with its changes made, whatever was folded, evicted or
thinned in between, on every branch, in every way of reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.tables_model import (
    POOL,
    Edit,
    Rows,
    World,
    edits,
    places,
    plain,
    worlds,
)
from tests.property.trying import MANY, tries

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.errors import MissingKey
from livingdb.tables import stored_delta as deltas
from livingdb.tables.classify import classify
from livingdb.tables.evict import evict
from livingdb.tables.fold import fold
from livingdb.tables.index import MemoryIndex, Tree, Version
from livingdb.tables.recipe import Change, Counts, load_recipe
from livingdb.tables.rows import RowSet
from livingdb.tables.stored_delta import load_delta, store_delta
from livingdb.tables.thin_keyframes import thin_keyframes
from livingdb.tables.versions import Versions
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache, Entries, Leaf
from livingdb.trees.scan import Span, ZoneFilter
from livingdb.trees.zones import zone_value

ORIGIN = Address(bytes(32))


class History:
    """Versions of one table, each with what the model says it holds."""

    def __init__(self, world: World, first: Rows):
        self.world = world
        self.store = MemoryStore()
        self.index = MemoryIndex()
        self.versions = Versions(self.store, self.index)
        batches = [world.columns(first)] if first else []
        origin = self.versions.create(world.definition, batches, self.sink)
        self.made: list[tuple[Version, Rows]] = [(origin, first)]

    def sink(self, chunk: StoredChunk) -> None:
        self.store.put([chunk])

    def reopen(self, cache_bytes: int = 128 << 20) -> None:
        """Forget everything that only memory holds."""
        self.versions = Versions(self.store, self.index, cache=Cache(cache_bytes))

    def pick(self, number: int) -> tuple[Version, Rows]:
        """One of the versions; small numbers are the newest."""
        return self.made[-1 - number % len(self.made)]

    def change(self, parent: int, made: list[Edit], compared: bool) -> None:
        """A new child of a version, with or without knowing what its changes amount to."""
        base, rows = self.pick(parent)
        after = self.world.apply(rows, made)
        changes, counts = self.world.changes(made), None
        if compared:
            changes, counts = classify(self.versions.rows(base), changes)
            assert counts == self.world.counts(rows, after)
            assert len(changes) == counts.inserted + counts.updated + counts.deleted
        version = self.versions.change(base, changes, self.sink, counts)
        assert self.versions.summary(version) == self.world.counts(rows, after)
        self.made.append((version, after))

    def step(self, kind: str, number: int, made: list[Edit]) -> None:
        """One thing that may happen."""
        version, rows = self.pick(number)
        if kind == "fold":
            root = fold(self.versions, version, self.sink)
            assert self.index.tree(version.address) == Tree(root)
        elif kind == "evict":
            assert evict(self.versions, version) == (version.base is not None)
        elif kind == "thin":
            thin_keyframes(self.versions, version)
        elif kind == "reopen":
            self.reopen()
        elif kind == "read":
            assert shown(self.versions.rows(version).to_arrow()) == self.world.dicts(rows)
        else:
            self.change(number, made, compared=kind == "compared")


def shown(table: pa.Table) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def check_reads(world: World, rows: RowSet, model: Rows, seed: int) -> None:
    """Every way of reading gives what the model has."""
    whole = rows.to_arrow()
    assert whole.schema == world.schema.arrow
    assert shown(whole) == world.dicts(model)
    names = [column.name for column in world.schema.columns]
    some = [name for at, name in enumerate(names) if (seed >> at) & 1] or names[-1:]
    assert shown(rows.to_arrow(some[::-1])) == world.dicts(model, some[::-1])
    assert rows.to_arrow([]).num_rows == len(model)
    assert rows.count() == len(model)
    check_span(world, rows, model, seed)
    check_filters(world, rows, model, seed)
    for place in (seed % POOL, (seed + 21) % POOL, world.order[seed % 3]):
        expected = world.dicts({place: model[place]})[0] if place in model else None
        got = rows.get(*world.key_of(place))
        assert (got and {name: plain(value) for name, value in got.items()}) == expected
    chosen = [place for at, place in enumerate(world.order) if at % 3 != seed % 3]
    held = [place in model for place in chosen]
    assert rows.contains(world.encoded(chosen)).tolist() == held
    found, arrays = rows.lookup(world.encoded(chosen), some)
    assert found.tolist() == held
    among = {place: model[place] for place in chosen if place in model}
    assert shown(pa.table(arrays, some)) == world.dicts(among, some)


def check_span(world: World, rows: RowSet, model: Rows, seed: int) -> None:
    """A range of keys, with bounds of either kind, in the table or not."""
    low, high = sorted((seed % POOL, seed * 7 % POOL))
    lower_open, upper_open = seed % 2 == 1, seed % 3 == 1
    lower = world.encoded([world.order[low]])[0]
    upper = None if seed % 5 == 0 else world.encoded([world.order[high]])[0]
    span = Span(lower, upper, lower_open, upper_open)
    places_in = world.order[low + lower_open : None if upper is None else high + (not upper_open)]
    among = {place: model[place] for place in places_in if place in model}
    assert shown(rows.to_arrow(span=span)) == world.dicts(among)


def check_filters(world: World, rows: RowSet, model: Rows, seed: int) -> None:
    """A filter on zones may leave rows out, but none that it asks for."""
    flat = [at for at, kind in enumerate(world.values) if "<" not in kind]
    if not flat:
        return
    chosen = {flat[seed % len(flat)], flat[seed // 3 % len(flat)]}
    filters = []
    wanted = set(model)
    for at in chosen:
        column = world.schema.column(f"v{at}")
        bound: Any = zone_value(world.value(at, 1 + seed % 3), column.type)
        position = world.schema.position(column.name)
        filters.append(ZoneFilter(position, bound, bound if seed % 2 else None))
        for place in list(wanted):
            zone: Any = zone_value(world.value(at, model[place][at]), column.type)
            if zone is None or zone < bound or (seed % 2 and zone > bound):
                wanted.remove(place)
    found = shown(rows.to_arrow(filters=filters))
    everything = world.dicts(model)
    asked = world.dicts({place: model[place] for place in wanted})
    assert [row for row in everything if row in found] == found
    assert [row for row in found if row in asked] == asked


STEPS = ("change", "compared", "fold", "change", "evict", "thin", "read", "reopen")
histories = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 3), edits), min_size=2, max_size=8
)
first_rows = st.one_of(
    st.lists(st.tuples(places, st.integers(0, 9)), max_size=20),
    st.integers(1, 3).map(lambda step: [(place, place % 7) for place in range(0, POOL, step)]),
)


@settings(max_examples=MANY)
@given(worlds(), first_rows, histories, st.integers(0, 255))
def test_overlay(
    world: World, first: list[tuple[int, int]], steps: list[tuple[str, int, list[Edit]]], seed: int
) -> None:
    history = History(world, {place: world.row_of(choice) for place, choice in first})
    for kind, number, made in steps:
        history.step(kind, number, made)
    for number, (version, model) in enumerate(history.made):
        check_reads(world, history.versions.rows(version), model, seed + 31 * number)
        assert history.versions.count(version) == len(model)
    history.reopen(cache_bytes=0)
    version, model = history.pick(seed)
    assert shown(history.versions.rows(version).to_arrow()) == world.dicts(model)


# --- canonical ------------------------------------------------------------------------------


@settings(max_examples=tries(150))
@given(
    st.one_of(worlds(["content"]), worlds(["content"], least_groups=2)),
    first_rows,
    st.lists(st.tuples(edits, st.booleans()), max_size=5),
)
def test_a_fold_is_the_tree_a_fresh_build_makes(
    world: World, first: list[tuple[int, int]], steps: list[tuple[list[Edit], bool]]
) -> None:
    history = History(world, {place: world.row_of(choice) for place, choice in first})
    for made, folds in steps:
        history.change(0, made, compared=False)
        if folds:
            fold(history.versions, history.made[-1][0], history.sink)
    for version, model in history.made:
        root = fold(history.versions, version, history.sink)
        fresh = History(world, model)
        assert fresh.index.tree(fresh.made[0][0].address) == Tree(root)


def leaf_ends(forest: Forest, root: Address) -> Iterator[list[Any]]:
    """Per group, the last key of every leaf."""
    for reader, top in zip(forest.readers, forest.roots(root), strict=True):
        ends: list[Any] = []
        waiting = [top]
        while waiting:
            node = reader.read(waiting.pop())
            if isinstance(node, Entries) and node.level > 1:
                waiting += node.addresses[::-1]
            elif isinstance(node, Entries) and node.level == 1:
                ends += node.keys.tolist()
            elif isinstance(node, Leaf) and node.rows:
                ends += node.keys[-1:].tolist()
        yield ends


@settings(max_examples=tries(60))
@given(worlds(least_groups=2), first_rows, edits)
def test_the_leaves_of_all_groups_end_at_the_same_keys(
    world: World, first: list[tuple[int, int]], made: list[Edit]
) -> None:
    history = History(world, {place: world.row_of(choice) for place, choice in first})
    history.change(0, made, compared=False)
    for version, model in history.made:
        root = fold(history.versions, version, history.sink)
        ends = list(leaf_ends(history.versions.forest(version), root))
        assert len(ends) > 1
        if world.layout.splitter == "content":
            assert all(group == ends[0] for group in ends)
        assert all(bool(group) == bool(model) for group in ends)


# --- deltas ---------------------------------------------------------------------------------


def values_of(changes: Delta, position: int, carried: npt.NDArray[np.bool_]) -> list[Any]:
    column = changes.columns[position]
    assert column is not None
    return [plain(value) for value in column.filter(pa.array(carried)).to_pylist()]


@settings(max_examples=tries(200))
@given(worlds(), edits, st.sampled_from((1, 3, 65_536)))
def test_a_delta_comes_back_as_it_went(world: World, made: list[Edit], chunk_rows: int) -> None:
    changes = world.changes(made)
    store = MemoryStore()
    with mock.patch.object(deltas, "_CHUNK_ROWS", chunk_rows):
        change = store_delta(world.schema, changes, ORIGIN, None, lambda c: store.put([c]))
    stored = change.to_chunk()
    store.put([stored])
    loaded = load_recipe(store, stored.address)
    assert loaded == change
    assert isinstance(loaded, Change)
    assert len(change.chunks) == -(-len(changes) // chunk_rows)
    again = load_delta(store, world.schema, world.grouping.row_shape, loaded)
    assert (again.keys == changes.keys).all()
    assert (again.ops == changes.ops).all()
    for position in range(len(world.schema.stored_columns)):
        carried = changes.carries(position)
        if position < len(world.schema.key):
            carried = np.ones(len(changes), bool)
        else:
            assert (again.carries(position) == carried).all()
        if carried.any():
            assert values_of(again, position, carried) == values_of(changes, position, carried)


@settings(max_examples=tries(100))
@given(worlds(), first_rows, st.integers(0, POOL - 1))
def test_changes_that_change_nothing_are_dropped(
    world: World, first: list[tuple[int, int]], place: int
) -> None:
    seeds = dict(first)
    history = History(world, {at: world.row_of(seed) for at, seed in seeds.items()})
    rows = history.versions.rows(history.made[0][0])
    same = [(at, UPSERT, seed) for at, seed in seeds.items()]
    same += [(at, PATCH, seed) for at, seed in seeds.items()]
    absent = [(at, op, 1) for at in range(POOL) if at not in seeds for op in (PATCH, DELETE)]
    if same:
        kept, counts = classify(rows, world.changes(same), strict=True)
        assert len(kept) == 0
        assert counts == Counts(0, 0, 0)
    if absent:
        kept, counts = classify(rows, world.changes(absent))
        assert len(kept) == 0
        assert counts == Counts(0, 0, 0)
        with pytest.raises(MissingKey, match="is not in the table"):
            classify(rows, world.changes(absent[place % len(absent) :][:1]), strict=True)
