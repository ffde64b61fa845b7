"""Leaves with large values, stored in pieces.

The rows of a leaf are decided by keys alone.  Where their values are large, the leaf becomes
a small node over pieces.  A piece ends after a row whose key hash falls under the share its
own bytes have in a piece: a change to one row moves no boundary but its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.canonical import Column, from_arrow
from livingdb.chunks.chunk import compress_draft
from livingdb.chunks.store import StoredChunk
from livingdb.chunks.types import flat_width_bytes
from livingdb.trees.keys import KeyArray, hash_keys
from livingdb.trees.nodes import Entries, Entry, draft_leaf, encode_node
from livingdb.trees.shape import Shape

__all__ = ["encode_pieces", "needs_pieces", "row_bytes"]

_SALT = 1 << 16
_UNIT = 2.0**32

Counts = npt.NDArray[np.int64]


def needs_pieces(shape: Shape, columns: Sequence[pa.Array]) -> bool:
    """Whether the values of these rows are too large for one chunk."""
    upper = sum(_at_most_bytes(column) for column in columns)
    if upper <= shape.piece_bytes or len(columns[0]) == 1:
        return False
    return sum(int(row_bytes(column).sum()) for column in columns) > shape.piece_bytes


def _at_most_bytes(array: pa.Array) -> int:
    """No fewer bytes than `row_bytes` adds up to, found without looking at values."""
    width = flat_width_bytes(array.type)
    if width is not None:
        return len(array) * width
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
        return int(offsets[-1]) - int(offsets[0]) + 4 * len(array)
    return 8 * int(array.nbytes) + len(array)  # a boolean weighs a byte and takes a bit


def row_bytes(array: pa.Array) -> Counts:
    """Bytes each row's value weighs: a function of the values, not of how they lie in memory."""
    return _weigh(from_arrow(array))


def _weigh(column: Column) -> Counts:
    if column.offsets is None:
        if column.children:
            weights: Counts = np.sum([_weigh(child) for child in column.children], axis=0)
            return weights
        assert column.data is not None
        width = (
            1
            if column.data.dtype == np.uint8 and column.data.ndim == 1
            else (column.data.nbytes // max(column.rows, 1))
        )
        return np.full(column.rows, width, np.int64)
    lengths = np.diff(column.offsets).astype(np.int64)
    if column.data is not None:
        return lengths + 4
    inner = np.zeros(int(column.offsets[-1]) + 1, np.int64)
    for child in column.children:
        inner[1:] += _weigh(child)
    sums: Counts = np.cumsum(inner)
    return sums[column.offsets[1:]] - sums[column.offsets[:-1]] + 4


def encode_pieces(
    shape: Shape, columns: Sequence[pa.Array], keys: KeyArray
) -> tuple[Entry, list[StoredChunk]]:
    """The leaf of these rows as a node over its pieces."""
    weights: Counts = np.sum([row_bytes(column) for column in columns], axis=0, dtype=np.int64)
    entries: list[Entry] = []
    chunks: list[StoredChunk] = []
    start = 0
    for end in _piece_ends(shape, keys, weights):
        part = [column.slice(start, end - start) for column in columns]
        entry, draft = draft_leaf(shape, part, keys[end - 1])
        entries.append(entry)
        chunks.append(compress_draft(draft))
        start = end
    entry, stored = encode_node(shape, Entries.of(shape, entries), 0)
    return entry, [*chunks, stored]


def _piece_ends(shape: Shape, keys: KeyArray, weights: Counts) -> list[int]:
    share = np.minimum(weights / (shape.piece_bytes / 4), 1.0) * _UNIT
    closes = (hash_keys(keys, _SALT) >> np.uint64(32)).astype(np.float64) < share
    sums = np.cumsum(weights)
    natural = np.flatnonzero(closes) + 1
    ends: list[int] = []
    start = 0
    while start < len(keys):
        before = int(sums[start - 1]) if start else 0
        capped = int(np.searchsorted(sums, before + shape.piece_bytes)) + 1
        following = natural[np.searchsorted(natural, start, side="right") :]
        end = min(capped, int(following[0]) if len(following) else len(keys), len(keys))
        ends.append(end)
        start = end
    return ends
