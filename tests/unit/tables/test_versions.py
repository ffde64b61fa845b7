"""Versions: long chains are never walked link by link, and what is merged is merged once."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from tests.unit.tables.lab import CountingIndex, Lab

from livingdb.chunks.address import Address, digest
from livingdb.errors import MissingKey
from livingdb.tables import ingest
from livingdb.tables.classify import classify
from livingdb.tables.evict import evict
from livingdb.tables.fold import is_fold_due
from livingdb.tables.index import MemoryIndex, Stretch, Tree, Version, ancestor_at, skip_depth
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts
from livingdb.tables.tail import Tails
from livingdb.tables.thin_keyframes import thin_keyframes
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta

LONG = 100_000


def address(number: int) -> Address:
    return digest(b"version", number.to_bytes(8, "big"))


def chain(index: MemoryIndex, origin: Version, length: int, keyframe: Address) -> Version:
    """A chain of one-row changes as the index knows it; nothing is in any store."""
    names = [origin.address, *(address(depth) for depth in range(1, length + 1))]
    version = origin
    for depth in range(1, length + 1):
        version = Version(
            names[depth],
            origin.definition,
            origin.address,
            names[depth - 1],
            names[skip_depth(depth)],
            depth,
            depth,
            keyframe,
        )
        index.put(version)
    return version


@pytest.fixture(scope="module")
def long_chain() -> tuple[Lab, Version, Version]:
    """A small table and 100,000 changes of which the index knows, none of them folded."""
    lab = Lab({"id": "int", "a": "string"}, "id", Layout(fold="never"))
    origin = lab.create({"id": list(range(10)), "a": ["x"] * 10})
    return lab, origin, chain(lab.index, origin, LONG, origin.address)


# --- long chains ----------------------------------------------------------------------------


def test_an_ancestor_is_found_in_few_steps(long_chain: tuple[Lab, Version, Version]) -> None:
    lab, _, head = long_chain
    bits = LONG.bit_length()
    chance = random.Random(1)
    targets = [0, 1, LONG - 1, LONG, 65_536, 65_535, 65_537, *chance.sample(range(LONG), 500)]
    for target in targets:
        lab.index.asked = 0
        assert ancestor_at(lab.index, head, target).depth == target
        assert lab.index.asked <= bits * (bits + 1) // 2
        start = ancestor_at(lab.index, head, max(target, 90_000))
        lab.index.asked = 0
        ancestor_at(lab.index, start, skip_depth(skip_depth(start.depth)))
        assert lab.index.asked <= 2


def test_the_nearest_keyframe_is_found_in_few_steps(
    long_chain: tuple[Lab, Version, Version],
) -> None:
    lab, origin, head = long_chain
    versions = lab.reopen()
    assert versions.nearest(head) == origin
    assert lab.index.asked <= 5
    assert versions.tail_rows(head) == LONG
    assert not is_fold_due(versions, head)
    middle = ancestor_at(lab.index, head, 54_321)
    lab.index.materialize(middle.address, Tree(address(-1 % 2**64)))
    lab.reopen()
    assert lab.versions.nearest(head) == middle
    assert lab.index.asked <= 200
    assert lab.versions.nearest(ancestor_at(lab.index, head, 54_320)) == origin
    lab.index.evict(middle.address)
    assert lab.store.read == []


def test_other_branches_do_not_hide_the_nearest_keyframe() -> None:
    lab = Lab({"id": "int"}, "id")
    origin = lab.create({"id": [0]})
    trunk = origin
    for number in range(1, 9):
        trunk = lab.upsert(trunk, {"id": [number]})
    lab.fold(trunk)
    for number in range(30):
        twig = lab.upsert(lab.upsert(trunk, {"id": [100 + number]}), {"id": [200 + number]})
        lab.fold(twig)
    head = trunk
    for number in range(300, 310):
        head = lab.upsert(head, {"id": [number]})
    assert lab.versions.nearest(head) == trunk
    assert lab.versions.count(head) == 19
    evict(lab.versions, trunk)
    assert lab.versions.nearest(head).depth == 0
    assert lab.reopen().count(head) == 19


def test_the_head_of_a_long_chain_opens_and_reads_at_once() -> None:
    lab = Lab({"id": "int", "a": "string"}, "id")
    origin = lab.create({"id": list(range(10)), "a": ["x"] * 10})
    last = chain(lab.index, origin, LONG - 50, origin.address)
    folded = lab.create({"id": list(range(20)), "a": ["y"] * 20})
    root = lab.index.root(folded.address)
    assert root is not None
    lab.index.materialize(last.address, Tree(root))
    lab.index.asked = 0
    head = last
    for number in range(50):
        head = lab.upsert(head, {"id": [number % 25], "a": [str(number)]})
    assert head.depth == LONG
    assert lab.index.asked <= 50 * 8, "making a version is cheap on average"
    versions = lab.reopen()
    found = lab.index.get(head.address)
    assert found is not None
    expected = {n: str(n + 25) for n in range(25)}
    assert {row["id"]: row["a"] for row in versions.rows(found).to_arrow().to_pylist()} == expected
    assert lab.index.asked <= 200
    assert len(lab.store.read) <= 2 * 50 + 3, "a recipe and a delta a change, and the tree"


@pytest.mark.slow
def test_a_hundred_thousand_changes_folded_as_they_come() -> None:
    lab = Lab({"id": "int", "a": "int"}, "id", Layout(fold="auto"))
    head = lab.create({"id": list(range(1000)), "a": [0] * 1000})
    model = dict.fromkeys(range(1000), 0)
    chance = random.Random(3)
    for number in range(LONG):
        key = chance.randrange(2000)
        head = lab.upsert(head, {"id": [key], "a": [number]})
        model[key] = number
        if number % 500 == 0 and is_fold_due(lab.versions, head):
            lab.fold(head)
            thin_keyframes(lab.versions, head)
    versions = lab.reopen()
    rows = {row["id"]: row["a"] for row in versions.rows(head).to_arrow().to_pylist()}
    assert rows == model
    tail = versions.tail_rows(head)
    assert tail <= 17_000
    assert lab.index.asked <= 2 * tail + 500
    assert len(lab.store.read) <= 2 * tail + 10


# --- tails ----------------------------------------------------------------------------------


class CountingTails(Tails):
    """Counts what is loaded, and the rows of every span that is merged."""

    def __init__(self, lab: Lab, limit_rows: int = 4_000_000):
        self.loads: Counter[Address] = Counter()
        self.spans: Counter[Hashable] = Counter()
        self.span_rows = 0
        self.most_rows = 0
        super().__init__(lab.index, self.load, limit_rows)
        self.lab = lab

    def load(self, parts: Sequence[Stretch]) -> list[Delta]:
        self.loads.update(part.recipe for part in parts)
        ids = ({"id": [part.version.depth]} for part in parts)
        return [ingest.upserts(self.lab.schema, self.lab.shape, rows) for rows in ids]

    def _put(self, name: Hashable, changes: Delta) -> None:
        super()._put(name, changes)
        self.most_rows = max(self.most_rows, self._rows)
        if isinstance(name, tuple) and name[0] == "span":
            self.spans[name] += 1
            self.span_rows += len(changes)


def small_chain(length: int) -> tuple[Lab, list[Version]]:
    lab = Lab({"id": "int"}, "id")
    origin = lab.create([])
    head = chain(lab.index, origin, length, origin.address)
    return lab, [ancestor_at(lab.index, head, depth) for depth in range(length + 1)]


def test_every_delta_is_loaded_and_every_span_merged_once() -> None:
    length = 4096
    lab, versions = small_chain(length)
    tails = CountingTails(lab)
    chance = random.Random(5)
    for depth in [length, *chance.choices(range(1, length + 1), k=60)]:
        tail = tails.tail(versions[0], versions[depth])
        assert tail.columns[0] is not None
        assert tail.columns[0].to_pylist() == list(range(1, depth + 1))
    assert set(tails.loads.values()) == set(tails.spans.values()) == {1}
    assert len(tails.loads) == length
    assert tails.span_rows <= length * math.log2(length)


def test_a_tail_may_start_anywhere() -> None:
    lab, versions = small_chain(100)
    tails = CountingTails(lab)
    chance = random.Random(7)
    for _ in range(200):
        first, last = sorted(chance.sample(range(101), 2))
        tail = tails.tail(versions[first], versions[last])
        assert tail.columns[0] is not None
        assert tail.columns[0].to_pylist() == list(range(first + 1, last + 1))


def test_reading_every_version_in_turn_merges_one_delta_each_time() -> None:
    lab, versions = small_chain(200)
    tails = CountingTails(lab)
    for version in versions[1:]:
        assert len(tails.tail(versions[0], version)) == version.depth
    assert tails.span_rows == 0
    assert set(tails.loads.values()) == {1}


def test_a_short_line_is_loaded_in_one_go() -> None:
    lab, versions = small_chain(200)
    tails, asked = CountingTails(lab), []
    load = tails._load

    def counted(wanted: Sequence[Stretch]) -> Sequence[Delta]:
        asked.append(len(wanted))
        return load(wanted)

    tails._load = counted
    assert len(tails.tail(versions[0], versions[150])) == 150
    assert len(tails.tail(versions[0], versions[190])) == 190
    assert asked == [150, 40]


def test_what_is_remembered_is_bounded() -> None:
    lab, versions = small_chain(300)
    tails = CountingTails(lab, limit_rows=5000)
    for depth in (300, 250, 300, 128, 299):
        assert len(tails.tail(versions[0], versions[depth])) == depth
    assert tails.most_rows <= 5000


# --- folding, evicting, thinning ------------------------------------------------------------


def test_folding_twice_gives_the_same_root_and_writes_nothing() -> None:
    lab = Lab({"id": "int"}, "id")
    version = lab.upsert(lab.create({"id": [1]}), {"id": [2]})
    root = lab.fold(version)
    lab.store.written.clear()
    assert lab.fold(version) == root
    assert lab.store.written == []
    assert lab.versions.rows(version).tail is None


def test_a_tail_of_nothing_folds_to_the_same_tree() -> None:
    lab = Lab({"id": "int"}, "id")
    origin = lab.create({"id": [1]})
    version = lab.upsert(origin, [])
    assert lab.rows(version) == [{"id": 1}]
    assert not is_fold_due(lab.versions, version)
    assert lab.fold(version) == lab.index.root(origin.address)


def test_the_origin_is_never_evicted_and_comes_back_if_forgotten() -> None:
    lab = Lab({"id": "int"}, "id")
    origin = lab.create({"id": [1]})
    version = lab.upsert(origin, {"id": [2]})
    assert not evict(lab.versions, origin)
    assert lab.index.root(origin.address) is not None
    lab.index.evict(origin.address)
    assert lab.rows(version) == [{"id": 1}, {"id": 2}]
    assert lab.rows(origin) == [{"id": 1}]
    lab.index.evict(origin.address)
    assert lab.fold(version) is not None


@pytest.mark.parametrize("every_rows", [1, 2, 7])
def test_thinning_as_the_head_moves_on_keeps_gaps_that_double(every_rows: int) -> None:
    lab = Lab({"id": "int"}, "id", Layout(fold="always"))
    origin = lab.create([])
    head = chain(lab.index, origin, 3000, origin.address)
    versions = [ancestor_at(lab.index, head, depth) for depth in range(3001)]
    thinned = Versions(lab.store, lab.index)
    for depth in range(every_rows, 3001, every_rows):
        lab.index.materialize(versions[depth].address, Tree(address(depth)))
        evicted = thin_keyframes(thinned, versions[depth])
        assert all(lab.index.root(version.address) is None for version in evicted)
        if depth % 500 < every_rows:
            check_gaps(lab, thinned, versions[: depth + 1], every_rows)
    assert lab.index.root(origin.address) is not None


def check_gaps(lab: Lab, thinned: Versions, versions: list[Version], step: int) -> None:
    """Few keyframes are left, and no tail is longer than the way to the head."""
    head = versions[-1]
    frames = [v for v in versions if lab.index.root(v.address) is not None]
    assert len(frames) <= 2 * math.log2(head.changed) + 3
    assert frames[0].base is None
    for version in versions[:: max(1, len(versions) // 200)]:
        distance = head.changed - version.changed
        assert thinned.tail_rows(version) <= max(distance, step)


def test_thinning_changes_no_read() -> None:
    lab = Lab({"id": "int", "a": "int"}, "id", Layout(fold="always", target_rows=4))
    made = [lab.create({"id": [0], "a": [0]})]
    for number in range(1, 60):
        made.append(lab.upsert(made[-1], {"id": [number % 7, 100 + number], "a": [number, number]}))
        lab.fold(made[-1])
    before = [lab.rows(version) for version in made]
    assert thin_keyframes(lab.versions, made[-1])
    lab.reopen()
    assert [lab.rows(version) for version in made] == before
    assert lab.versions.nearest(made[-1]) == made[-1]


def test_fold_due_follows_the_layout() -> None:
    for fold, due in (("always", [0, 1]), ("never", [0, 0]), (0.5, [0, 0]), (0.1, [0, 1])):
        lab = Lab({"id": "int"}, "id", Layout(fold=fold))
        origin = lab.create({"id": list(range(10))})
        version = lab.upsert(origin, {"id": [50, 51]})
        assert [is_fold_due(lab.versions, v) for v in (origin, version)] == [bool(d) for d in due]


# --- recipes --------------------------------------------------------------------------------


def test_equal_changes_of_one_version_are_one_version() -> None:
    lab = Lab({"id": "int", "a": "int"}, "id")
    origin = lab.create({"id": [1], "a": [1]})
    assert lab.create([{"a": 1, "id": 1}]) == origin
    first = lab.upsert(origin, {"id": [3, 2], "a": [1, 2]})
    assert lab.upsert(origin, [{"id": 2, "a": 2}, {"id": 3, "a": 1}]) == first
    assert lab.upsert(origin, {"id": [3, 2], "a": [1, 3]}) != first
    assert lab.upsert(first, {"id": [3, 2], "a": [1, 2]}) != first


def test_absent_is_not_null() -> None:
    lab = Lab({"id": "int", "a": "int", "b": "int"}, "id")
    origin = lab.create({"id": [1, 2], "a": [1, 2], "b": [1, 2]})
    nulls = lab.patch(origin, [{"id": 1, "a": None}, {"id": 2, "b": None}])
    assert lab.reopen().rows(nulls).to_arrow().to_pylist() == [
        {"id": 1, "a": None, "b": 1},
        {"id": 2, "a": 2, "b": None},
    ]
    both = lab.patch(origin, [{"id": 1, "a": None, "b": None}, {"id": 2, "a": None, "b": None}])
    assert both != nulls


def test_counts_are_what_really_differs() -> None:
    lab = Lab({"id": "int", "a": "string"}, "id")
    origin = lab.create({"id": [1, 2, 3], "a": ["x", "y", None]})
    rows = lab.versions.rows(origin)
    data = {"id": [1, 2, 3, 4], "a": ["x", "z", None, "w"]}
    kept, counts = classify(rows, ingest.upserts(lab.schema, lab.shape, data))
    assert counts == Counts(1, 1, 0)
    assert np.asarray(kept.columns[0]).tolist() == [2, 4]
    version = lab.versions.change(origin, kept, lab.sink, counts)
    assert version.rows == 4
    assert lab.versions.summary(version) == counts
    assert lab.versions.summary(origin) == Counts(3, 0, 0)
    gone, counts = classify(rows, ingest.deletes(lab.schema, lab.shape, [3, 9]))
    assert (len(gone), counts) == (1, Counts(0, 0, 1))
    with pytest.raises(MissingKey, match=r"\{'id': 9\}"):
        classify(rows, ingest.deletes(lab.schema, lab.shape, [3, 9]), strict=True)


def test_the_row_count_is_counted_once() -> None:
    lab = Lab({"id": "int"}, "id")
    version = lab.upsert(lab.create({"id": [1, 2]}), {"id": [2, 3]})
    assert version.rows is None
    assert lab.versions.count(version) == 3
    lab.reopen()
    assert lab.versions.count(version) == 3
    assert lab.store.read == []


def test_tables_that_differ_in_names_alone_share_chunks_but_not_names() -> None:
    lab = Lab({"id": "int", "x": "struct<a:int>", "at": "timestamp"}, "id")
    other = Lab({"id": "int", "x": "struct<b:int>", "at": "timestamp[Europe/Oslo]"}, "id")
    other.kept, other.versions = lab.store, lab.versions
    first = lab.create([{"id": 1, "x": {"a": 5}, "at": "2026-01-01T00:00:00Z"}])
    second = other.create([{"id": 1, "x": {"b": 5}, "at": "2026-01-01T00:00:00Z"}])
    assert lab.index.root(first.address) == lab.index.root(second.address)
    for _ in range(2):
        assert (lab.versions.rows(first).get(1) or {})["x"] == {"a": 5}
        assert lab.versions.rows(second).to_arrow()["x"].to_pylist() == [{"b": 5}]
        assert str(lab.versions.rows(second).to_arrow()["at"].type.tz) == "Europe/Oslo"


def test_the_index_is_its_own_twin() -> None:
    index = CountingIndex()
    lab = Lab({"id": "int"}, "id")
    origin = lab.create([])
    index.put(origin)
    head = chain(index, origin, 20, origin.address)
    for depth in (3, 9, 17):
        index.materialize(ancestor_at(index, head, depth).address, Tree(address(depth)))
    depths = [version.depth for version in index.materialized_versions(origin.address, 3, 17)]
    assert depths == [17, 9]
    index.evict(ancestor_at(index, head, 9).address)
    index.evict(address(999))
    assert [version.depth for version in index.materialized_versions(origin.address, -1, 20)] == [
        17,
        3,
    ]
    index.set_rows(head.address, 7)
    found = index.get(head.address)
    assert found is not None
    assert found.rows == 7
    index.put(head)
    assert index.get(head.address) == found
