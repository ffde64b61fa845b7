"""Nodes: what interior chunks hold, and reading nodes and leaves through a cache."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import ADDRESS_BYTES, Address, short
from livingdb.chunks.arrow_values import as_numbers, empty, from_list, taken_rows
from livingdb.chunks.chunk import LEAF, NODE, Chunk, Draft, draft_chunk, encode_chunk
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.errors import Corruption
from livingdb.interruption import check_interruption
from livingdb.trees.keys import KeyArray, align
from livingdb.trees.shape import Shape
from livingdb.trees.zones import Zone, join_zones, zone_of, zone_types

__all__ = [
    "Cache",
    "Entries",
    "Entry",
    "Leaf",
    "Reader",
    "as_batch",
    "draft_leaf",
    "encode_node",
    "node_entry",
]


class Entry:
    """One child of an interior node: last key, address, row count and zones."""

    __slots__ = ("address", "key", "rows", "zones")

    def __init__(self, key: Any, address: Address, rows: int, zones: Sequence[Zone]):
        self.key = key
        self.address = address
        self.rows = rows
        self.zones = zones


class Entries:
    """The children of an interior node, or any run of siblings: columns, read when asked for.

    `level` is that of the node they were read from: the children of a node of level 1 are
    leaves, and those of a node of level 0 are the pieces of one leaf with large values.
    """

    def __init__(
        self,
        shape: Shape,
        count: int,
        source: Callable[[int], pa.Array],
        keys: KeyArray | None = None,
        level: int = 0,
    ):
        self.shape = shape
        self.level = level
        self._count = count
        self._source = source
        self._columns: dict[int, pa.Array] = {}
        if keys is not None:
            self.keys = keys

    @classmethod
    def of(cls, shape: Shape, entries: Sequence[Entry]) -> Entries:
        """Entries from single ones."""
        keys = _key_array(shape, [entry.key for entry in entries])
        columns = [
            shape.codec.to_binary(keys),
            from_list([entry.address for entry in entries], pa.binary(32)),
            from_list([entry.rows for entry in entries], pa.int64()),
        ]
        for index, position in enumerate(shape.zoned_positions):
            zones = [entry.zones[index] for entry in entries]
            types = zone_types(shape.types[position])
            if len(types) == 3:
                columns.append(from_list([zone.least for zone in zones], types[0]))
                columns.append(from_list([zone.greatest for zone in zones], types[1]))
            columns.append(from_list([zone.nulls for zone in zones], pa.int64()))
        return cls(shape, len(entries), columns.__getitem__, keys)

    @classmethod
    def concat(cls, shape: Shape, parts: Sequence[Entries]) -> Entries:
        """The runs one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(shape, 0, lambda position: empty(shape.entry_types[position]))
        keys = parts[0].keys
        for part in parts[1:]:
            keys = np.concatenate(align(keys, part.keys))

        def joined(position: int) -> pa.Array:
            return pa.concat_arrays([part.column(position) for part in parts])

        return cls(shape, len(keys), joined, keys, parts[0].level)

    def __len__(self) -> int:
        return self._count

    def column(self, position: int) -> pa.Array:
        """One column of the node, as `Shape.entry_types` lists them."""
        found = self._columns.get(position)
        if found is None:
            found = self._columns[position] = self._source(position)
        return found

    @property
    def columns(self) -> list[pa.Array]:
        """All columns of the node."""
        return [self.column(position) for position in range(len(self.shape.entry_types))]

    @cached_property
    def keys(self) -> KeyArray:
        """The last key under each child."""
        return self.shape.codec.from_binary(self.column(0))

    @cached_property
    def addresses(self) -> list[Address]:
        """The address of each child."""
        column, size = self.column(1), ADDRESS_BYTES
        if not len(column):
            return []
        start = column.offset * size
        raw = column.buffers()[1].to_pybytes()[start : start + len(column) * size]
        return [Address(raw[at : at + size]) for at in range(0, len(raw), size)]

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows under each child."""
        return np.asarray(as_numbers(self.column(2)), np.int64)

    def zone_columns(self, index: int) -> list[pa.Array]:
        """The zone-map columns of the index-th zoned column."""
        places = self.shape.zone_places
        return [self.column(position) for position in range(places[index], places[index + 1])]

    def slice(self, start: int, stop: int) -> Entries:
        """A run of these entries."""
        if start == 0 and stop == len(self):
            return self
        count = stop - start

        def sliced(position: int) -> pa.Array:
            return self.column(position).slice(start, count)

        return Entries(self.shape, count, sliced, self.keys[start:stop], self.level)

    def select(self, positions: npt.NDArray[Any]) -> Entries:
        """Some of these entries."""
        taken = taken_rows(positions)

        def selected(position: int) -> pa.Array:
            return pc.take_at(self.column(position), taken)

        return Entries(self.shape, len(positions), selected, self.keys[positions], self.level)

    def at_level(self, level: int) -> Entries:
        """The same entries, as if read from a node of that level."""
        return Entries(self.shape, len(self), self.column, self.keys, level)

    def size_bytes(self) -> int:
        """About how much memory the entries hold, once all their columns are read."""
        return len(self) * (64 + 16 * len(self.shape.entry_types)) + 512


def _key_array(shape: Shape, keys: Sequence[Any]) -> KeyArray:
    if shape.codec.packed:
        return np.array(keys, np.uint64)
    return shape.codec.from_binary(from_list(keys, pa.binary()))


def draft_leaf(shape: Shape, columns: Sequence[pa.Array], last_key: Any) -> tuple[Entry, Draft]:
    """A chunk of rows, not yet compressed, and its entry."""
    draft = draft_chunk(columns, names=shape.names)
    zones = [zone_of(columns[at], draft.bounds[at]) for at in shape.zoned_positions]
    return Entry(last_key, draft.address, len(columns[0]), zones), draft


def encode_node(shape: Shape, children: Entries, level: int) -> tuple[Entry, StoredChunk]:
    """An interior chunk over these children and its entry."""
    stored = encode_chunk(children.columns, kind=NODE, level=level)
    return node_entry(children, stored.address), stored


def node_entry(children: Entries, address: Address) -> Entry:
    """The entry of the node at the address that has these children."""
    shape = children.shape
    zones = [
        join_zones(children.zone_columns(index)) for index in range(len(shape.zoned_positions))
    ]
    return Entry(children.keys[-1], address, int(children.rows.sum()), zones)


class Leaf:
    """The rows of one leaf, or of one piece of one; columns are read when asked for."""

    def __init__(self, shape: Shape, chunk: Chunk):
        self.shape = shape
        self.chunk = chunk
        self.rows = chunk.rows
        self._columns: dict[int, pa.Array] = {}
        self._batches: dict[tuple[int, ...], pa.RecordBatch] = {}
        self._weighed = 0
        self._size_bytes = 16 * self.rows + 512

    def column(self, position: int) -> pa.Array:
        """One column, verified."""
        found = self._columns.get(position)
        if found is None:
            found = self.chunk.column(position, self.shape.types[position])
            self._columns[position] = found
        return found

    def columns(self, positions: Sequence[int] | None = None) -> list[pa.Array]:
        """The columns asked for, or all."""
        wanted = range(len(self.shape.types)) if positions is None else positions
        return [self.column(position) for position in wanted]

    def batch(self, positions: tuple[int, ...]) -> pa.RecordBatch:
        """The columns asked for, to be sliced together."""
        found = self._batches.get(positions)
        if found is None:
            found = self._batches[positions] = as_batch(self.columns(positions))
        return found

    @property
    def is_unread(self) -> bool:
        """Whether no column has been read yet."""
        return not self._columns

    @cached_property
    def keys(self) -> KeyArray:
        """The encoded keys of the rows."""
        return self.shape.keys(self.columns(range(self.shape.key_count)))

    def size_bytes(self) -> int:
        """About how much memory the leaf holds."""
        if self._weighed != len(self._columns):
            columns = list(self._columns.values())
            weight = sum(int(column.get_total_buffer_size()) for column in columns)
            self._size_bytes, self._weighed = 16 * self.rows + 512 + weight, len(columns)
        return self._size_bytes


def as_batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Columns of as many rows each, known by their places alone."""
    return pa.RecordBatch.from_arrays(columns, names=[""] * len(columns))


_LEAST_BYTES, _MOST_BYTES = 128 << 20, 1 << 30
_SHARE = 32


def _share_of_memory() -> int:
    """What the nodes of one database may take of this machine's memory.

    Not more than a gigabyte: a container may be allowed much less than the machine has.
    """
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _LEAST_BYTES
    return min(max(_LEAST_BYTES, whole // _SHARE), _MOST_BYTES)


class Cache:
    """Keeps recently used nodes and leaves, up to a number of bytes.

    An item is weighed when it is put in and again whenever it is found, because leaves grow
    as their columns are read.
    """

    def __init__(self, limit_bytes: int | None = None):
        self.limit_bytes = _share_of_memory() if limit_bytes is None else limit_bytes
        self._items: OrderedDict[Address, tuple[Entries | Leaf, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, address: Address) -> Entries | Leaf | None:
        """The item, now the most recent."""
        found = self._items.get(address)
        if found is None:
            return None
        item, weight = found
        if item.size_bytes() != weight:
            self.put(address, item)
            return item
        with suppress(KeyError):  # another thread may have dropped it since
            self._items.move_to_end(address)
        return item

    def put(self, address: Address, item: Entries | Leaf) -> None:
        """Keep the item, dropping the least recent ones over the limit."""
        weight = item.size_bytes()
        with self._lock:
            old = self._items.pop(address, None)
            self._bytes += weight - (old[1] if old else 0)
            self._items[address] = (item, weight)
            while self._bytes > self.limit_bytes and len(self._items) > 1:
                _, (_, dropped) = self._items.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Keep nothing of what was read so far."""
        with self._lock:
            self._items.clear()
            self._bytes = 0


def _typed_columns(chunk: Chunk, types: Sequence[pa.DataType]) -> Callable[[int], pa.Array]:
    return lambda position: chunk.column(position, types[position])


class Reader:
    """Reads the nodes of trees of one shape from a store."""

    def __init__(self, store: ChunkStore, shape: Shape, cache: Cache | None = None):
        self.store = store
        self.shape = shape
        self.cache = cache if cache is not None else Cache()

    def holds(self, address: Address) -> bool:
        """Whether the store has the node."""
        return bool(self.store.contains([address])[0])

    def at_hand(self, address: Address) -> Entries | Leaf | None:
        """The node at the address if it is in the cache."""
        found = self.cache.get(address)
        # Tables that differ only in how their keys are made share leaves, not keys.
        if found is not None and found.shape.read_format == self.shape.read_format:
            return found
        return None

    def read(self, address: Address, keep: bool = True) -> Entries | Leaf:
        """The node at the address: `Entries` or a `Leaf`; `keep` puts it in the cache.

        `LimitExceeded` if it would have to be read, and what is done here was stopped.
        """
        found = self.at_hand(address)
        if found is not None:
            return found
        check_interruption()
        chunk = Chunk(address, self.store.get(address), self.store.get)
        item: Entries | Leaf
        if chunk.kind == LEAF:
            if len(chunk.descriptors) != len(self.shape.types):
                raise Corruption(f"leaf {short(address)} has the wrong number of columns")
            item = Leaf(self.shape, chunk)
        elif chunk.kind == NODE:
            types = self.shape.entry_types
            if len(chunk.descriptors) != len(types) or chunk.rows == 0:
                raise Corruption(f"node {short(address)} has the wrong number of columns")
            item = Entries(self.shape, chunk.rows, _typed_columns(chunk, types), level=chunk.level)
        else:
            raise Corruption(f"chunk {short(address)} is no part of a tree")
        if keep:
            self.cache.put(address, item)
        return item
