"""Builds trees: from a stream of sorted rows, and from parts of an older tree.

A `Builder` takes rows and whole runs of siblings, in key order, closes chunks where the
splitter says, and grows the levels above.  Memory is bounded by the open chunks and by what
the caller hands in at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import numpy as np
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import empty
from livingdb.chunks.chunk import Draft, compress_drafts, encode_chunk
from livingdb.chunks.store import StoredChunk
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.trees.keys import KeyArray, align
from livingdb.trees.nodes import Entries, Entry, draft_leaf, encode_node
from livingdb.trees.pieces import encode_pieces, needs_pieces
from livingdb.trees.shape import Shape
from livingdb.trees.workers import pool

__all__ = ["Builder", "Sink", "build", "check_sorted"]

Sink = Callable[[StoredChunk], None]
_GROUP_LEAVES = 16
_MOST_WAITING = 4
_MANY_SIBLINGS = 4096


class Builder:
    """Grows a tree from left to right; new chunks go to `sink`."""

    def __init__(self, shape: Shape, sink: Sink):
        self.shape = shape
        self.sink = sink
        self._columns: list[list[pa.Array]] = []
        self._keys: list[KeyArray] = []
        self._drafts: list[Draft] = []  # leaves not yet compressed
        self._waiting: deque[Future[list[StoredChunk]]] = deque()
        self._leaves: list[Entry] = []  # leaves not yet among the open siblings
        self._open: list[list[Entries]] = [[]]  # per level above 0: siblings not yet closed
        self._closed: list[int] = [0, 0]  # per level: nodes closed so far

    # --- taking in ---------------------------------------------------------------------------

    def add_rows(self, columns: Sequence[pa.Array], keys: KeyArray) -> None:
        """Rows that follow all before, sorted."""
        if len(keys):
            self._columns.append(list(columns))
            self._keys.append(keys)

    def add_entries(self, level: int, entries: Entries) -> None:
        """Whole nodes of the level below `level`, where `is_aligned(level)` holds."""
        self._grow(level)
        self._flush_leaves()
        if len(entries):
            self._open[level - 1].append(entries)

    def is_aligned(self, level: int) -> bool:
        """Whether nothing is open below the level."""
        if self._keys or (level > 1 and self._leaves):
            return False
        return not any(self._open[: level - 1])

    def _grow(self, level: int) -> None:
        while len(self._open) < level:
            self._open.append([])
            self._closed.append(0)

    # --- closing -----------------------------------------------------------------------------

    def close_leaves(self, final: bool = False) -> None:
        """Close what leaves can be closed among the rows so far."""
        if not self._keys:
            return
        keys = self._keys[0]
        for more in self._keys[1:]:
            keys = np.concatenate(align(keys, more))
        start = 0
        for end in self.shape.splitter.ends(keys, 0, final).tolist():
            self._leaf(self._rows(start, end), keys[start:end])
            start = end
        self._columns = [self._rows(start, len(keys))] if start < len(keys) else []
        self._keys = [keys[start:]] if start < len(keys) else []

    def _rows(self, start: int, stop: int) -> list[pa.Array]:
        """The columns of a run of the rows not yet in leaves, copied only across batches."""
        parts: list[list[pa.Array]] = []
        before = 0
        for columns in self._columns:
            after = before + len(columns[0])
            first, last = max(start, before), min(stop, after)
            if first < last:
                parts.append([column.slice(first - before, last - first) for column in columns])
            before = after
        if len(parts) == 1:
            return parts[0]
        return [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]

    def _leaf(self, columns: list[pa.Array], keys: KeyArray) -> None:
        """Take in one closed leaf; it is compressed with its neighbours, on another thread."""
        if needs_pieces(self.shape, columns):
            entry, chunks = encode_pieces(self.shape, columns, keys)
            for chunk in chunks:
                self.sink(chunk)
        else:
            entry, draft = draft_leaf(self.shape, columns, keys[-1])
            self._drafts.append(draft)
            if len(self._drafts) >= _GROUP_LEAVES:
                self._waiting.append(pool().submit(compress_drafts, self._drafts))
                self._drafts = []
        self._leaves.append(entry)
        while len(self._waiting) > _MOST_WAITING:
            self._write(self._waiting.popleft().result())

    def _write(self, chunks: Iterable[StoredChunk]) -> None:
        for chunk in chunks:
            self.sink(chunk)

    def _flush_leaves(self) -> None:
        """Put the leaves so far among the open siblings."""
        while self._waiting:
            self._write(self._waiting.popleft().result())
        if self._leaves:
            self._closed[0] += len(self._leaves)
            self._open[0].append(Entries.of(self.shape, self._leaves))
            self._leaves = []

    def close_nodes(self, level: int, final: bool = False) -> None:
        """Close what nodes of the level can be closed among the siblings so far."""
        if level == 1:
            self._flush_leaves()
        self._grow(level + 1)
        if not self._open[level - 1]:
            return
        siblings = Entries.concat(self.shape, self._open[level - 1])
        ends = self.shape.splitter.ends(siblings.keys, level, final)
        if not len(ends):
            return
        start = 0
        closed = []
        for end in ends.tolist():
            entry, stored = encode_node(self.shape, siblings.slice(start, end), level)
            self.sink(stored)
            closed.append(entry)
            start = end
        rest = siblings.slice(start, len(siblings))
        self._open[level - 1] = [rest] if len(rest) else []
        self._closed[level] += len(closed)
        if closed:
            self._open[level].append(Entries.of(self.shape, closed))

    def close_full(self) -> None:
        """Close leaves, and nodes of every level that have gathered enough siblings."""
        self.close_leaves()
        level = 1
        while level <= len(self._open):
            gathered = sum(len(part) for part in self._open[level - 1])
            gathered += len(self._leaves) if level == 1 else 0
            if gathered < _MANY_SIBLINGS:
                break
            self.close_nodes(level)
            level += 1

    def finish(self) -> Address:
        """Close everything; the root: the one node of the lowest level that has just one."""
        self.close_leaves(final=True)
        self._flush_leaves()
        self._write(compress_drafts(self._drafts))
        level = 1
        while True:
            siblings = self._open[level - 1]
            count = sum(len(part) for part in siblings)
            above = any(self._open[level:]) or any(self._closed[level:])
            if not above and count <= 1:
                return siblings[0].addresses[0] if count else self._empty()
            self.close_nodes(level, final=True)
            level += 1

    def _empty(self) -> Address:
        stored = encode_chunk([empty(data_type) for data_type in self.shape.types])
        self.sink(stored)
        return stored.address


def build(shape: Shape, batches: Iterable[Sequence[pa.Array]], sink: Sink) -> Address:
    """The root of the tree of these rows: batches of columns, sorted by key, each key once."""
    builder = Builder(shape, sink)
    last: KeyArray | None = None
    seen = 0
    for columns in batches:
        keys = shape.keys(columns)
        if not len(keys):
            continue
        check_sorted(shape, keys, last, seen, columns)
        last, seen = keys[-1:], seen + len(keys)
        builder.add_rows(columns, keys)
        builder.close_full()
    return builder.finish()


def check_sorted(
    shape: Shape,
    keys: KeyArray,
    before: KeyArray | None,
    offset: int,
    columns: Sequence[pa.Array],
) -> None:
    """`InvalidData` unless the keys rise, also from the key `before` them, without nulls they
    cannot have.
    """
    for position, name in enumerate(shape.names[: shape.key_count]):
        column = columns[position]
        if column.null_count and position not in shape.nullable:
            row = offset + pc.index(column.is_null(), pa.scalar(True)).as_py()
            raise InvalidData(f"row {row}: the key column {name!r} is null")
    previous, following = (keys[:-1], keys[1:])
    base = offset + 1
    if before is not None:
        joined = np.concatenate(align(before, keys))
        previous, following = joined[:-1], joined[1:]
        base = offset
    wrong = previous >= following
    if not wrong.any():
        return
    place = int(wrong.argmax())
    row = base + place
    local = row - offset
    values = tuple(columns[i][local].as_py() for i in range(shape.key_count))
    shown = dict(zip(shape.names, values, strict=False))
    if previous[place] == following[place]:
        raise DuplicateKey(f"row {row}: the key {shown} is in the data twice")
    raise InvalidData(f"row {row}: the rows are not sorted by key: {shown} comes too late")
