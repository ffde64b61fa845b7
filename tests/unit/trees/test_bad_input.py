"""Bad rows, bad keys and bad chunks are named, and no root comes of them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.property.trees_model import nodes_by_level

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import encode_chunk, encode_record
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption, DuplicateKey, InvalidData, Unsupported
from livingdb.trees.builder import build
from livingdb.trees.delta import upserts
from livingdb.trees.diff import diff
from livingdb.trees.edit import edit
from livingdb.trees.keys import MAX_KEY_BYTES, KeyCodec
from livingdb.trees.merge import merge
from livingdb.trees.nodes import Cache, Reader
from livingdb.trees.scan import scan
from livingdb.trees.seek import seek
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import ContentSplitter

SPLITTER = ContentSplitter(4, 3)
NUMBERED = Shape(("id", "name"), (pa.int64(), pa.string()), 1, SPLITTER)
DATED = Shape(("shop", "day", "sum"), (pa.string(), pa.date32(), pa.int64()), 2, SPLITTER)


def numbered(ids: list[Any], name: str = "x") -> list[pa.Array]:
    return [pa.array(ids, pa.int64()), pa.array([name] * len(ids), pa.string())]


def dated(keys: list[tuple[Any, Any]]) -> list[pa.Array]:
    return [
        pa.array([shop for shop, _ in keys], pa.string()),
        pa.array([day for _, day in keys], pa.date32()),
        pa.array(range(len(keys)), pa.int64()),
    ]


class Sink:
    """Takes chunks; says whether any of them could be taken for a root of all rows."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def __call__(self, chunk: StoredChunk) -> None:
        self.store.put([chunk])


# --- rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "row", "key"),
    [
        ([[1, 2, 2, 3]], 2, 2),
        ([[1, 1]], 1, 1),
        ([[1, 2], [2, 3]], 2, 2),
        ([[1, 2], [], [2]], 2, 2),
        ([list(range(100)), [*range(100, 150), 149]], 150, 149),
    ],
)
def test_a_key_twice_is_refused(batches: list[list[int]], row: int, key: int) -> None:
    with pytest.raises(DuplicateKey, match=rf"row {row}: .*'id': {key}\b"):
        build(NUMBERED, [numbered(ids) for ids in batches], Sink())


@pytest.mark.parametrize(
    ("batches", "row", "key"),
    [
        ([[1, 3, 2]], 2, 2),
        ([[2, 1]], 1, 1),
        ([[1, 5], [4, 6]], 2, 4),
        ([[1, 2, 3], [-1]], 3, -1),
        ([list(range(200)), [*range(200, 250), 7]], 250, 7),
    ],
)
def test_unsorted_rows_are_refused(batches: list[list[int]], row: int, key: int) -> None:
    with pytest.raises(InvalidData, match=rf"row {row}: .*'id': {key}\b") as caught:
        build(NUMBERED, [numbered(ids) for ids in batches], Sink())
    assert not isinstance(caught.value, DuplicateKey)


@pytest.mark.parametrize(
    ("batches", "row"),
    [([[1, None, 3]], 1), ([[None]], 0), ([[1, 2], [3, None]], 3), ([[1], [None, 5]], 1)],
)
def test_a_null_in_a_key_is_refused(batches: list[list[int | None]], row: int) -> None:
    with pytest.raises(InvalidData, match=rf"row {row}: .*'id'.* null"):
        build(NUMBERED, [numbered(ids) for ids in batches], Sink())


def test_a_null_in_a_later_key_column_is_refused() -> None:
    rows = dated([("a", date(2024, 1, 1)), ("a", None), ("b", date(2024, 1, 1))])
    with pytest.raises(InvalidData, match=r"row 1: .*'day'.* null"):
        build(DATED, [rows], Sink())
    with pytest.raises(InvalidData, match=r"row 0: .*'shop'.* null"):
        build(DATED, [dated([(None, date(2024, 1, 1))])], Sink())


def test_messages_name_all_of_a_composite_key() -> None:
    one, other = ("a", date(2024, 1, 2)), ("a", date(2024, 1, 1))
    with pytest.raises(InvalidData, match=r"row 1: .*'shop': 'a', 'day': .*2024, 1, 1"):
        build(DATED, [dated([one, other])], Sink())
    with pytest.raises(DuplicateKey, match=r"row 1: .*'shop': 'a', 'day': .*2024, 1, 2"):
        build(DATED, [dated([one, one])], Sink())


def test_keys_that_are_equal_to_spark_are_duplicates() -> None:
    shape = Shape(("x",), (pa.float64(),), 1)
    with pytest.raises(DuplicateKey, match="row 1"):
        build(shape, [[pa.array([-0.0, 0.0])]], Sink())
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    with pytest.raises(DuplicateKey, match="row 1"):
        build(shape, [[pa.array([float("nan"), odd_nan], from_pandas=False)]], Sink())


def test_what_was_handed_over_before_the_bad_row_is_no_whole_tree() -> None:
    """Chunks may have gone to the sink, and are garbage: no root over the rows is among them."""
    sink, good = Sink(), Sink()
    rows = numbered(list(range(2000)))
    root = build(NUMBERED, [rows], good)
    with pytest.raises(InvalidData):
        build(NUMBERED, [rows, numbered([3])], sink)
    assert root not in set(sink.store.addresses())


# --- keys -----------------------------------------------------------------------------------


def test_a_key_that_is_too_long_is_refused() -> None:
    shape = Shape(("k",), (pa.string(),), 1)
    fits = "k" * (MAX_KEY_BYTES - 2)
    build(shape, [[pa.array(["a", fits])]], Sink())
    with pytest.raises(InvalidData, match=rf"row 1 of the batch: .*{MAX_KEY_BYTES + 1} bytes"):
        build(shape, [[pa.array(["a", fits + "k"])]], Sink())
    with pytest.raises(InvalidData, match="bytes"):
        build(shape, [[pa.array(["\0" * (MAX_KEY_BYTES // 2)])]], Sink())


@pytest.mark.parametrize(
    "nested",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
    ],
)
def test_a_nested_key_is_unsupported(nested: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="key column"):
        KeyCodec([pa.int64(), nested])
    with pytest.raises(Unsupported, match="key column"):
        build(Shape(("k",), (nested,), 1), [[pa.array([], nested)]], Sink())


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int8(), 128),
        (pa.int64(), 1 << 63),
        (pa.int64(), "seven"),
        (pa.int64(), None),
        (pa.string(), 5),
        (pa.decimal128(4, 1), Decimal("1234.5")),
        (pa.date32(), "yesterday"),
    ],
)
def test_a_key_value_that_does_not_fit_is_refused(data_type: pa.DataType, value: object) -> None:
    with pytest.raises(InvalidData, match="key column 'k'"):
        KeyCodec([data_type]).encode_one((value,), ["k"])


def test_a_key_with_values_missing_is_refused() -> None:
    with pytest.raises(InvalidData, match="key column 'day'"):
        DATED.codec.encode_one(("a",), ["shop", "day"])


# --- chunks ---------------------------------------------------------------------------------


class Damaged(MemoryStore):
    """A store some of whose chunks have gone or changed."""

    def replace(self, address: Address, data: bytes | None) -> None:
        if data is None:
            del self._data[address]
        else:
            self._data[address] = data


@pytest.fixture
def tree() -> tuple[Damaged, Address, list[Address], list[Address]]:
    """A store, a root, the nodes under it and the leaves."""
    sink = Sink()
    root = build(NUMBERED, [numbered(list(range(100)), "name")], sink)
    levels = nodes_by_level(Reader(sink.store, NUMBERED), root)
    nodes = [a for level, found in levels.items() if level > 1 for n in found for a in n.addresses]
    leaves = [address for node in levels[1] for address in node.addresses]
    chunks = [StoredChunk(a, sink.store.get(a)) for a in sink.store.addresses()]
    return Damaged(chunks), root, nodes, leaves


def damages(data: bytes) -> dict[str, bytes | None]:
    """Ways to spoil a chunk."""
    header_bytes = 2 + int.from_bytes(data[:2], "little")
    return {
        "gone": None,
        "empty": b"",
        "cut": data[: len(data) // 2],
        "short": data[:-1],
        "spoilt header": data[:20] + bytes([data[20] ^ 1]) + data[21:],
        "spoilt body": data[:header_bytes] + bytes(byte ^ 1 for byte in data[header_bytes:]),
        "other": encode_record(b"something else").data,
    }


KINDS = ["gone", "empty", "cut", "short", "spoilt header", "spoilt body", "other"]


def seek_all(store: MemoryStore, root: Address) -> None:
    for key in range(100):
        seek(Reader(store, NUMBERED, Cache(0)), root, NUMBERED.codec.encode_one((key,)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "short"])
@pytest.mark.parametrize("part", ["root", "node", "leaf"])
def test_a_damaged_chunk_is_corruption(tree: Any, kind: str, part: str) -> None:
    store, root, nodes, leaves = tree
    bad = {"root": root, "node": nodes[0], "leaf": leaves[3]}[part]
    store.replace(bad, damages(store.get(bad))[kind])
    with pytest.raises(Corruption):
        list(scan(Reader(store, NUMBERED), root))
    change = upserts(NUMBERED, numbered(list(range(100)), "other"))
    with pytest.raises(Corruption):
        edit(Reader(store, NUMBERED), root, change, Sink())
    with pytest.raises(Corruption):
        seek_all(store, root)


@pytest.mark.parametrize("part", ["root", "leaf"])
def test_no_flipped_byte_gives_wrong_rows(part: str) -> None:
    """Every byte in turn: the right rows, where the byte is not needed, or `Corruption`."""
    sink = Sink()
    names = pa.array([None if n % 5 == 0 else "name" * (n % 4) for n in range(12)])
    root = build(NUMBERED, [[pa.array(range(12), pa.int64()), names]], sink)
    store = Damaged(StoredChunk(a, sink.store.get(a)) for a in sink.store.addresses())
    rows = list(scan(Reader(store, NUMBERED), root))
    levels = nodes_by_level(Reader(store, NUMBERED), root)
    bad = root if part == "root" else levels[1][0].addresses[0]
    data = store.get(bad)
    caught = 0
    for place in range(len(data)):
        store.replace(bad, data[:place] + bytes([data[place] ^ 0x11]) + data[place + 1 :])
        try:
            assert list(scan(Reader(store, NUMBERED), root)) == rows
        except Corruption:
            caught += 1
    assert caught > len(data) // 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_leaf_stops_diff_and_merge(tree: Any, kind: str) -> None:
    store, root, _, leaves = tree

    def sink(chunk: StoredChunk) -> None:
        store.put([chunk])

    def side(name: str) -> Address:
        change = upserts(NUMBERED, numbered(list(range(60)), name))
        return edit(Reader(store, NUMBERED), root, change, sink)

    ours, theirs = side("ours"), side("theirs")
    store.replace(leaves[3], damages(store.get(leaves[3]))[kind])
    with pytest.raises(Corruption):
        list(diff(Reader(store, NUMBERED), root, ours))
    with pytest.raises(Corruption):
        merge(Reader(store, NUMBERED), root, ours, theirs, sink)


def test_a_chunk_of_another_shape_is_corruption(tree: Any) -> None:
    store, root, _, leaves = tree
    wider = Shape(("id", "a", "b"), (pa.int64(), pa.string(), pa.int64()), 1, SPLITTER)
    for address in (root, leaves[0]):
        with pytest.raises(Corruption, match="number of columns"):
            list(scan(Reader(store, wider), address))
    retyped = Shape(("id", "name"), (pa.int64(), pa.binary()), 1, SPLITTER)
    with pytest.raises(Corruption, match="holds string, not binary"):
        list(scan(Reader(store, retyped), leaves[0]))
    record = encode_record(b"a note")
    store.put([record])
    with pytest.raises(Corruption, match="no part of a tree"):
        list(scan(Reader(store, NUMBERED), record.address))


def test_a_node_without_children_is_corruption() -> None:
    empty = [pa.array([], data_type) for data_type in NUMBERED.entry_types]
    chunk = encode_chunk(empty, kind=1, level=1)
    with pytest.raises(Corruption):
        list(scan(Reader(MemoryStore([chunk]), NUMBERED), chunk.address))
