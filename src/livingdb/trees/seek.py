"""Point reads: rows by key, and the few rows of short ranges of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import taken_rows
from livingdb.trees.keys import KeyArray, align, search
from livingdb.trees.nodes import Entries, Leaf, Reader, as_batch
from livingdb.trees.scan import Span, leaf_rows, most_leaves, read_leaves
from livingdb.trees.workers import in_order

__all__ = ["contains", "places_of_spans", "seek", "seek_many", "seek_spans"]

_FEW = 4
_MANY_LEAVES, _AHEAD_GROUPS = 8, 2


def seek(reader: Reader, root: Address, key: Any) -> tuple[Leaf, int] | None:
    """The leaf (or piece) and the row that hold the encoded key; None if no row does."""
    node = reader.read(root)
    while isinstance(node, Entries):
        child = int(node.keys.searchsorted(key))
        if child == len(node):
            return None
        node = reader.read(node.addresses[child])
    keys = node.keys
    row = int(keys.searchsorted(key))
    return (node, row) if row < len(keys) and keys[row] == key else None


def seek_many(
    reader: Reader,
    root: Address,
    keys: KeyArray,
    positions: Sequence[int] | None = None,
    keep: bool = True,
) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
    """Which of the sorted keys are there, and the columns of those that are, in key order."""
    shape = reader.shape
    wanted = tuple(range(len(shape.types)) if positions is None else positions)
    found = np.zeros(len(keys), bool)
    pieces: list[pa.RecordBatch] = []
    owners = _owners(reader, root, keys, 0)
    nodes = _leaves(reader, [owner for owner, *_ in owners], wanted, keep)
    for (address, start, stop), node in zip(owners, nodes, strict=True):
        leaf_keys, rows = _leaf_batch(reader, address, wanted, keep, node)
        hit, at = _match(leaf_keys, keys[start:stop])
        found[start:stop] = hit
        _take(rows, at[hit], pieces)
    return found, _join(pieces, [shape.types[position] for position in wanted])


def _leaves(
    reader: Reader, addresses: Sequence[Address], positions: Sequence[int], keep: bool
) -> Iterable[Entries | Leaf | None]:
    """The leaves, decoded some ahead where many are not at hand; else None for those."""
    if len(addresses) < _MANY_LEAVES:
        return [None] * len(addresses)
    held = [reader.at_hand(address) for address in addresses]
    if held.count(None) < _MANY_LEAVES:
        return held
    needed = sorted({*range(reader.shape.key_count), *positions})
    size = most_leaves(len(needed))
    groups = [addresses[at : at + size] for at in range(0, len(addresses), size)]

    def fetch(group: Sequence[Address]) -> list[Entries | Leaf]:
        return read_leaves(reader, group, needed, keep)

    return chain.from_iterable(in_order(fetch, groups, ahead=_AHEAD_GROUPS))


def _leaf_batch(
    reader: Reader,
    address: Address,
    positions: tuple[int, ...],
    keep: bool = True,
    node: Entries | Leaf | None = None,
) -> tuple[KeyArray, pa.RecordBatch]:
    """As `leaf_rows`: keys and the columns asked for."""
    node = reader.read(address, keep) if node is None else node
    if isinstance(node, Leaf):
        return node.keys, node.batch(positions)
    keys, columns = leaf_rows(reader, address, positions, keep, node)
    return keys, as_batch(columns)


def _take(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], pieces: list[pa.RecordBatch]) -> None:
    """Add rows of a leaf: a few are quicker to point at than to copy."""
    if len(rows) <= _FEW:
        pieces += [batch.slice(place, 1) for place in rows.tolist()]
    else:
        pieces.append(pc.take_at(batch, taken_rows(rows)))


def _join(pieces: list[pa.RecordBatch], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of rows that were taken from leaves."""
    if not types:
        return []
    if not pieces:
        return [pa.nulls(0, each) for each in types]
    columns: list[pa.Array] = pa.concat_batches(pieces).columns
    return columns


def contains(reader: Reader, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
    """Which of the sorted keys are there; reads key columns only."""
    found = np.zeros(len(keys), bool)
    for address, start, stop in _owners(reader, root, keys, 0):
        node = reader.read(address)
        leaf_keys = node.keys if isinstance(node, Leaf) else leaf_rows(reader, address, [])[0]
        found[start:stop] = _match(leaf_keys, keys[start:stop])[0]
    return found


def seek_spans(
    reader: Reader, root: Address, spans: Sequence[Span], positions: Sequence[int], most: int
) -> list[pa.Array] | None:
    """Columns of the rows in ranges of keys, in key order; None if there are more than `most`.

    The ranges are in order, do not overlap and end before their upper bounds.
    """
    if len(spans) == 1:
        near = _seek_in_leaf(reader, root, spans[0])
        if near is not None:
            leaf, start, stop = near
            if stop - start > most:
                return None
            return [column.slice(start, stop - start) for column in leaf.columns(positions)]
    pieces: list[pa.RecordBatch] = []
    left, places = most, tuple(positions)
    for address, wanted in _span_leaves(reader, root, spans):
        keys, rows = _leaf_batch(reader, address, places)
        starts, stops = places_of_spans(keys, wanted)
        counts = stops - starts
        total = int(counts.sum())
        left -= total
        if left < 0:
            return None
        if total:
            firsts = np.repeat(stops - np.cumsum(counts), counts)
            _take(rows, firsts + np.arange(total), pieces)
    return _join(pieces, [reader.shape.types[position] for position in positions])


def _seek_in_leaf(reader: Reader, root: Address, span: Span) -> tuple[Leaf, int, int] | None:
    """The leaf that all rows of a range lie in, and where; None if there are several."""
    node = reader.read(root)
    while True:
        keys = node.keys
        if not len(keys):
            return None
        start = 0 if span.lower is None else int(keys.searchsorted(span.lower))
        stop = len(keys) if span.upper is None else int(keys.searchsorted(span.upper))
        if isinstance(node, Leaf):
            return node, start, max(start, stop)
        last = len(keys) - 1
        if start < min(stop, last) or node.level == 0:
            return None
        node = reader.read(node.addresses[min(start, last)])


def _span_leaves(
    reader: Reader, address: Address, spans: Sequence[Span]
) -> Iterator[tuple[Address, Sequence[Span]]]:
    """The leaves that ranges reach into, in order, and the ranges that do; read as asked for."""
    node = reader.read(address)
    if isinstance(node, Leaf) or node.level == 0:
        yield address, spans
        return
    starts, stops = places_of_spans(node.keys, spans)
    stops = np.minimum(stops, len(node) - 1)
    child = 0
    for _ in range(len(node)):
        following = int(np.searchsorted(stops, child))
        if following == len(spans):
            return
        child = max(child, int(starts[following]))
        if child == len(node):
            return
        inside = spans[following : int(np.searchsorted(starts, child, side="right"))]
        yield from _span_leaves(reader, node.addresses[child], inside)
        child += 1


def places_of_spans(
    keys: KeyArray, spans: Sequence[Span]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where ranges start and stop among sorted keys."""
    if not len(keys):
        nowhere = np.zeros(len(spans), np.int64)
        return nowhere, nowhere
    first, last = spans[0], spans[-1]
    lowers = spans[1:] if first.lower is None else spans
    uppers = spans[:-1] if last.upper is None else spans
    starts = search(keys, _bounds(keys, [span.lower for span in lowers]))
    stops = search(keys, _bounds(keys, [span.upper for span in uppers]))
    if first.lower is None:
        starts = np.append(0, starts)
    if last.upper is None:
        stops = np.append(stops, len(keys))
    return starts, np.maximum(starts, stops)


def _bounds(keys: KeyArray, bounds: list[Any]) -> KeyArray:
    """Bounds of ranges as keys are held."""
    if keys.dtype == np.uint64:
        return np.array(bounds, np.uint64)
    if keys.dtype != object:
        return np.array(bounds) if bounds else np.empty(0, "S1")
    found = np.empty(len(bounds), object)
    found[:] = [bytes(bound) for bound in bounds]
    return found


def _match(
    leaf_keys: KeyArray, keys: KeyArray
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    if leaf_keys.dtype == np.uint64 and len(leaf_keys):
        at = leaf_keys.searchsorted(keys)
        return leaf_keys.take(at, mode="clip") == keys, at
    at = search(leaf_keys, keys)
    if not len(leaf_keys):
        return np.zeros(len(keys), bool), at
    leaf_keys, keys = align(leaf_keys, keys)
    return (at < len(leaf_keys)) & (leaf_keys[np.minimum(at, len(leaf_keys) - 1)] == keys), at


def _owners(
    reader: Reader, address: Address, keys: KeyArray, offset: int
) -> list[tuple[Address, int, int]]:
    """The leaves that could hold the keys: address, first and last-plus-one key."""
    node = reader.read(address)
    if isinstance(node, Leaf) or node.level == 0:
        return [(address, offset, offset + len(keys))] if len(keys) else []
    owners = search(node.keys, keys)
    inside = int(np.searchsorted(owners, len(node)))
    if not inside:
        return []
    firsts = np.flatnonzero(owners[1:inside] != owners[: inside - 1]) + 1
    starts = [0, *firsts.tolist()]
    result: list[tuple[Address, int, int]] = []
    for start, stop in zip(starts, [*starts[1:], inside], strict=True):
        below = node.addresses[int(owners[start])]
        if node.level == 1:
            result.append((below, offset + start, offset + stop))
        else:
            result += _owners(reader, below, keys[start:stop], offset + start)
    return result
