"""Calibration: the constants of the cost model, measured on this machine and in this store.

Trees of made-up rows are built, read and changed in memory, with leaves of two sizes and with few
and many columns, and what that took is solved for the constants.  What a chunk costs to be had
from the store is measured on packs of the database.  All of it takes about a second.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.model import CostModel
from livingdb.tables.layout import Layout
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import UPSERT, Delta
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache
from livingdb.trees.scan import Span

__all__ = ["MODEL", "calibrate", "cost_model"]

MODEL = "cost model"
"""The fact that holds it."""

_ROWS = 16_384
_LEAVES = (256, 4096)
_COLUMNS = (1, 4)
_TIMES = 2
_GETS, _RANGES = 500, 64
_PROBES, _PROBE_BYTES = 8, 64 << 10


def cost_model(graph: Graph) -> CostModel:
    """The model of a database, measured when it is first asked for.

    In a database that is only read it is measured and not kept.
    """
    known = graph.catalog.meta(MODEL)
    found = None if known is None else CostModel.from_text(known)
    if found is not None:
        return found
    made = calibrate(graph)
    if not graph.is_read_only:
        with graph.catalog.write() as connection:
            graph.catalog.set_meta(connection, MODEL, made.to_text())
    return made


def calibrate(graph: Graph) -> CostModel:
    """Measure everything."""
    labs = [_Lab(columns, rows) for columns in _COLUMNS for rows in _LEAVES]
    leaf, column, byte = _solve([(*lab.size, lab.scan()) for lab in labs])
    made = _solve([(*lab.size_with_key, lab.build()) for lab in labs])
    overlay_leaf, overlay_byte = _solve([(lab.leaves, lab.bytes, lab.overlay()) for lab in labs])
    fetch, fetch_byte = _store_costs(graph)
    return CostModel(
        seek=labs[-1].get(),
        scan=max(0.0, labs[0].range() - leaf - column - _LEAVES[0] * labs[0].bytes / _ROWS * byte),
        leaf=leaf,
        column=column,
        byte=byte,
        leaf_write=made[0],
        column_write=made[1],
        byte_write=made[2],
        overlay_leaf=overlay_leaf,
        overlay_byte=overlay_byte,
        fetch=fetch,
        fetch_byte=fetch_byte,
    )


class _Lab:
    """A tree of made-up rows: some columns of numbers and text beside the key."""

    def __init__(self, columns: int, target_rows: int):
        names = {"id": "bigint"} | {f"c{n}": _TYPES[n % len(_TYPES)] for n in range(columns)}
        schema = TableSchema.of(names, "id")
        self._store = MemoryStore()
        grouping = Layout(target_rows=target_rows).grouping(schema)
        self._forest = Forest(self._store, grouping, Cache(1))
        self._positions = list(range(1, columns + 1))
        self._columns = _made_up_rows(schema)
        self._root = self._forest.build([self._columns], self._keep)
        leaves = _ROWS / target_rows
        key_bytes, *sizes = (column.nbytes for column in self._columns)
        self.leaves, self.bytes = leaves, sum(sizes)
        self.size = (leaves, leaves * columns, self.bytes)
        self.size_with_key = (leaves, leaves * (columns + 1), self.bytes + key_bytes)

    def _keep(self, chunk: StoredChunk) -> None:
        self._store.put([chunk])

    def build(self) -> float:
        """What the tree takes to be made."""
        return _least(lambda: self._forest.build([self._columns], _let_go))

    def scan(self, changes: Delta | None = None) -> float:
        """What all rows take to be read."""
        forest, root = self._forest, self._root
        return _least(lambda: list(forest.scan(root, self._positions, changes=changes)))

    def overlay(self) -> float:
        """What a change in every leaf adds to that."""
        step = int(_ROWS / self.leaves)
        rows = pa.array(np.arange(0, _ROWS, step))
        taken = tuple(column.take(rows) for column in self._columns)
        shape = self._forest.shape
        ops = np.full(len(rows), UPSERT, np.int8)
        changes = Delta(shape, shape.keys(taken), ops, taken, (None,) * len(taken))
        return max(0.0, self.scan(changes) - self.scan())

    def range(self) -> float:
        """What one row takes to be read as a range."""
        keys = self._forest.shape.keys([self._columns[0]])[:: _ROWS // _RANGES]
        forest = Forest(self._store, self._forest.grouping)

        def read() -> None:
            for key in keys:
                list(forest.scan(self._root, self._positions, Span(key, key, False, False)))

        read()
        return _least(read) / len(keys)

    def get(self) -> float:
        """What a row takes to be found in a leaf that is at hand."""
        forest = Forest(self._store, self._forest.grouping)
        keys = forest.shape.keys([self._columns[0]])[:: _ROWS // _GETS]
        positions = list(range(len(self._columns)))

        def find() -> None:
            for key in keys:
                forest.get(self._root, key, positions)

        find()
        return _least(find) / len(keys)


_TYPES = ("string", "bigint", "double", "int")


def _made_up_rows(schema: TableSchema) -> list[pa.Array]:
    """Rows that compress as much as those of many tables do."""
    numbers = np.arange(_ROWS, dtype=np.int64)
    mixed = (numbers * 2_654_435_761) % 10_007
    made: list[pa.Array] = []
    for place, column in enumerate(schema.stored_columns):
        values = numbers if place == 0 else mixed % (97 * place)
        if pa.types.is_string(column.type):
            made.append(pa.array([f"value {number}" for number in values.tolist()]))
        else:
            made.append(pa.array(values).cast(column.type))
    return made


def _least(work: Callable[[], object]) -> float:
    """The least time that the processor spends on something, of some times."""
    found = []
    for _ in range(_TIMES):
        began = clock.process_time()
        work()
        found.append(clock.process_time() - began)
    return min(found)


def _let_go(_chunk: StoredChunk) -> None:
    """Where chunks go that nobody needs."""


def _solve(measured: Sequence[tuple[float, ...]]) -> list[float]:
    """The constants that explain what was measured best, relatively; none is less than nothing."""
    table = np.array(measured)
    sizes, seconds = table[:, :-1], np.maximum(table[:, -1], 1e-9)
    scaled = sizes / seconds[:, None]
    kept = list(range(sizes.shape[1]))
    found = np.zeros(sizes.shape[1])
    while kept:
        part, *_ = np.linalg.lstsq(scaled[:, kept], np.ones(len(seconds)), rcond=None)
        if (part >= 0).all():
            found[kept] = part
            break
        kept.pop(int(np.argmin(part * sizes[:, kept].mean(axis=0))))
    return [float(value) for value in found]


def _store_costs(graph: Graph) -> tuple[float, float]:
    """What a chunk, and each byte of one, takes to come from the store; by the clock."""
    files = graph.place.files
    names = list(graph.catalog.packs.names())
    if not names:
        return 0.0, 0.0
    view = files.view(f"packs/{names[-1]}")
    size = len(view)

    def fetch(length: int) -> float:
        length = min(length, size)
        spots = np.linspace(0, size - length, _PROBES).astype(int)
        began = clock.perf_counter()
        for spot in spots.tolist():
            bytes(view[spot : spot + length])
        return (clock.perf_counter() - began) / len(spots)

    fetch(_PROBE_BYTES)  # what nobody has read for long comes from the disk
    small, large = fetch(64), fetch(_PROBE_BYTES)
    return small, max(0.0, large - small) / _PROBE_BYTES
