"""Attribute groups: one tree per group of columns, over the same keys.

A `Forest` offers what a single tree does.  Each group's leaves hold the key and the columns
of the group; boundaries depend on keys only, so the trees of all groups end their leaves at
the same rows.  With one group the root is that tree's root, with several it is a record of
theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address, digest, short
from livingdb.chunks.arrow_values import taken_rows
from livingdb.chunks.chunk import encode_record, read_payload
from livingdb.chunks.store import ChunkStore
from livingdb.errors import Corruption
from livingdb.trees import scan as tree_scan
from livingdb.trees import seek as tree_seek
from livingdb.trees.builder import Builder, Sink, check_sorted
from livingdb.trees.delta import Delta
from livingdb.trees.edit import edit
from livingdb.trees.join import join
from livingdb.trees.keys import KeyArray
from livingdb.trees.nodes import Cache, Entries, Leaf, Reader
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import ContentSplitter, Splitter

if TYPE_CHECKING:
    from livingdb.trees.diff import DiffBatch
    from livingdb.trees.merge import MergeResult, Resolve

__all__ = ["Forest", "Grouping"]


@dataclass(frozen=True)
class Grouping:
    """The columns of a table, key columns first, and which of the others lie together."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    key_count: int
    groups: tuple[tuple[int, ...], ...]
    splitter: Splitter = field(default_factory=ContentSplitter)
    piece_bytes: int = 4 << 20

    @cached_property
    def row_shape(self) -> Shape:
        """The shape of a row with all its columns."""
        return self._shape(range(len(self.types)))

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each group's tree."""
        if len(self.groups) == 1:
            return (self.row_shape,)
        return tuple(self._shape(self.positions(group)) for group in range(len(self.groups)))

    def is_laid_as(self, other: Grouping) -> bool:
        """Whether equal rows make equal trees in both: cut and grouped alike."""
        return (self.groups, self.splitter, self.piece_bytes) == (
            other.groups,
            other.splitter,
            other.piece_bytes,
        )

    def positions(self, group: int) -> list[int]:
        """The columns of a group's leaves: the key, then its own."""
        return [*range(self.key_count), *self.groups[group]]

    def _shape(self, positions: Iterable[int]) -> Shape:
        chosen = list(positions)
        return Shape(
            tuple(self.names[p] for p in chosen),
            tuple(self.types[p] for p in chosen),
            self.key_count,
            self.splitter,
            self.piece_bytes,
        )


class _CacheView(Cache):
    """A cache that trees of many shapes share, as those of one shape see it.

    Chunks know no field names and no zones, so tables that differ in nothing else share
    chunks; what was read as one table's types must not be handed out as another's.
    """

    def __init__(self, shared: Cache, shape: Shape):
        self._shared = shared
        self._tag = digest(repr(shape.types).encode())[:8]

    def get(self, address: Address) -> Entries | Leaf | None:
        """See `Cache.get`."""
        return self._shared.get(Address(address + self._tag))

    def put(self, address: Address, item: Entries | Leaf) -> None:
        """See `Cache.put`."""
        self._shared.put(Address(address + self._tag), item)


class Forest:
    """The trees of all groups of one table, in one store."""

    def __init__(self, store: ChunkStore, grouping: Grouping, cache: Cache | None = None):
        self.store = store
        self.grouping = grouping
        cache = cache if cache is not None else Cache()
        self.readers = [Reader(store, shape, _CacheView(cache, shape)) for shape in grouping.shapes]

    @property
    def shape(self) -> Shape:
        """The shape of whole rows."""
        return self.grouping.row_shape

    @property
    def is_single(self) -> bool:
        """Whether there is one group only."""
        return len(self.readers) == 1

    def roots(self, root: Address) -> list[Address]:
        """The root of each group's tree."""
        if self.is_single:
            return [root]
        record = read_payload(root, self.store.get(root), self.store.get)
        try:
            roots = [Address(bytes.fromhex(text)) for text in json.loads(record)["groups"]]
        except (ValueError, KeyError, TypeError):
            raise Corruption(f"record {short(root)} is not a list of group roots") from None
        if len(roots) != len(self.readers):
            raise Corruption(f"record {short(root)} has the wrong number of groups")
        return roots

    def _join(self, roots: Sequence[Address], sink: Sink) -> Address:
        if self.is_single:
            return roots[0]
        payload = json.dumps({"groups": [root.hex() for root in roots]}, separators=(",", ":"))
        stored = encode_record(payload.encode())
        sink(stored)
        return stored.address

    def _project(self, columns: Sequence[pa.Array], group: int) -> list[pa.Array]:
        return [columns[position] for position in self.grouping.positions(group)]

    def _group_delta(self, changes: Delta, group: int) -> Delta | None:
        """What of the changes concerns a group; None if nothing does."""
        if self.is_single:
            return changes
        if not changes.is_structural and not changes.touches(self.grouping.groups[group]):
            return None
        chosen = self.grouping.positions(group)
        return Delta(
            self.grouping.shapes[group],
            changes.keys,
            changes.ops,
            tuple(changes.columns[position] for position in chosen),
            tuple(changes.present[position] for position in chosen),
        )

    # --- writing -----------------------------------------------------------------------------

    def build(self, batches: Iterable[Sequence[pa.Array]], sink: Sink) -> Address:
        """The root of these rows: batches of whole rows sorted by key, each key once."""
        builders = [Builder(shape, sink) for shape in self.grouping.shapes]
        last: KeyArray | None = None
        seen = 0
        for columns in batches:
            keys = self.shape.keys(columns)
            if not len(keys):
                continue
            check_sorted(self.shape, keys, last, seen, columns)
            last, seen = keys[-1:], seen + len(keys)
            for group, builder in enumerate(builders):
                builder.add_rows(columns if self.is_single else self._project(columns, group), keys)
                builder.close_full()
        return self._join([builder.finish() for builder in builders], sink)

    def edit(self, root: Address, changes: Delta, sink: Sink) -> Address:
        """The root with the changes made."""
        roots = self.roots(root)
        for group, reader in enumerate(self.readers):
            mine = self._group_delta(changes, group)
            if mine is not None:
                roots[group] = edit(reader, roots[group], mine, sink)
        return self._join(roots, sink)

    def join(self, roots: Sequence[Address], sink: Sink) -> Address:
        """The root of all rows under these roots, whose keys follow one another in this order."""
        parts = [self.roots(root) for root in roots]
        joined = [
            join(reader, [part[group] for part in parts], sink)
            for group, reader in enumerate(self.readers)
        ]
        return self._join(joined, sink)

    # --- reading -----------------------------------------------------------------------------

    def count_rows(self, root: Address) -> int:
        """Rows under a root."""
        return tree_scan.count_rows(self.readers[0], self.roots(root)[0])

    def split(self, root: Address, parts: int) -> list[tree_scan.Span]:
        """Key ranges of about equal row counts."""
        return tree_scan.split(self.readers[0], self.roots(root)[0], parts)

    def place(self, root: Address, key: Any) -> float:
        """About where a key lies among those of a tree, from 0 to 1: by what its root node says."""
        reader = self.readers[0]
        node = reader.read(self.roots(root)[0])
        if not isinstance(node, Entries):
            return 0.0
        return float(np.searchsorted(node.keys, key)) / len(node.keys)

    def _locate(self, positions: Sequence[int]) -> dict[int, list[int]]:
        """Which groups to read for these columns: group → positions within its shape."""
        wanted: dict[int, list[int]] = {}
        for group, members in enumerate(self.grouping.groups):
            places = {member: at for at, member in enumerate(members, self.grouping.key_count)}
            inner = [places[p] for p in positions if p in places]
            if inner:
                wanted[group] = inner
        if not wanted:
            wanted[0] = []
        keys = [p for p in positions if p < self.grouping.key_count]
        first = next(iter(wanted))
        wanted[first] = keys + wanted[first]
        return wanted

    def scan(
        self,
        root: Address,
        positions: Sequence[int] | None = None,
        span: tree_scan.Span = tree_scan.ALL,
        filters: Sequence[tree_scan.ZoneFilter] = (),
        changes: Delta | None = None,
        keep: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """Batches of the columns asked for, in key order; see `trees.scan.scan`."""
        if self.is_single:
            reader = self.readers[0]
            yield from tree_scan.scan(reader, root, positions, span, filters, changes, keep)
            return
        for kept in self._spans(root, span, filters, changes):
            yield from self._side_by_side(root, positions, kept, changes, keep)

    def _spans(
        self,
        root: Address,
        span: tree_scan.Span,
        filters: Sequence[tree_scan.ZoneFilter],
        changes: Delta | None,
    ) -> list[tree_scan.Span]:
        """The key ranges to read: those that the trees of all filtered columns keep."""
        spans = [span]
        roots = self.roots(root)
        for item in filters:
            ((group, (inner, *_)),) = self._locate([item.position]).items()
            moved = tree_scan.ZoneFilter(inner, item.least, item.greatest)
            reader, mine = self.readers[group], changes
            if changes is not None:
                mine = self._group_delta(changes, group) or changes
            spans = [
                kept
                for outer in spans
                for kept in tree_scan.kept_spans(reader, roots[group], outer, [moved], mine)
            ]
        return spans

    def _side_by_side(
        self,
        root: Address,
        positions: Sequence[int] | None,
        span: tree_scan.Span,
        changes: Delta | None,
        keep: bool,
    ) -> Iterator[list[pa.Array]]:
        """The columns of several groups, batch by batch."""
        chosen = list(range(len(self.grouping.types)) if positions is None else positions)
        wanted = self._locate(chosen)
        roots = self.roots(root)
        streams = []
        for group, inner in wanted.items():
            mine = None if changes is None else self._group_delta(changes, group)
            streams.append(
                tree_scan.scan(self.readers[group], roots[group], inner, span, (), mine, keep)
            )
        order = self._order(chosen, wanted)
        for columns in _zip(streams):
            yield [columns[at] for at in order]

    def _order(self, positions: Sequence[int], wanted: dict[int, list[int]]) -> list[int]:
        """Where each asked column stands among the joined columns of the groups."""
        flat: list[int] = []
        for group, inner in wanted.items():
            chosen = self.grouping.positions(group)
            flat += [chosen[position] for position in inner]
        return [flat.index(position) for position in positions]

    def get(self, root: Address, key: Any, positions: Sequence[int]) -> list[Any] | None:
        """One row as Arrow scalars; None if there is none."""
        wanted = self._locate(positions)
        values: list[Any] = []
        roots = self.roots(root)
        for group, inner in wanted.items():
            found = tree_seek.seek(self.readers[group], roots[group], key)
            if found is None:
                return None
            leaf, row = found
            values += [leaf.column(position)[row] for position in inner]
        return [values[at] for at in self._order(positions, wanted)]

    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""
        return tree_seek.contains(self.readers[0], self.roots(root)[0], keys)

    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""
        wanted = self._locate(positions)
        found = np.zeros(len(keys), bool)
        columns: list[pa.Array] = []
        roots = self.roots(root)
        for group, inner in wanted.items():
            found, part = tree_seek.seek_many(self.readers[group], roots[group], keys, inner)
            columns += part
        return found, [columns[at] for at in self._order(positions, wanted)]

    def seek_spans(
        self,
        root: Address,
        spans: Sequence[tree_scan.Span],
        positions: Sequence[int],
        most: int,
    ) -> list[pa.Array] | None:
        """Key columns of the rows in ranges of keys; None if there are more than `most`."""
        return tree_seek.seek_spans(self.readers[0], self.roots(root)[0], spans, positions, most)

    # --- two and three roots -----------------------------------------------------------------

    def diff(
        self, before: Address, after: Address, span: tree_scan.Span = tree_scan.ALL
    ) -> Iterator[DiffBatch]:
        """The rows that differ within a range of keys, whole, in key order."""
        from livingdb.trees.diff import diff

        if self.is_single:
            yield from diff(self.readers[0], before, after, span)
            return
        olds, news = self.roots(before), self.roots(after)
        parts = [
            list(diff(reader, old, new, span))
            for reader, old, new in zip(self.readers, olds, news, strict=True)
        ]
        batches = [batch for part in parts for batch in part]
        if not batches:
            return
        keys = batches[0].keys
        for batch in batches[1:]:
            keys = np.union1d(keys, batch.keys)
        keys = np.unique(keys)
        yield self._widen(olds, news, keys)

    def _widen(self, olds: Sequence[Address], news: Sequence[Address], keys: KeyArray) -> DiffBatch:
        """The diff of these keys with the columns of every group."""
        from livingdb.trees.diff import DELETED, INSERTED, UPDATED, DiffBatch

        before: list[Any] = [None] * len(self.grouping.types)
        after: list[Any] = [None] * len(self.grouping.types)
        there: list[npt.NDArray[np.bool_]] = []
        for roots, target in ((olds, before), (news, after)):
            for group, reader in enumerate(self.readers):
                found, columns = tree_seek.seek_many(reader, roots[group], keys, keep=False)
                places = taken_rows(np.cumsum(found) - 1, ~found)
                chosen = self.grouping.positions(group)
                for position, column in zip(chosen, columns, strict=True):
                    target[position] = column.take(places)
            there.append(found)
        kinds = np.where(~there[0], INSERTED, np.where(there[1], UPDATED, DELETED))
        return DiffBatch(keys, kinds.astype(np.int8), before, after)

    def to_delta(self, batch: DiffBatch) -> Delta:
        """The changes that turn the first root of a diff into the second."""
        from livingdb.trees.diff import to_delta

        return to_delta(self.shape, batch)

    def merge(
        self,
        base: Address,
        ours: Address,
        theirs: Address,
        sink: Sink,
        resolve: Resolve | None = None,
    ) -> MergeResult:
        """`ours` with what `theirs` changed since `base`; see `trees.merge.merge`."""
        from livingdb.trees.merge import MergeResult, merge, resolve_rows

        if self.is_single:
            return merge(self.readers[0], base, ours, theirs, sink, resolve)
        if theirs in (base, ours):
            return MergeResult(ours, [])
        if base == ours:
            return MergeResult(theirs, [])
        ours_changed = list(self.diff(base, ours))
        changes, conflicts = resolve_rows(
            self.shape, self.diff(base, theirs), ours_changed, resolve
        )
        if conflicts:
            return MergeResult(None, conflicts)
        return MergeResult(self.edit(ours, changes, sink), [])


def _zip(streams: Sequence[Iterator[list[pa.Array]]]) -> Iterator[list[pa.Array]]:
    """Batches of all streams side by side: the same rows, cut where any stream cuts."""
    if len(streams) == 1:
        yield from streams[0]
        return
    held: list[list[pa.Array]] = []
    for stream in streams:
        first = next(stream, None)
        if first is None:
            return
        held.append(first)
    while True:
        rows = min(len(batch[0]) for batch in held)
        yield [column.slice(0, rows) for batch in held for column in batch]
        for number, stream in enumerate(streams):
            rest = [column.slice(rows) for column in held[number]]
            if not len(rest[0]):
                following = next(stream, None)
                if following is None:
                    return
                rest = following
            held[number] = rest
