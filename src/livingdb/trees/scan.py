"""Scans: the rows of a key range, with only the columns and leaves that matter.

Leaves are fetched and decoded some ahead, in groups, on worker threads and come out in key
order; what they hold is verified as it is handed out.  Changes that lie over the tree are
applied leaf by leaf.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask
from livingdb.trees.delta import Delta
from livingdb.trees.keys import KeyArray, align
from livingdb.trees.nodes import Entries, Leaf, Reader
from livingdb.trees.workers import in_order

__all__ = [
    "ALL",
    "Span",
    "ZoneFilter",
    "count_rows",
    "kept_spans",
    "leaf_rows",
    "most_leaves",
    "read_leaves",
    "scan",
    "split",
]

Mask = npt.NDArray[np.bool_]

_GROUP_LEAVES, _GROUP_COLUMNS = 16, 256
_AHEAD_GROUPS = 3


@dataclass(frozen=True)
class Span:
    """A range of encoded keys; None is no bound."""

    lower: Any = None
    upper: Any = None
    lower_open: bool = False
    upper_open: bool = True

    def rows(self, keys: KeyArray) -> tuple[int, int]:
        """Where the range starts and stops among sorted keys."""
        start, stop = 0, len(keys)
        if self.lower is not None:
            side: Any = "right" if self.lower_open else "left"
            start = int(np.searchsorted(keys, self.lower, side=side))
        if self.upper is not None:
            side = "left" if self.upper_open else "right"
            stop = int(np.searchsorted(keys, self.upper, side=side))
        return start, max(start, stop)

    def children(self, keys: KeyArray) -> tuple[int, int]:
        """Which children, given by their last keys, can hold rows of the range."""
        start, stop = self.rows(keys)[0], len(keys)
        if self.upper is not None:
            stop = min(int(np.searchsorted(keys, self.upper)) + 1, stop)
        return start, max(start, stop)

    def intersection(self, other: Span) -> Span:
        """The keys in both ranges; `other` lies in no gap of this one."""
        lower, lower_open = self.lower, self.lower_open
        if other.lower is not None and (lower is None or other.lower > lower):
            lower, lower_open = other.lower, other.lower_open
        upper, upper_open = self.upper, self.upper_open
        if other.upper is not None and (upper is None or other.upper <= upper):
            upper, upper_open = other.upper, other.upper_open
        return Span(lower, upper, lower_open, upper_open)

    @property
    def is_bounded(self) -> bool:
        """Whether there is any bound."""
        return self.lower is not None or self.upper is not None

    @property
    def is_empty(self) -> bool:
        """Whether no key can lie in it."""
        if self.lower is None or self.upper is None:
            return False
        if self.lower == self.upper:
            return self.lower_open or self.upper_open
        return bool(self.lower > self.upper)


ALL = Span()


def _is_below(greatest: Any, least: Any) -> bool:
    return greatest is not None and least is not None and bool(greatest < least)


@dataclass(frozen=True)
class ZoneFilter:
    """Only rows whose column lies between two bounds, in the form of `zones.zone_value`.

    It prunes leaves that hold no such row; it does not filter rows.
    """

    position: int
    least: int | bytes | None = None
    greatest: int | bytes | None = None

    def meets(self, other: ZoneFilter) -> bool:
        """Whether a row can pass both, if both are of one column."""
        return not (_is_below(self.greatest, other.least) or _is_below(other.greatest, self.least))

    def keeps(self, entries: Entries) -> Mask:
        """Which children may hold such a row."""
        keep = np.ones(len(entries), bool)
        if self.position not in entries.shape.zoned_positions:
            return keep
        columns = entries.zone_columns(entries.shape.zoned_positions.index(self.position))
        if len(columns) != 3:
            return keep
        lows, highs, _ = columns
        known = as_mask(lows.is_valid())
        keep &= known
        if self.least is not None:
            below = pc.fill_null(pc.less(highs, pa.scalar(self.least, highs.type)), False)
            keep &= ~as_mask(below)
        if self.greatest is not None:
            above = pc.fill_null(pc.greater(lows, pa.scalar(self.greatest, lows.type)), False)
            keep &= ~as_mask(above)
        return keep


@dataclass(frozen=True)
class _Task:
    """One leaf to read, the changes that lie over it, and its keys: above one, up to one."""

    address: Address
    delta: Delta | None
    above: Any = None
    last: Any = None


def leaf_rows(
    reader: Reader,
    address: Address,
    positions: Sequence[int] | None = None,
    keep: bool = True,
    node: Entries | Leaf | None = None,
) -> tuple[KeyArray, list[pa.Array]]:
    """All rows of a leaf, its pieces joined: keys and the columns asked for."""
    node = reader.read(address, keep) if node is None else node
    if isinstance(node, Leaf):
        return node.keys, node.columns(positions)
    parts = [leaf_rows(reader, piece, positions, keep=False) for piece in node.addresses]
    keys = parts[0][0]
    for more, _ in parts[1:]:
        keys = np.concatenate(align(keys, more))
    return keys, [pa.concat_arrays(list(c)) for c in zip(*(p[1] for p in parts), strict=True)]


def most_leaves(columns: int) -> int:
    """How many leaves are fetched together, by how many of their columns are read."""
    return min(_GROUP_LEAVES, max(_GROUP_COLUMNS // max(columns, 1), 1))


def read_leaves(
    reader: Reader, addresses: Sequence[Address], positions: Sequence[int], keep: bool
) -> list[Entries | Leaf]:
    """Leaves whose columns are decoded, all of them in few calls; verified when asked for."""
    from livingdb.chunks.decode_ahead import decode_ahead

    nodes = [reader.read(address, keep) for address in addresses]
    unread = [node.chunk for node in nodes if isinstance(node, Leaf) and node.is_unread]
    decode_ahead(unread, positions)
    return nodes


def scan(
    reader: Reader,
    root: Address,
    positions: Sequence[int] | None = None,
    span: Span = ALL,
    filters: Sequence[ZoneFilter] = (),
    changes: Delta | None = None,
    keep: bool = False,
) -> Iterator[list[pa.Array]]:
    """Batches of the columns asked for, in key order.

    `filters` prune leaves and do not filter rows.  `changes` are seen as made.  `keep` puts
    leaves into the cache, which a scan of a whole table had better not.
    """
    if changes is not None and span.is_bounded:
        changes = changes.slice(*span.rows(changes.keys))
    if changes is not None and not len(changes):
        changes = None

    wanted = range(len(reader.shape.types)) if positions is None else positions
    needed = wanted
    if changes is not None or span.is_bounded:
        needed = sorted({*range(reader.shape.key_count), *wanted})

    def fetch(group: list[_Task]) -> list[tuple[_Task, Entries | Leaf]]:
        nodes = read_leaves(reader, [task.address for task in group], needed, keep)
        return list(zip(group, nodes, strict=True))

    groups = _task_groups(_tasks(reader, root, span, filters, changes), most_leaves(len(needed)))
    for group in in_order(fetch, groups, ahead=_AHEAD_GROUPS):
        for task, node in group:
            if isinstance(node, Entries) and task.delta is None:
                for piece in node.addresses[slice(*span.children(node.keys))]:
                    yield from _read(reader, reader.read(piece, keep), None, positions, span)
            else:
                yield from _read(reader, node, task, positions, span)


def _task_groups(tasks: Iterator[_Task], most: int) -> Iterator[list[_Task]]:
    """Runs of leaves to fetch together: few at first, so that a short read starts at once."""
    size = 1
    while group := list(itertools.islice(tasks, size)):
        yield group
        size = min(2 * size, most)


def _read(
    reader: Reader,
    node: Entries | Leaf,
    task: _Task | None,
    positions: Sequence[int] | None,
    span: Span,
) -> Iterator[list[pa.Array]]:
    """The rows of one leaf or piece, with the changes over it; nothing if there are none."""
    keys: KeyArray | None = None
    if task is not None and task.delta is not None:
        keys, columns = leaf_rows(reader, task.address, positions, node=node)
        keys, columns = task.delta.apply(keys, columns, positions)
    else:
        assert isinstance(node, Leaf)
        columns = node.columns(positions)
        keys = node.keys if span.is_bounded else None
    if span.is_bounded and keys is not None:
        start, stop = span.rows(keys)
        if (start, stop) != (0, len(keys)):
            columns = [column.slice(start, stop - start) for column in columns]
    if len(columns[0]):
        yield columns


def _tasks(
    reader: Reader,
    root: Address,
    span: Span,
    filters: Sequence[ZoneFilter],
    changes: Delta | None,
) -> Iterator[_Task]:
    """The leaves to read, in key order; a leaf under changes is never pruned."""
    top = reader.read(root)
    if isinstance(top, Leaf) or top.level == 0:
        yield _Task(root, changes)
        return
    yield from _descend(reader, top, span, filters, changes, None, last=True)


def _descend(
    reader: Reader,
    node: Entries,
    span: Span,
    filters: Sequence[ZoneFilter],
    changes: Delta | None,
    above: Any,
    last: bool,
) -> Iterator[_Task]:
    start, stop = span.children(node.keys)
    kept = np.zeros(len(node), bool)
    kept[start:stop] = True
    for zone_filter in filters:
        kept &= zone_filter.keeps(node)
    edges: list[int] = []
    if changes is not None:
        edges = np.searchsorted(*align(changes.keys, node.keys), side="right").tolist()
        if last:
            edges[-1] = len(changes)
    before = 0
    addresses = node.addresses
    for child in range(len(node)):
        over: Delta | None = None
        if changes is not None:
            over = changes.slice(before, edges[child]) if edges[child] > before else None
            before = edges[child]
        lower = node.keys[child - 1] if child else above
        if over is None and not kept[child]:
            continue
        if node.level == 1:
            yield _Task(addresses[child], over, lower, node.keys[child])
            continue
        inner = reader.read(addresses[child])
        assert isinstance(inner, Entries)
        final = last and child == len(node) - 1
        yield from _descend(reader, inner, span, filters, over, lower, final)


def kept_spans(
    reader: Reader,
    root: Address,
    span: Span,
    filters: Sequence[ZoneFilter],
    changes: Delta | None,
) -> list[Span]:
    """The key ranges, in order, of the leaves that a scan with these filters would read."""
    spans: list[Span] = []
    for task in _tasks(reader, root, span, filters, changes):
        if spans and spans[-1].upper is not None and spans[-1].upper == task.above:
            task = replace(task, above=spans.pop().lower)
        spans.append(Span(task.above, task.last, lower_open=True, upper_open=False))
    end = count_rows(reader, root) and reader.read(root).keys[-1]
    if spans and changes is not None and spans[-1].upper == end:
        spans[-1] = replace(spans[-1], upper=None)
    return [kept.intersection(span) for kept in spans]


def count_rows(reader: Reader, root: Address) -> int:
    """Rows under a root, without reading a leaf's columns."""
    node = reader.read(root)
    return node.rows if isinstance(node, Leaf) else int(node.rows.sum())


def split(reader: Reader, root: Address, parts: int) -> list[Span]:
    """Ranges of about equal row counts that together are the whole tree, in order."""
    total = count_rows(reader, root)
    cuts: list[Any] = []
    for part in range(1, parts):
        key = _last_key_at(reader, root, total * part // parts)
        if key is not None and (not cuts or key > cuts[-1]):
            cuts.append(key)
    lowers, uppers = [None, *cuts], [*cuts, None]
    return [
        Span(low, high, lower_open=True, upper_open=False)
        for low, high in zip(lowers, uppers, strict=True)
    ]


def _last_key_at(reader: Reader, root: Address, row: int) -> Any:
    """The last key of the leaf that ends nearest to the row; None past the last leaf."""
    node = reader.read(root)
    if isinstance(node, Leaf) or node.level == 0:
        return None
    while True:
        sums = np.cumsum(node.rows)
        child = min(int(np.searchsorted(sums, row)), len(node) - 1)
        before = int(sums[child - 1]) if child else 0
        if node.level == 1:
            if child and row - before < int(sums[child]) - row:
                child -= 1
            return node.keys[child]
        inner = reader.read(node.addresses[child])
        assert isinstance(inner, Entries)
        node, row = inner, row - before
