"""Diff of two trees of one shape: ordered, and as cheap as the difference is small.

Equal subtrees have equal addresses and are skipped level by level.  Where two leaves have
the same keys, only the columns whose digests differ are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import empty, taken_rows
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.decode_ahead import decode_ahead
from livingdb.trees.compare import choose, differs, gather
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.keys import KeyArray, align, search
from livingdb.trees.nodes import Entries, Entry, Leaf, Reader, node_entry
from livingdb.trees.scan import ALL, Span, leaf_rows, most_leaves
from livingdb.trees.shape import Shape
from livingdb.trees.workers import in_order
from livingdb.trees.zones import zone_of

__all__ = [
    "DELETED",
    "INSERTED",
    "UPDATED",
    "DiffBatch",
    "Region",
    "diff",
    "differing_regions",
    "region_diff",
    "to_delta",
]

INSERTED, UPDATED, DELETED = 0, 1, 2

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DiffBatch:
    """Rows that differ, in key order: what happened, and the rows before and after.

    `before` is null for an inserted row and `after` for a deleted one, in every column.
    """

    keys: KeyArray
    kinds: npt.NDArray[np.int8]
    before: list[pa.Array]
    after: list[pa.Array]

    def select(self, rows: Positions) -> DiffBatch:
        """Some of the rows."""
        taken = taken_rows(rows)
        return DiffBatch(
            self.keys[rows],
            self.kinds[rows],
            [column.take(taken) for column in self.before],
            [column.take(taken) for column in self.after],
        )

    def key_columns(self, count: int) -> list[pa.Array]:
        """The key columns: of a deleted row, from before."""
        gone = self.kinds == DELETED
        return [choose(self.after[at], self.before[at], gone) for at in range(count)]


@dataclass(frozen=True)
class Region:
    """Leaves of either tree between two boundaries that both have.

    All keys of the region are greater than `above` and at most `last`; None is no bound,
    as at the end of either tree, where more rows would have gone into the same leaf.
    """

    before: Entries
    after: Entries
    above: Any
    last: Any

    def meets(self, span: Span) -> bool:
        """Whether a key of the range can be in the region."""
        if span.upper is not None and self.above is not None and self.above >= span.upper:
            return False
        return span.lower is None or self.last is None or self.last >= span.lower


def diff(reader: Reader, before: Address, after: Address, span: Span = ALL) -> Iterator[DiffBatch]:
    """The rows that differ between two roots, within a range of keys."""
    regions = _region_groups(reader, before, after, span)
    for group in in_order(partial(_fetch, reader), regions, ahead=2):
        for pair in group:
            batch = _compare_pair(reader, pair)
            if batch is not None and span.is_bounded:
                start, stop = span.rows(batch.keys)
                batch = batch.select(np.arange(start, stop)) if stop > start else None
            if batch is not None:
                yield batch


@dataclass(frozen=True)
class _Pair:
    """A region with its leaves; which columns differ, where each side is one plain leaf."""

    region: Region
    before: list[Entries | Leaf]
    after: list[Entries | Leaf]
    changed: list[int] | None


def _region_groups(
    reader: Reader, before: Address, after: Address, span: Span
) -> Iterator[list[Region]]:
    regions = (region for region in differing_regions(reader, before, after) if region.meets(span))
    most = max(most_leaves(len(reader.shape.types)) // 2, 1)
    while group := list(itertools.islice(regions, most)):
        yield group


def _fetch(reader: Reader, regions: list[Region]) -> list[_Pair]:
    """The leaves of regions, with the columns that are to be compared or told decoded."""
    pairs = [_pair(reader, region) for region in regions]
    every = tuple(range(len(reader.shape.types)))
    by_columns: dict[tuple[int, ...], list[Chunk]] = {}
    for pair in pairs:
        changed = every if pair.changed is None else tuple(pair.changed)
        for columns, nodes in ((every, pair.before), (changed, pair.after)):
            fresh = [node.chunk for node in nodes if isinstance(node, Leaf) and node.is_unread]
            by_columns.setdefault(columns, []).extend(fresh)
    for columns, chunks in by_columns.items():
        decode_ahead(chunks, columns)
    return pairs


def _pair(reader: Reader, region: Region) -> _Pair:
    olds = [reader.read(address, keep=False) for address in region.before.addresses]
    news = [reader.read(address, keep=False) for address in region.after.addresses]
    return _Pair(region, olds, news, _changed_columns(reader, olds, news))


def _changed_columns(
    reader: Reader, olds: list[Entries | Leaf], news: list[Entries | Leaf]
) -> list[int] | None:
    """Which columns of two leaves with the same keys differ; None if they are not such."""
    if len(olds) != 1 or len(news) != 1:
        return None
    (old,), (new,) = olds, news
    if not isinstance(old, Leaf) or not isinstance(new, Leaf) or old.rows != new.rows:
        return None
    pairs = zip(old.chunk.digests, new.chunk.digests, strict=True)
    changed = [position for position, (one, other) in enumerate(pairs) if one != other]
    return changed if not changed or changed[0] >= reader.shape.key_count else None


def region_diff(reader: Reader, region: Region) -> DiffBatch | None:
    """The rows that differ within a region; None if none do."""
    return _compare_pair(reader, _pair(reader, region))


def to_delta(shape: Shape, batch: DiffBatch) -> Delta:
    """The changes that turn the first tree into the second."""
    ops = np.where(batch.kinds == DELETED, DELETE, UPSERT).astype(np.int8)
    columns = [*batch.key_columns(shape.key_count), *batch.after[shape.key_count :]]
    return Delta(shape, batch.keys, ops, tuple(columns), (None,) * len(columns))


# --- which leaves ---------------------------------------------------------------------------


def differing_regions(reader: Reader, before: Address, after: Address) -> Iterator[Region]:
    """The leaves that only one of the trees has, in key order and grouped."""
    if before == after:
        return
    old, new = _as_entries(reader, before), _as_entries(reader, after)
    ends = (old.keys, new.keys)
    while old.level > max(new.level, 1):
        old = _children(reader, old)
    while new.level > max(old.level, 1):
        new = _children(reader, new)
    shared: list[KeyArray] = []
    while True:
        old, new, common = _without_shared(old, new)
        shared.append(common)
        if old.level <= 1:
            break
        old, new = _children(reader, old), _children(reader, new)
    yield from _group(old, new, ends, shared)


def _as_entries(reader: Reader, root: Address) -> Entries:
    """A root as the one entry of a node above it; an empty tree as no entry."""
    node = reader.read(root)
    if not len(node.keys):
        return Entries.concat(reader.shape, [])

    def column(position: int) -> pa.Array:
        return Entries.of(reader.shape, [_entry(node, root)]).column(position)

    level = 0 if isinstance(node, Leaf) else node.level
    entries = Entries(reader.shape, 1, column, node.keys[-1:], level + 1)
    entries.addresses = [root]
    return entries


def _entry(node: Entries | Leaf, address: Address) -> Entry:
    if isinstance(node, Entries):
        return node_entry(node, address)
    zones = [zone_of(node.column(position)) for position in node.shape.zoned_positions]
    return Entry(node.keys[-1], address, node.rows, zones)


def _children(reader: Reader, entries: Entries) -> Entries:
    """The entries one level down."""
    parts = []
    for address in entries.addresses:
        node = reader.read(address)
        assert isinstance(node, Entries)
        parts.append(node)
    return Entries.concat(reader.shape, parts).at_level(entries.level - 1)


def _without_shared(old: Entries, new: Entries) -> tuple[Entries, Entries, KeyArray]:
    """Both sides without the nodes they share, and the last keys of those."""
    shared = set(old.addresses) & set(new.addresses)
    if not shared:
        return old, new, old.keys[:0]
    held = np.array([address in shared for address in old.addresses])
    fresh = np.array([address not in shared for address in new.addresses])
    kept = old.select(np.flatnonzero(~held))
    return kept, new.select(np.flatnonzero(fresh)), old.keys[held]


def _group(
    old: Entries, new: Entries, ends: tuple[KeyArray, KeyArray], shared: list[KeyArray]
) -> Iterator[Region]:
    """Runs of leaves between boundaries of both trees.

    Boundaries of both are the ends of leaves that end at the same key, and the edges of
    every shared node, known by its last key.  The end of a tree is no boundary of the other
    one: what ends there was not closed by its own rows.
    """
    old_keys, new_keys = align(old.keys, new.keys)
    edges = np.intersect1d(old_keys, new_keys)
    edges = edges[_is_end(edges, ends[0]) == _is_end(edges, ends[1])]
    for keys in shared:
        edges = np.concatenate(align(edges, keys))
    edges = np.sort(edges)
    old_ends = np.append(search(old_keys, edges, "right"), len(old)).tolist()
    new_ends = np.append(search(new_keys, edges, "right"), len(new)).tolist()
    old_at = new_at = 0
    above = None
    for number, (old_end, new_end) in enumerate(zip(old_ends, new_ends, strict=True)):
        if old_end > old_at or new_end > new_at:
            before, after = old.slice(old_at, old_end), new.slice(new_at, new_end)
            lasts = [*before.keys[-1:], *after.keys[-1:]]
            at_end = _ends_with(before, ends[0]) or _ends_with(after, ends[1])
            yield Region(before, after, above, None if at_end else max(lasts))
        above = edges[number] if number < len(edges) else None
        old_at, new_at = old_end, new_end


def _is_end(edges: KeyArray, end: KeyArray) -> npt.NDArray[np.bool_]:
    return np.asarray(edges == end[0]) if len(end) else np.zeros(len(edges), bool)


def _ends_with(leaves: Entries, end: KeyArray) -> bool:
    return len(leaves) > 0 and bool(leaves.keys[-1] == end[0])


# --- which rows -----------------------------------------------------------------------------


def _compare_pair(reader: Reader, pair: _Pair) -> DiffBatch | None:
    if pair.changed is not None:
        (old,), (new,) = pair.before, pair.after
        assert isinstance(old, Leaf)
        assert isinstance(new, Leaf)
        return _compare_same_keys(old, new, pair.changed)
    old_keys, old_columns = _rows(reader, pair.region.before, pair.before)
    new_keys, new_columns = _rows(reader, pair.region.after, pair.after)
    return _compare(old_keys, old_columns, new_keys, new_columns)


def _compare_same_keys(old: Leaf, new: Leaf, changed: list[int]) -> DiffBatch | None:
    """Compare two leaves with the same keys in the columns whose digests differ."""
    mask = np.zeros(old.rows, bool)
    for position in changed:
        mask |= differs(old.column(position), new.column(position))
    if not mask.any():
        return None
    rows = np.flatnonzero(mask)
    before, after = [], []
    for position in range(len(old.shape.types)):
        before.append(gather(old.column(position), rows))
        after.append(gather(new.column(position), rows) if position in changed else before[-1])
    kinds = np.full(len(rows), UPDATED, np.int8)
    keys = old.shape.keys(before)
    return DiffBatch(keys, kinds, before, after)


def _rows(
    reader: Reader, leaves: Entries, nodes: list[Entries | Leaf]
) -> tuple[KeyArray, list[pa.Array]]:
    shape = reader.shape
    parts = [
        leaf_rows(reader, address, keep=False, node=node)
        for address, node in zip(leaves.addresses, nodes, strict=True)
    ]
    parts = [part for part in parts if len(part[0])]
    if not parts:
        columns = [empty(data_type) for data_type in shape.types]
        return shape.keys(columns), columns
    keys = parts[0][0]
    for more, _ in parts[1:]:
        keys = np.concatenate(align(keys, more))
    if len(parts) == 1:
        return keys, parts[0][1]
    return keys, [pa.concat_arrays(list(c)) for c in zip(*(p[1] for p in parts), strict=True)]


def _compare(
    old_keys: KeyArray,
    old: list[pa.Array],
    new_keys: KeyArray,
    new: list[pa.Array],
) -> DiffBatch | None:
    old_keys, new_keys = align(old_keys, new_keys)
    at = search(old_keys, new_keys)
    if len(old_keys):
        hit = (at < len(old_keys)) & (old_keys[np.minimum(at, len(old_keys) - 1)] == new_keys)
    else:
        hit = np.zeros(len(new_keys), bool)
    kept = np.zeros(len(old_keys), bool)
    kept[at[hit]] = True
    same_old, same_new = at[hit], np.flatnonzero(hit)
    unequal = _differing_rows(old, same_old, new, same_new)
    old_rows = np.concatenate(
        [np.flatnonzero(~kept), same_old[unequal], _absent_positions((~hit).sum())]
    )
    new_rows = np.concatenate(
        [_absent_positions((~kept).sum()), same_new[unequal], np.flatnonzero(~hit)]
    )
    if not len(old_rows):
        return None
    keys = np.concatenate([old_keys[~kept], new_keys[same_new[unequal]], new_keys[~hit]])
    order = np.argsort(keys, kind="stable")
    old_rows, new_rows = old_rows[order], new_rows[order]
    kinds = np.where(old_rows < 0, INSERTED, np.where(new_rows < 0, DELETED, UPDATED))
    before, after = _take(old, old_rows), _take(new, new_rows)
    return DiffBatch(keys[order], kinds.astype(np.int8), before, after)


def _differing_rows(
    old: list[pa.Array], old_rows: Positions, new: list[pa.Array], new_rows: Positions
) -> npt.NDArray[np.bool_]:
    unequal = np.zeros(len(old_rows), bool)
    if len(old_rows):
        old_taken, new_taken = taken_rows(old_rows), taken_rows(new_rows)
        for one, other in zip(old, new, strict=True):
            unequal |= differs(one.take(old_taken), other.take(new_taken))
    return unequal


def _absent_positions(count: int) -> Positions:
    return np.full(int(count), -1, np.int64)


def _take(columns: list[pa.Array], rows: Positions) -> list[pa.Array]:
    """Rows of the columns; null where the position is negative."""
    positions = taken_rows(rows, rows < 0)
    return [column.take(positions) for column in columns]
