"""Three-way merge of trees of one shape.

Where only one side changed a region, its leaves are taken over whole.  Where both did, rows
are merged; a row both changed, differently, is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.trees.builder import Sink
from livingdb.trees.compare import choose, differs
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.diff import (
    DELETED,
    DiffBatch,
    Region,
    differing_regions,
    region_diff,
    to_delta,
)
from livingdb.trees.edit import Replacements, edit, touched_leaves
from livingdb.trees.keys import KeyArray, align
from livingdb.trees.nodes import Entries, Reader
from livingdb.trees.shape import Shape

__all__ = ["Conflicts", "MergeResult", "Resolve", "merge", "resolve_rows"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Conflicts:
    """Rows that both sides changed, differently; a side without the row is null throughout."""

    keys: KeyArray
    base: list[pa.Array]
    ours: list[pa.Array]
    theirs: list[pa.Array]
    ours_deleted: Mask
    theirs_deleted: Mask

    def __len__(self) -> int:
        return len(self.keys)

    def key_columns(self, count: int) -> list[pa.Array]:
        """The key columns, from a side that has the row."""
        nobody = self.ours_deleted & self.theirs_deleted
        known = (choose(self.ours[at], self.theirs[at], self.ours_deleted) for at in range(count))
        return [choose(column, self.base[at], nobody) for at, column in enumerate(known)]

    def select(self, rows: npt.NDArray[np.int64]) -> Conflicts:
        """Some of the conflicts."""
        taken = pa.array(rows)
        return Conflicts(
            self.keys[rows],
            [column.take(taken) for column in self.base],
            [column.take(taken) for column in self.ours],
            [column.take(taken) for column in self.theirs],
            self.ours_deleted[rows],
            self.theirs_deleted[rows],
        )


@dataclass(frozen=True)
class MergeResult:
    """The merged root, or the conflicts that stand in its way."""

    root: Address | None
    conflicts: list[Conflicts]


Resolve = Callable[[Conflicts], Delta | None]


def merge(
    reader: Reader,
    base: Address,
    ours: Address,
    theirs: Address,
    sink: Sink,
    resolve: Resolve | None = None,
) -> MergeResult:
    """`ours` with what `theirs` changed since `base`.

    `resolve` answers conflicts with the changes to make to ours; None leaves them open.
    """
    if theirs in (base, ours):
        return MergeResult(ours, [])
    if base == ours:
        return MergeResult(theirs, [])
    their_regions = list(differing_regions(reader, base, theirs))
    our_regions = list(differing_regions(reader, base, ours))
    clean, contested = _split_regions(their_regions, our_regions)
    ours_changed = _differences(reader, our_regions if contested else [])
    differences = _differences(reader, contested)
    rows, conflicts = resolve_rows(reader.shape, differences, ours_changed, resolve)
    if conflicts:
        return MergeResult(None, conflicts)
    clean, rows = _separate(reader, ours, clean, rows)
    return MergeResult(edit(reader, ours, rows, sink, _replacements(reader, clean)), [])


def resolve_rows(
    shape: Shape,
    theirs: Iterable[DiffBatch],
    ours: Sequence[DiffBatch],
    resolve: Resolve | None,
) -> tuple[Delta, list[Conflicts]]:
    """Their changes to make to ours, and the conflicts nobody resolved."""
    changes: list[Delta] = [empty_delta(shape)]
    conflicts: list[Conflicts] = []
    for batch in theirs:
        free, both = _split_overlap(shape, batch, ours)
        changes.append(free)
        if both is None:
            continue
        answer = resolve(both) if resolve is not None else None
        if answer is None:
            conflicts.append(both)
        else:
            changes.append(answer)
    return merge_deltas(changes), conflicts


def _separate(
    reader: Reader, ours: Address, clean: list[Region], rows: Delta
) -> tuple[list[Region], Delta]:
    """Regions and row changes that meet in no leaf of ours: a region that does becomes rows.

    A row of a contested region can belong to a leaf of a clean one when ours has emptied
    the leaf it would have gone to.
    """
    opened = touched_leaves(reader, ours, rows.keys)
    apart: list[Region] = []
    meeting: list[Region] = []
    for region in clean:
        (apart if opened.isdisjoint(region.before.addresses) else meeting).append(region)
    more = [to_delta(reader.shape, batch) for batch in _differences(reader, meeting)]
    return apart, merge_deltas([rows, *more])


def _split_regions(theirs: list[Region], ours: list[Region]) -> tuple[list[Region], list[Region]]:
    """Their regions: those whose keys ours left alone, and those it touched too."""
    clean: list[Region] = []
    contested: list[Region] = []
    at = 0
    for region in theirs:
        while at < len(ours) and _is_before(ours[at], region):
            at += 1
        free = at == len(ours) or _is_before(region, ours[at])
        (clean if free and len(region.before) else contested).append(region)
    return clean, contested


def _is_before(one: Region, other: Region) -> bool:
    """Whether all keys of one region are less than all keys of the other."""
    if one.last is None or other.above is None:
        return False
    return bool(one.last <= other.above)


def _differences(reader: Reader, regions: Sequence[Region]) -> list[DiffBatch]:
    batches = (region_diff(reader, region) for region in regions)
    return [batch for batch in batches if batch is not None]


def _split_overlap(
    shape: Shape, theirs: DiffBatch, ours: Sequence[DiffBatch]
) -> tuple[Delta, Conflicts | None]:
    """Their changes that meet none of ours (or are the same), and the conflicts."""
    free = np.ones(len(theirs.keys), bool)
    parts: list[Conflicts] = []
    for batch in ours:
        one, other = align(theirs.keys, batch.keys)
        _, mine, yours = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        if not len(mine):
            continue
        conflict = _conflict(theirs, mine, batch, yours)
        free[mine] = False
        if conflict is not None:
            parts.append(conflict)
    changes = to_delta(shape, theirs).select(np.flatnonzero(free))
    if not parts:
        return changes, None
    return changes, _concat(parts)


def _conflict(
    theirs: DiffBatch,
    mine: npt.NDArray[np.int64],
    ours: DiffBatch,
    yours: npt.NDArray[np.int64],
) -> Conflicts | None:
    their_rows, our_rows = pa.array(mine), pa.array(yours)
    theirs_after = [column.take(their_rows) for column in theirs.after]
    ours_after = [column.take(our_rows) for column in ours.after]
    theirs_deleted = theirs.kinds[mine] == DELETED
    ours_deleted = ours.kinds[yours] == DELETED
    unequal = theirs_deleted != ours_deleted
    for one, other in zip(theirs_after, ours_after, strict=True):
        unequal |= differs(one, other)
    if not unequal.any():
        return None
    chosen = pa.array(np.flatnonzero(unequal))
    return Conflicts(
        theirs.keys[mine][unequal],
        [column.take(their_rows).take(chosen) for column in theirs.before],
        [column.take(chosen) for column in ours_after],
        [column.take(chosen) for column in theirs_after],
        ours_deleted[unequal],
        theirs_deleted[unequal],
    )


def _concat(parts: Sequence[Conflicts]) -> Conflicts:
    def joined(name: str) -> list[pa.Array]:
        columns = zip(*(getattr(part, name) for part in parts), strict=True)
        return [pa.concat_arrays(list(column)) for column in columns]

    keys = parts[0].keys
    for part in parts[1:]:
        keys = np.concatenate(align(keys, part.keys))
    return Conflicts(
        keys,
        joined("base"),
        joined("ours"),
        joined("theirs"),
        np.concatenate([part.ours_deleted for part in parts]),
        np.concatenate([part.theirs_deleted for part in parts]),
    )


def _replacements(reader: Reader, regions: Sequence[Region]) -> Replacements:
    """Their leaves for ours, region by region: all at the first leaf, none at the others."""
    keys: list[KeyArray] = []
    leaves: list[Entries | None] = []
    for region in regions:
        after = region.after.at_level(1)
        keys.append(region.before.keys)
        leaves += [after] + [None] * (len(region.before) - 1)
    if not keys:
        return Replacements(empty_delta(reader.shape).keys, ())
    joined = keys[0]
    for more in keys[1:]:
        joined = np.concatenate(align(joined, more))
    return Replacements(joined, tuple(leaves))
