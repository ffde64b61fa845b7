"""Leaves that are wanted soon are read by other threads, and few of them by none."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from livingdb.chunks import chunk as chunks
from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.errors import Corruption, LimitExceeded
from livingdb.interruption import interruptible
from livingdb.trees import seek as tree_seek
from livingdb.trees.builder import build
from livingdb.trees.delta import UPSERT, Delta
from livingdb.trees.diff import diff
from livingdb.trees.edit import edit
from livingdb.trees.nodes import Leaf, Reader
from livingdb.trees.scan import scan
from livingdb.trees.seek import seek_many
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import ContentSplitter

ROWS = 20_000
SHAPE = Shape(
    ("id", "name", "price"),
    (pa.int64(), pa.string(), pa.float64()),
    1,
    ContentSplitter(target_rows=256, fanout=16),
)


def columns(ids: np.ndarray, version: int = 0) -> list[pa.Array]:
    names = [f"customer-{(number * 7919 + version) % 100_003}" for number in ids.tolist()]
    return [pa.array(ids), pa.array(names), pa.array((ids * 37 + version) % 9_973 / 4)]


class Store(MemoryStore):
    """A store that knows which threads ask it."""

    threads: set[str]

    def get(self, address: Address) -> bytes:
        self.threads.add(threading.current_thread().name)
        return super().get(address)


class World:
    """A tree, and one in which every hundredth row is another."""

    def __init__(self) -> None:
        self.store = Store()
        self.store.threads = set()
        ids = np.arange(ROWS)
        self.root = build(SHAPE, [columns(ids)], lambda chunk: self.store.put([chunk]))
        some = columns(ids[::100], 1)
        ops = np.full(len(some[0]), UPSERT, np.int8)
        changes = Delta(SHAPE, SHAPE.keys(some), ops, tuple(some), (None,) * 3)
        sink = lambda chunk: self.store.put([chunk])  # noqa: E731
        self.other = edit(self.reader(), self.root, changes, sink)

    def reader(self) -> Reader:
        """A reader that has read nothing."""
        self.store.threads.clear()
        return Reader(self.store, SHAPE)

    def leaves(self) -> list[Address]:
        """The addresses of all leaves of the first tree."""
        reader, found = self.reader(), [self.root]
        while not isinstance(reader.read(found[0]), Leaf):
            found = [below for address in found for below in reader.read(address).addresses]
        return found


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def keys(rows: np.ndarray) -> np.ndarray:
    return SHAPE.keys([pa.array(rows)])


def read_all(world: World) -> int:
    return sum(len(batch[0]) for batch in scan(world.reader(), world.root))


def look_up(world: World) -> int:
    found, rows = seek_many(world.reader(), world.root, keys(np.arange(0, ROWS, 50)))
    return int(found.sum()) if len(rows[0]) == len(found) else 0


def compare(world: World) -> int:
    return sum(len(batch.keys) for batch in diff(world.reader(), world.root, world.other))


READS = {read_all: ROWS, look_up: ROWS // 50, compare: ROWS // 100}


@pytest.mark.parametrize("read", READS)
class TestManyLeaves:
    def test_are_decoded_together(
        self, world: World, read: Callable[[World], int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of all columns but the keys, which lie at even steps, few are decoded alone."""
        alone: list[pa.DataType] = []
        decode = chunks.decode_body

        def counted(data: memoryview, data_type: pa.DataType, rows: int) -> object:
            if data_type in SHAPE.types[1:]:
                alone.append(data_type)
            return decode(data, data_type, rows)

        monkeypatch.setattr(chunks, "decode_body", counted)
        assert read(world) == READS[read]
        assert len(alone) < len(world.leaves()) / 2

    def test_are_read_by_other_threads(self, world: World, read: Callable[[World], int]) -> None:
        assert read(world) == READS[read]
        assert any(name.startswith("livingdb-leaf") for name in world.store.threads)

    def test_end_when_they_are_stopped(self, world: World, read: Callable[[World], int]) -> None:
        with interruptible() as stopper:
            stopper.stop("enough")
            with pytest.raises(LimitExceeded, match=r"^enough$"):
                read(world)

    def test_are_verified(self, read: Callable[[World], int]) -> None:
        world = World()
        leaf = world.leaves()[9]
        damaged = bytearray(world.store.get(leaf))
        damaged[-5] ^= 1
        world.store._data[leaf] = bytes(damaged)
        with pytest.raises(Corruption, match=leaf.hex()[:12]):
            read(world)


class TestFewLeaves:
    def test_no_other_thread_reads_them(self, world: World) -> None:
        found, _ = seek_many(world.reader(), world.root, keys(np.arange(0, ROWS, ROWS // 6)[:6]))
        assert found.all()
        assert world.store.threads == {threading.current_thread().name}

    def test_nor_those_that_are_at_hand(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader, wanted = world.reader(), keys(np.arange(0, ROWS, 50))
        assert seek_many(reader, world.root, wanted)[0].all()

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("read ahead")

        monkeypatch.setattr(tree_seek, "in_order", refuse)
        assert seek_many(reader, world.root, wanted)[0].all()
