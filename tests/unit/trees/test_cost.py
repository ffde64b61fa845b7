"""Cost follows the difference: counted in chunks and bytes asked of the store, never timed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pytest
from tests.property.trees_model import RecordingStore, nodes_by_level

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.store import StoredChunk
from livingdb.trees.builder import build
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.diff import diff
from livingdb.trees.edit import edit
from livingdb.trees.merge import merge
from livingdb.trees.nodes import Reader
from livingdb.trees.scan import Span, ZoneFilter, count_rows, scan, split
from livingdb.trees.seek import seek
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import ContentSplitter
from livingdb.trees.zones import zone_value

ROWS = 200_000
STEP = 10  # between keys, so that there is room for new ones
ID, DAY, NOTE, PRICE = range(4)
SHAPE = Shape(
    ("id", "day", "note", "price"),
    (pa.int64(), pa.int32(), pa.string(), pa.float64()),
    1,
    ContentSplitter(target_rows=256, fanout=16),
)


@dataclass
class Trees:
    """A recording store with a tree of 200,000 rows."""

    store: RecordingStore
    root: Address

    def reader(self) -> Reader:
        """A reader that has read nothing, over a store with an empty record."""
        self.store.forget()
        return Reader(self.store, SHAPE)

    def sink(self, chunk: StoredChunk) -> None:
        self.store.put([chunk])

    def edit(self, changes: Delta, root: Address | None = None) -> Address:
        return edit(self.reader(), self.root if root is None else root, changes, self.sink)

    def leaves(self, root: Address) -> dict[Address, tuple[int, int]]:
        """Every leaf: the rows before it and after it; read off the record."""
        found: dict[Address, tuple[int, int]] = {}
        row = 0
        for node in nodes_by_level(Reader(self.store.unwatched, SHAPE), root)[1]:
            for address, rows in zip(node.addresses, node.rows.tolist(), strict=True):
                found[address] = (row, row + rows)
                row += rows
        return found

    @cached_property
    def height(self) -> int:
        """Levels, the leaves' among them."""
        return len(nodes_by_level(Reader(self.store.unwatched, SHAPE), self.root)) + 1


def columns(ids: np.ndarray, version: int = 0) -> list[pa.Array]:
    notes = np.char.add("note ", ((ids * 7919 + version) % 1_000_003).astype(str))
    prices = np.sqrt(ids + version)
    return [
        pa.array(ids, pa.int64()),
        pa.array(ids // (1000 * STEP), pa.int32()),
        pa.array(notes.tolist(), pa.string()),
        pa.array(prices, pa.float64()),
    ]


def changes(ids: list[int], op: int = UPSERT, version: int = 1) -> Delta:
    arrays = columns(np.array(ids, np.int64), version)
    ops = np.full(len(ids), op, np.int8)
    carried: list[pa.Array | None] = list(arrays)
    if op == PATCH:
        carried[DAY] = carried[PRICE] = None
    return Delta(SHAPE, SHAPE.keys(arrays), ops, tuple(carried), (None,) * 4)


def key(place: int) -> object:
    """The encoded key of the row at a place."""
    return SHAPE.codec.encode_one((place * STEP,))


@pytest.fixture(scope="module")
def trees() -> Trees:
    store = RecordingStore()
    ids = np.arange(ROWS, dtype=np.int64) * STEP
    batches = (columns(part) for part in np.array_split(ids, 8))
    root = build(SHAPE, batches, lambda chunk: store.put([chunk]))
    return Trees(store, root)


def test_the_tree_is_tall_enough_to_measure(trees: Trees) -> None:
    assert trees.height == 4
    assert 600 < len(trees.leaves(trees.root)) < 1000


# --- diff -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        changes([777_770]),
        changes([777_775]),
        changes([777_770], DELETE),
        changes([5 * ROWS * STEP]),
    ],
    ids=["update", "insert", "delete", "append"],
)
def test_a_diff_of_one_row_reads_a_handful_of_chunks(trees: Trees, change: Delta) -> None:
    other = trees.edit(change)
    batches = list(diff(trees.reader(), trees.root, other))
    assert sum(len(batch.keys) for batch in batches) == 1
    assert len(trees.store.gets) <= 2 * trees.height + 4
    assert len(set(trees.store.gets)) <= 2 * trees.height + 2


def test_a_diff_reads_no_more_than_its_rows_warrant(trees: Trees) -> None:
    ids = [place * STEP for place in range(500, ROWS, ROWS // 20)]
    other = trees.edit(changes(ids, PATCH))
    batches = list(diff(trees.reader(), trees.root, other))
    assert sum(len(batch.keys) for batch in batches) == len(ids)
    assert len(trees.store.gets) <= 2 * trees.height * len(ids)
    held = trees.leaves(trees.root).keys() | trees.leaves(other).keys()
    assert len(held & set(trees.store.gets)) == 2 * len(ids)


def test_a_diff_of_equal_trees_reads_nothing(trees: Trees) -> None:
    assert list(diff(trees.reader(), trees.root, trees.root)) == []
    assert trees.store.gets == []


def test_a_diff_reads_only_the_columns_that_differ_of_the_newer_leaf(trees: Trees) -> None:
    other = trees.edit(changes([777_770], PATCH))
    list(diff(trees.reader(), trees.root, other))
    (leaf,) = trees.leaves(other).keys() & set(trees.store.gets)
    assert columns_read(trees.store, leaf) == {NOTE}


# --- edit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [UPSERT, PATCH, DELETE])
@pytest.mark.parametrize("place", [0, 1, 77_777, ROWS - 1])
def test_an_edit_of_one_row_writes_a_path(trees: Trees, op: int, place: int) -> None:
    other = trees.edit(changes([place * STEP], op))
    assert other != trees.root
    assert len(set(trees.store.puts)) <= trees.height + 2
    assert len(set(trees.store.gets)) <= trees.height + 4


def test_inserts_write_few_chunks_wherever_they_fall(trees: Trees) -> None:
    """A new key now and then closes a chunk, or shifts the ends of the next few."""
    written = []
    for place in range(123, ROWS, ROWS // 40):
        trees.edit(changes([place * STEP + 5]))
        written.append(len(set(trees.store.puts)))
    assert np.mean(written) <= trees.height + 1
    assert max(written) <= trees.height + 12


def test_an_edit_that_changes_nothing_keeps_the_root(trees: Trees) -> None:
    assert trees.edit(changes([777_777], PATCH)) == trees.root
    assert trees.edit(changes([777_777], DELETE)) == trees.root
    assert trees.edit(changes([777_770], UPSERT, version=0)) == trees.root
    assert trees.edit(changes([])) == trees.root
    assert trees.store.gets == []


# --- merge ----------------------------------------------------------------------------------


def test_a_merge_of_sides_apart_reads_no_leaf(trees: Trees) -> None:
    ours = trees.edit(changes([n * STEP for n in range(10_000, 30_000)]))
    theirs = trees.edit(changes([n * STEP + 5 for n in range(100_000, 120_000)]))
    leaves = {a for root in (trees.root, ours, theirs) for a in trees.leaves(root)}
    merged = merge(trees.reader(), trees.root, ours, theirs, trees.sink)
    assert merged.conflicts == []
    assert leaves.isdisjoint(trees.store.gets), "a leaf was decoded"
    assert leaves.isdisjoint(trees.store.puts), "a leaf was written"
    both = trees.edit(changes([n * STEP + 5 for n in range(100_000, 120_000)]), ours)
    assert merged.root == both


def test_a_merge_reads_only_the_leaves_both_sides_touched(trees: Trees) -> None:
    ours = trees.edit(changes([n * STEP for n in range(0, ROWS, 20_000)]))
    theirs = trees.edit(changes([n * STEP for n in range(50, ROWS, 30_000)]))
    merged = merge(trees.reader(), trees.root, ours, theirs, trees.sink)
    gets = set(trees.store.gets)
    assert merged.root is not None
    spans = trees.leaves(trees.root)
    mine, yours = (list(range(start, ROWS, step)) for start, step in ((0, 20_000), (50, 30_000)))
    contested = {
        address
        for address, (start, stop) in spans.items()
        if any(start <= n < stop for n in mine) and any(start <= n < stop for n in yours)
    }
    assert contested
    changed_by_us = sum(any(start <= n < stop for n in mine) for start, stop in spans.values())
    read = [a for a in spans if a in gets]
    assert contested <= set(read)
    assert len(read) <= changed_by_us


def test_merging_what_is_there_already_reads_nothing(trees: Trees) -> None:
    theirs = trees.edit(changes([50]))
    assert merge(trees.reader(), trees.root, theirs, trees.root, trees.sink).root == theirs
    assert merge(trees.reader(), trees.root, trees.root, theirs, trees.sink).root == theirs
    assert merge(trees.reader(), trees.root, theirs, theirs, trees.sink).root == theirs
    assert trees.store.gets == []


# --- scan -----------------------------------------------------------------------------------


def columns_read(store: RecordingStore, address: Address) -> set[int]:
    """The columns of a chunk any byte of whose body was read."""
    data = store.unwatched.get(address)
    chunk = Chunk(address, data)
    stop = len(data)
    found = set()
    for position in reversed(range(len(chunk.descriptors))):
        start = stop - len(chunk.physical(position).stored)
        if any(first < stop and start < last for first, last in store.reads[address]):
            found.add(position)
        stop = start
    return found


@pytest.mark.parametrize("position", [ID, DAY, NOTE, PRICE])
def test_a_scan_of_one_column_reads_only_its_bytes(trees: Trees, position: int) -> None:
    batches = list(scan(trees.reader(), trees.root, [position]))
    assert sum(len(batch[0]) for batch in batches) == ROWS
    leaves = trees.leaves(trees.root)
    assert set(leaves) <= set(trees.store.gets)
    assert all(columns_read(trees.store, leaf) == {position} for leaf in leaves)


@pytest.mark.parametrize("open_end", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (77_777, 77_778), (5_000, 9_000)])
def test_a_scan_of_a_range_reads_the_leaves_of_the_range(
    trees: Trees, start: int, stop: int, open_end: bool
) -> None:
    upper = key(stop) if open_end else key(stop - 1)
    span = Span(key(start), upper, upper_open=open_end)
    rows = sum(len(batch[0]) for batch in scan(trees.reader(), trees.root, [NOTE], span))
    assert rows == stop - start
    leaves = trees.leaves(trees.root)
    wanted = {a for a, (first, last) in leaves.items() if first < stop and start < last}
    read = {a for a in leaves if a in set(trees.store.gets)}
    assert wanted <= read
    assert len(read - wanted) <= open_end  # the next leaf may begin below an open bound
    assert len(trees.store.gets) - len(read) <= trees.height + len(read) // 8 + 1
    assert all(columns_read(trees.store, leaf) <= {ID, NOTE} for leaf in read)


def test_a_bound_at_the_end_of_a_leaf_does_not_read_the_next(trees: Trees) -> None:
    for _, (first, last) in list(trees.leaves(trees.root).items())[5:300:40]:
        span = Span(key(first), key(last - 1), upper_open=False)
        assert sum(len(b[0]) for b in scan(trees.reader(), trees.root, [ID], span)) == last - first
        assert len(trees.store.gets) == trees.height


def test_parts_read_every_leaf_once(trees: Trees) -> None:
    spans = split(trees.reader(), trees.root, 7)
    assert len(trees.store.gets) <= 7 * trees.height
    read: list[Address] = []
    for span in spans:
        list(scan(trees.reader(), trees.root, [DAY], span))
        read += trees.store.gets
    leaves = trees.leaves(trees.root)
    assert sorted(a for a in read if a in leaves) == sorted(leaves)


def test_zone_maps_skip_leaves_without_a_match(trees: Trees) -> None:
    """Days are of a thousand rows each, and prices rise with the key."""
    day = ZoneFilter(DAY, zone_value(17, pa.int32()), zone_value(18, pa.int32()))
    rows = sum(len(batch[0]) for batch in scan(trees.reader(), trees.root, [ID], filters=[day]))
    leaves = trees.leaves(trees.root)
    read = {address for address in leaves if address in set(trees.store.gets)}
    wanted = {a for a, (first, last) in leaves.items() if first < 19_000 and last > 17_000}
    assert 2000 <= rows < 3000
    assert read == wanted
    nowhere = ZoneFilter(PRICE, zone_value(1e9, pa.float64()), None)
    assert list(scan(trees.reader(), trees.root, filters=[nowhere])) == []
    assert trees.store.gets == [trees.root]


def test_a_scan_under_changes_reads_keys_too_but_no_other_column(trees: Trees) -> None:
    over = changes([n * STEP for n in range(0, ROWS, 50_000)], DELETE)
    rows = sum(len(b[0]) for b in scan(trees.reader(), trees.root, [DAY], changes=over))
    assert rows == ROWS - 4
    read = [columns_read(trees.store, leaf) for leaf in trees.leaves(trees.root)]
    assert all(found <= {ID, DAY} for found in read)


def test_point_reads_walk_one_path(trees: Trees) -> None:
    found = seek(trees.reader(), trees.root, key(123_456))
    assert found is not None
    assert len(trees.store.gets) == trees.height
    assert seek(trees.reader(), trees.root, SHAPE.codec.encode_one((7,))) is None
    assert len(trees.store.gets) == trees.height
    assert count_rows(trees.reader(), trees.root) == ROWS
    assert trees.store.gets == [trees.root]


def test_a_range_reads_only_the_pieces_it_meets() -> None:
    shape = Shape(("id", "blob"), (pa.int64(), pa.string()), 1, piece_bytes=2000)
    store = RecordingStore()
    ids = pa.array(range(300), pa.int64())
    blobs = pa.array([f"{n:03d}" * 40 for n in range(300)])
    root = build(shape, [[ids, blobs]], lambda chunk: store.put([chunk]))
    pieces = len(store) - 1
    assert pieces > 15
    store.forget()
    span = Span(shape.codec.encode_one((150,)), shape.codec.encode_one((152,)))
    batches = list(scan(Reader(store, shape), root, span=span))
    assert [n for batch in batches for n in batch[0].to_pylist()] == [150, 151]
    assert len(store.gets) <= 4
