"""A model to hold trees against: plain dicts, with random shapes, rows and changes.

A `World` is a shape with a sorted pool of keys.  A row is named by the place of its key in
the pool and holds a *version* per value column, which picks a value from a table.  So an
example is a handful of small integers, quick to draw and good to shrink.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import strategies as st

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.trees.builder import build
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.edit import edit
from livingdb.trees.keys import KeyArray
from livingdb.trees.nodes import Cache, Entries, Leaf, Reader
from livingdb.trees.scan import scan
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter

__all__ = [
    "KEY_TYPES",
    "Lab",
    "Operation",
    "Operations",
    "RecordingStore",
    "Rows",
    "World",
    "apply_deltas",
    "cuts_of",
    "deltas",
    "labs",
    "nodes_by_level",
    "order",
    "plain",
    "rows_of",
]

Key = tuple[Any, ...]
Versions = tuple[int, ...]
Rows = dict[int, Versions]
"""Place of the key in the pool → version of each value column."""
Operation = tuple[int, tuple[int | None, ...]]
"""An operation and, per value column, the version it carries; None carries none."""
Operations = dict[int, Operation]

VERSIONS = 8
WIDE = Context(prec=60)
"""Holds every decimal there is."""

# --- values ---------------------------------------------------------------------------------

INT8, INT32, INT64 = pa.int8(), pa.int32(), pa.int64()
STRING, BINARY, BOOL = pa.string(), pa.binary(), pa.bool_()
FLOAT32, FLOAT64 = pa.float32(), pa.float64()
DATE, LOCAL, INSTANT = pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")
BERLIN = pa.timestamp("us", "Europe/Berlin")
MONEY, HUGE = pa.decimal128(12, 2), pa.decimal128(38, 10)

KEY_TYPES: tuple[pa.DataType, ...] = (
    INT64, INT32, INT8, BOOL, STRING, BINARY, DATE, LOCAL, INSTANT, BERLIN, MONEY, HUGE,
    FLOAT64, FLOAT32,
)  # fmt: skip

KEYS: tuple[tuple[pa.DataType, ...], ...] = (
    *((data_type,) for data_type in KEY_TYPES),
    (INT64,),
    (STRING,),
    (BINARY,),
    (INT32, INT32),
    (INT8, BOOL, INT32),
    (INT64, INT8),
    (DATE, INT64),
    (FLOAT32, INT32),
    (FLOAT64, FLOAT64),
    (STRING, INT8),
    (INT8, STRING),
    (STRING, STRING),
    (BINARY, BINARY, BINARY),
    (STRING, MONEY, BINARY),
    (MONEY, STRING),
    (BOOL, BINARY, FLOAT64),
    (INSTANT, STRING, INT32),
    (HUGE, LOCAL),
)

NESTED = (
    pa.list_(INT32),
    pa.list_(STRING),
    pa.list_(BOOL),
    pa.struct([("a", INT64), ("b", STRING)]),
    pa.struct([("flags", pa.list_(BOOL)), ("on", BOOL), ("off", BOOL)]),
    pa.map_(STRING, INT32),
    pa.list_(pa.struct([("x", BOOL), ("y", FLOAT64)])),
)

VALUES: tuple[tuple[pa.DataType, ...], ...] = (
    (),
    (STRING,),
    (INT64, FLOAT64),
    (STRING, STRING, BOOL),
    (INT32, MONEY),
    (BINARY, DATE, LOCAL),
    (INSTANT, FLOAT32, INT8),
    *((data_type,) for data_type in NESTED),
    (STRING, NESTED[2], NESTED[5]),
)

FEW: tuple[tuple[pa.DataType, ...], ...] = ((), (), (INT64,), (STRING,))
"""Value columns for laws in which the shape of the tree is what matters."""

FLAVOURS = ("spread", "dense", "nasty", "giant")

_LETTERS = ("a", "b", "\0", "\x01", "z", "\x7f", "é", "\uffff", "\U0001f600")
_BYTES = (b"a", b"b", b"\0", b"\0\0", b"\x01", b"\xff", b"\xfe", b"\0\xff")
_EPOCH = datetime(1970, 1, 1)


def order(value: Any) -> Any:
    """What Python compares as Spark compares the value."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.encode() if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """A value that equals another one, and hashes as it, iff the two are the same value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return tuple((name, plain(inner)) for name, inner in value.items())
    if isinstance(value, list):
        inner = [plain(item) for item in value]
        is_map = any(isinstance(item, tuple) for item in value)
        return ("list", *(sorted(inner, key=lambda entry: entry[0]) if is_map else inner))
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


def _integers(bits: int, flavour: str, rng: Random, count: int) -> list[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if flavour == "dense":
        return [n for n in range(-count // 3, count) if low <= n <= high]
    ends = [low, low + 1, -1, 0, 1, high - 1, high]
    return ends + [rng.randint(low, high) >> rng.randrange(bits) for _ in range(2 * count)]


def _texts(letters: Sequence[Any], flavour: str, rng: Random, count: int) -> list[Any]:
    empty = letters[0][:0]
    number: Callable[[int], Any] = (
        (lambda n: f"{n:06d}") if isinstance(empty, str) else (lambda n: b"%06d" % n)
    )
    if flavour == "dense":
        return [letters[0] * 3 + number(n) for n in range(count)]
    if flavour == "giant":
        long = [letters[0] * rng.randint(60, 70) + number(n) for n in range(count // 6)]
        longer = [letters[1] * rng.randint(150, 300) + number(n) for n in range(3)]
        return long + longer + [number(n) for n in range(count)]
    most = 4 if flavour == "nasty" else 14
    lengths = (rng.randrange(most) for _ in range(3 * count))
    return [empty.join(rng.choice(letters) for _ in range(length)) for length in lengths]


def _floats(flavour: str, rng: Random, count: int, single: bool) -> list[float]:
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-40, -1e-40, 1e308]
    scale = 3.0 if flavour == "dense" else 1e6
    values = special + [rng.gauss(0, scale) for _ in range(count)]
    if not single:
        return values
    with np.errstate(over="ignore"):
        return [float(np.float32(value)) for value in values]


def _moments(flavour: str, rng: Random, count: int) -> list[datetime]:
    if flavour == "dense":
        return [_EPOCH + timedelta(microseconds=n - count // 2) for n in range(count)]
    span = 3 * 10**15
    return [_EPOCH + timedelta(microseconds=rng.randint(-span, span)) for _ in range(count)]


@lru_cache(maxsize=1024)
def _pool(data_type: pa.DataType, flavour: str, seed: int, count: int) -> tuple[Any, ...]:
    """Values of a key column; some may be the same."""
    rng = Random(f"{data_type}{flavour}{seed}")
    kinds = pa.types
    if kinds.is_boolean(data_type):
        return (False, True)
    if kinds.is_integer(data_type):
        return tuple(_integers(data_type.bit_width, flavour, rng, count))
    if kinds.is_string(data_type):
        return tuple(_texts(_LETTERS, flavour, rng, count))
    if kinds.is_binary(data_type):
        return tuple(_texts(_BYTES, flavour, rng, count))
    if kinds.is_floating(data_type):
        return tuple(_floats(flavour, rng, count, data_type == FLOAT32))
    if kinds.is_decimal(data_type):
        digits = data_type.precision if flavour != "dense" else 2
        bound = 10**digits - 1
        numbers = [0, 1, -1, bound, -bound, *(rng.randint(-bound, bound) for _ in range(count))]
        return tuple(Decimal(n).scaleb(-data_type.scale, WIDE) for n in numbers)
    moments = _moments(flavour, rng, count)
    if kinds.is_date(data_type):
        days = range(-count // 2, count) if flavour == "dense" else ()
        return tuple([m.date() for m in moments] + [date(1970, 1, 1) + timedelta(d) for d in days])
    return tuple(m.replace(tzinfo=UTC) for m in moments) if data_type.tz else tuple(moments)


@lru_cache(maxsize=2048)
def _keys(types: tuple[pa.DataType, ...], flavour: str, seed: int, count: int) -> tuple[Key, ...]:
    """Up to `count` keys that differ, in order."""
    rng = Random(seed)
    if len(types) == 1:
        keys = [(value,) for value in _pool(types[0], flavour, seed, count)]
    else:
        few = [rng.sample(p, min(len(p), 9)) for p in (_pool(t, flavour, seed, 40) for t in types)]
        keys = [tuple(rng.choice(values) for values in few) for _ in range(4 * count)]
    distinct = {tuple(order(value) for value in key): key for key in keys}
    chosen = sorted(distinct)
    if len(chosen) > count:
        chosen = sorted(rng.sample(chosen, count))
    return tuple(distinct[key] for key in chosen)


def _large(rng: Random) -> str:
    return rng.choice("pqr") * rng.choice([0, 1, 30, 90, 400])


def _nested(data_type: pa.DataType, rng: Random) -> Any:
    def element(inner: pa.DataType) -> Any:
        if rng.random() < 0.15:
            return None
        return _nested(inner, rng) if pa.types.is_nested(inner) else rng.choice(_table(inner, 0))

    size = rng.choice([0, 1, 2, 3, 20])
    if pa.types.is_struct(data_type):
        return {field.name: element(field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return [(f"k{n}", element(data_type.item_type)) for n in rng.sample(range(30), size)]
    return [element(data_type.value_type) for _ in range(size)]


@lru_cache(maxsize=256)
def _table(data_type: pa.DataType, column: int) -> tuple[Any, ...]:
    """The values a column can have; nulls among them unless the column is an even one."""
    rng = Random(f"{data_type}{column}")
    nulls = [None, None, None] if column % 2 else []
    if pa.types.is_nested(data_type):
        found = [_nested(data_type, rng) for _ in range(12)] + [None] * 2
    elif pa.types.is_string(data_type):
        found = [_large(rng) for _ in range(10)] + ["\0", "a\0b", "é"] + nulls
    else:
        pool = _pool(data_type, "nasty", column, 24)
        found = [rng.choice(pool) for _ in range(13)] + nulls
    rng.shuffle(found)
    return tuple(found)


# --- worlds ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A shape, the keys its rows may have, in order, and the values they may hold."""

    shape: Shape
    keys: tuple[Key, ...]

    @cached_property
    def width(self) -> int:
        """How many value columns there are."""
        return len(self.shape.types) - self.shape.key_count

    @cached_property
    def places(self) -> dict[Key, int]:
        """The place of every key, plain, in the pool."""
        return {plain(key): place for place, key in enumerate(self.keys)}

    @cached_property
    def encoded_places(self) -> dict[bytes, int]:
        """The place of every key, as nodes hold it, in the pool."""
        every = self.shape.codec.to_binary(self.encoded(range(len(self.keys))))
        return {key: place for place, key in enumerate(every.to_pylist())}

    @cached_property
    def _key_arrays(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """The pool as columns, twice: the second time with zeros of the other sign."""
        types = self.shape.types[: self.shape.key_count]
        columns = list(zip(*self.keys, strict=True))
        twins = [[-v if isinstance(v, float) and v == 0 else v for v in c] for c in columns]
        return (
            [pa.array(c, t) for c, t in zip(columns, types, strict=True)],
            [pa.array(c, t) for c, t in zip(twins, types, strict=True)],
        )

    @cached_property
    def tables(self) -> list[tuple[Any, ...]]:
        """The values of each value column."""
        types = self.shape.types[self.shape.key_count :]
        return [_table(data_type, column) for column, data_type in enumerate(types)]

    @cached_property
    def _table_arrays(self) -> list[pa.Array]:
        types = self.shape.types[self.shape.key_count :]
        return [pa.array(table, t) for table, t in zip(self.tables, types, strict=True)]

    @cached_property
    def _plain_tables(self) -> list[list[Any]]:
        return [[plain(value) for value in table] for table in self.tables]

    def slot(self, column: int, place: int, version: int) -> int:
        """Where in the column's table the value stands."""
        return (7 * place + 3 * version + column) % len(self.tables[column])

    def values(self, place: int, versions: Versions) -> tuple[Any, ...]:
        """The values of a row, plain, without the key."""
        return tuple(
            self._plain_tables[column][self.slot(column, place, version)]
            for column, version in enumerate(versions)
        )

    def row(self, place: int, versions: Versions) -> tuple[Any, ...]:
        """A whole row, plain."""
        return (*plain(self.keys[place]), *self.values(place, versions))

    def table(self, rows: Rows) -> list[tuple[Any, ...]]:
        """All rows, plain, in key order."""
        return [self.row(place, rows[place]) for place in sorted(rows)]

    def key_columns(self, places: Sequence[int], twin: bool = False) -> list[pa.Array]:
        """The key columns of some rows."""
        taken = pa.array(places, pa.int64())
        return [array.take(taken) for array in self._key_arrays[twin]]

    def columns(self, rows: Rows, twin: bool = False) -> list[pa.Array]:
        """The columns of all rows, in key order."""
        places = sorted(rows)
        columns = self.key_columns(places, twin)
        for column in range(self.width):
            columns.append(self._column(column, [(p, rows[p][column]) for p in places]))
        return columns

    def _column(self, column: int, cells: Iterable[tuple[int, int | None]]) -> pa.Array:
        slots = [None if v is None else self.slot(column, p, v) for p, v in cells]
        return self._table_arrays[column].take(pa.array(slots, pa.int64()))

    def encoded(self, places: Sequence[int]) -> KeyArray:
        """The encoded keys of some rows."""
        return self.shape.codec.encode(self.key_columns(places))

    def key(self, place: int) -> Any:
        """One encoded key."""
        return self.encoded([place])[0]

    def changes(self, deltas: Operations, twin: bool = False) -> Delta:
        """The changes as trees take them.

        What a row does not carry is null, or, in every second column, some value that must
        not be seen; a column that all carry has no mask, and one that none does is left out.
        """
        places = sorted(deltas)
        ops = np.array([deltas[place][0] for place in places], np.int8)
        columns: list[pa.Array | None] = list(self.key_columns(places, twin))
        present: list[npt.NDArray[np.bool_] | None] = [None] * len(columns)
        for column in range(self.width):
            carried = [deltas[place][1][column] for place in places]
            mask = np.array([version is not None for version in carried], bool)
            if not mask.any():
                columns.append(None)
                present.append(None)
                continue
            hidden = None if column % 2 else 5
            cells = [hidden if version is None else version for version in carried]
            columns.append(self._column(column, zip(places, cells, strict=True)))
            whole = bool((mask == (ops != DELETE)).all())
            present.append(None if whole else mask)
        keys = self.shape.codec.encode(list(columns[: self.shape.key_count]))
        return Delta(self.shape, keys, ops, tuple(columns), tuple(present))


def apply_deltas(rows: Rows, changes: Operations) -> Rows:
    """The rows with the changes made."""
    made = dict(rows)
    for place, (op, versions) in changes.items():
        if op == UPSERT:
            made[place] = tuple(v for v in versions if v is not None)
        elif op == DELETE:
            made.pop(place, None)
        elif place in made:
            old = made[place]
            made[place] = tuple(o if v is None else v for o, v in zip(old, versions, strict=True))
    return made


# --- trees of a world -----------------------------------------------------------------------


class RecordingBuffer:
    """Bytes that remember which of them were read."""

    def __init__(self, data: bytes, reads: list[tuple[int, int]]):
        self._data = data
        self._reads = reads

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, span: slice, /) -> bytes:
        start, stop, _ = span.indices(len(self._data))
        self._reads.append((start, max(start, stop)))
        return self._data[span]


class RecordingStore(MemoryStore):
    """A store that remembers what was asked of it: `gets` in order, `reads` per chunk."""

    def __init__(self, chunks: Iterable[StoredChunk] = ()) -> None:
        self.gets: list[Address] = []
        self.puts: list[Address] = []
        self.reads: dict[Address, list[tuple[int, int]]] = {}
        super().__init__(chunks)

    def get(self, address: Address) -> Any:
        """The chunk, as bytes that remember."""
        self.gets.append(address)
        return RecordingBuffer(super().get(address), self.reads.setdefault(address, []))

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep the chunks."""
        arriving = list(chunks)
        self.puts += [chunk.address for chunk in arriving]
        super().put(arriving)

    @property
    def unwatched(self) -> MemoryStore:
        """The same chunks, to be read off the record."""
        other = MemoryStore()
        other._data = self._data
        return other

    def forget(self) -> None:
        """Start a new record."""
        self.gets.clear()
        self.puts.clear()
        self.reads.clear()


class Lab:
    """A store with trees of one world."""

    def __init__(self, world: World, cache_bytes: int = 1 << 20):
        self.world = world
        self.store = RecordingStore()
        self.cache_bytes = cache_bytes
        self.reader = self.fresh_reader()

    def __repr__(self) -> str:
        return f"Lab({self.world.shape}, keys={str(self.world.keys)[:300]})"

    def fresh_reader(self) -> Reader:
        """A reader that has seen nothing."""
        return Reader(self.store, self.world.shape, Cache(self.cache_bytes))

    def sink(self, chunk: StoredChunk) -> None:
        """Take a new chunk."""
        self.store.put([chunk])

    def build(self, rows: Rows, cuts: Sequence[int] = (), twin: bool = False) -> Address:
        """The tree of the rows, handed over in batches that end at the cuts."""
        columns = self.world.columns(rows, twin)
        edges = [0, *sorted(cut for cut in cuts if cut <= len(rows)), len(rows)]
        batches = [
            [column.slice(start, stop - start) for column in columns]
            for start, stop in pairwise(edges)
        ]
        return build(self.world.shape, batches, self.sink)

    def edit(self, root: Address, deltas: Operations, twin: bool = False) -> Address:
        """The tree with the changes made."""
        return edit(self.reader, root, self.world.changes(deltas, twin), self.sink)

    def rows(self, root: Address, **options: Any) -> list[tuple[Any, ...]]:
        """What a scan gives, plain."""
        return plain_rows(scan(self.reader, root, **options))

    def leaf_edges(self, root: Address) -> list[int]:
        """The places of the pool at which a leaf starts, and its end."""
        levels = nodes_by_level(self.reader, root)
        codec, places = self.world.shape.codec, self.world.encoded_places
        lasts = [k for part in levels.get(1, []) for k in codec.to_binary(part.keys).to_pylist()]
        return sorted({0, *(places[last] + 1 for last in lasts), len(self.world.keys)})


def plain_rows(batches: Iterable[Sequence[pa.Array]]) -> list[tuple[Any, ...]]:
    """Rows from batches of columns, plain."""
    rows: list[tuple[Any, ...]] = []
    for columns in batches:
        lists = [[plain(value) for value in column.to_pylist()] for column in columns]
        rows += zip(*lists, strict=True)
    return rows


def nodes_by_level(reader: Reader, root: Address) -> dict[int, list[Entries]]:
    """The interior nodes of each level, in key order."""
    found: dict[int, list[Entries]] = {}

    def visit(address: Address) -> None:
        node = reader.read(address)
        if isinstance(node, Leaf) or node.level == 0:
            return
        found.setdefault(node.level, []).append(node)
        if node.level > 1:
            for child in node.addresses:
                visit(child)

    visit(root)
    return found


# --- strategies -----------------------------------------------------------------------------

_ROWS_FOR = {2: 24, 3: 28, 4: 34, 8: 44, 16: 50, 64: 110}
_TARGETS = (2, 2, 2, 3, 3, 4, 4, 8, 16, 64)


@lru_cache(maxsize=1 << 14)
def _world(
    key_types: tuple[pa.DataType, ...],
    value_types: tuple[pa.DataType, ...],
    splitter: ContentSplitter | CapacitySplitter,
    piece_bytes: int,
    pool: tuple[str, int, int],
) -> World:
    types = key_types + value_types
    names = tuple(f"c{position}" for position in range(len(types)))
    shape = Shape(names, types, len(key_types), splitter, piece_bytes)
    return World(shape, _keys(key_types, *pool))


@st.composite
def labs(
    draw: st.DrawFn,
    *,
    keys: Sequence[tuple[pa.DataType, ...]] = KEYS,
    values: Sequence[tuple[pa.DataType, ...]] = VALUES,
    flavours: Sequence[str] = FLAVOURS,
    max_key_bytes: Sequence[int] = (1 << 20, 1 << 20, 40, 300),
    piece_bytes: Sequence[int] = (4 << 20, 4 << 20, 400),
    capacity: bool = False,
) -> Lab:
    """An empty lab of a random shape."""
    target = draw(st.sampled_from(_TARGETS))
    fanout = draw(st.sampled_from([2, 2, 3, 4, 8]))
    key_cap, piece_cap = draw(st.sampled_from(max_key_bytes)), draw(st.sampled_from(piece_bytes))
    splitter: ContentSplitter | CapacitySplitter = ContentSplitter(target, fanout, key_cap)
    if capacity:
        splitter = CapacitySplitter(target, fanout)
    count = min(_ROWS_FOR[target], 26 if min(key_cap, piece_cap) < 1000 else 1000)
    pool = (draw(st.sampled_from(flavours)), draw(st.integers(0, 2)), count)
    key_types, value_types = draw(st.sampled_from(keys)), draw(st.sampled_from(values))
    world = _world(key_types, value_types, splitter, piece_cap, pool)
    return Lab(world, draw(st.sampled_from([1 << 20, 2000])))


def _chosen(start: int, length: int, one_in: int, salt: int, count: int) -> Iterator[int]:
    """Places of a stretch, about one in so many of them."""
    for place in range(start % count, min(start % count + length, count)):
        if (place * 2654435761 + salt * 40503 >> 7) % one_in == 0:
            yield place


_SALTS = st.integers(0, 63)
_LENGTHS = st.sampled_from([1, 2, 3, 5, 9, 20, 200])
_STROKE = st.tuples(st.integers(0, 99), _LENGTHS, st.sampled_from([1, 1, 1, 2, 5]), _SALTS)
_WHOLE = st.tuples(st.just(0), st.just(200), st.sampled_from([1, 1, 2]), _SALTS)


@st.composite
def rows_of(draw: st.DrawFn, world: World) -> Rows:
    """Rows: a few stretches of keys, full or sparse; often most of the pool, at times none."""
    rows: Rows = {}
    whole = draw(st.integers(0, 5)) > 0
    strokes = [draw(_WHOLE)] if whole else draw(st.lists(_STROKE, max_size=2))
    for start, length, one_in, salt in strokes:
        for place in _chosen(start, length, one_in, salt, len(world.keys)):
            rows[place] = ((salt + place) % VERSIONS,) * world.width
    return rows


@st.composite
def deltas(
    draw: st.DrawFn,
    world: World,
    ops: Sequence[int] = (UPSERT, UPSERT, PATCH, DELETE, DELETE),
    most: int = 3,
    edges: Sequence[int] = (),
) -> Operations:
    """Changes: a few keys or stretches of keys, each with one operation.

    Half of the stretches run from edge to edge, if there are `edges`: whole leaves go.
    """
    made: Operations = {}
    strokes = st.tuples(_STROKE, st.sampled_from(ops), st.integers(0, 15))
    for (start, length, one_in, salt), op, bits in draw(
        st.lists(strokes, min_size=1, max_size=most)
    ):
        sparse = one_in if length > 3 else 1
        if len(edges) > 1 and bits & 8:
            first = start % (len(edges) - 1)
            start, sparse = edges[first], 1
            length = edges[min(first + length, len(edges) - 1)] - start
        for place in _chosen(start, length, sparse, salt, len(world.keys)):
            version = (salt + place) % VERSIONS
            carries = [op == UPSERT or bool(bits >> c & 1) for c in range(world.width)]
            if op == DELETE:
                carries = [False] * world.width
            made[place] = (op, tuple(version if carry else None for carry in carries))
    return made


def cuts_of(count: int) -> st.SearchStrategy[list[int]]:
    """Where batches of so many rows end; some batches may be empty."""
    return st.lists(st.integers(0, max(count, 0)), max_size=4)
