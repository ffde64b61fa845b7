"""Blame: which snapshot gave rows, or cells, the values they have.

History is gone through from the newest snapshot back along first parents, a stretch of linked
versions at a time; a merge passes what it brought in on to the parent it came from.  What a
snapshot has from elsewhere, as schema changes, syncs and views do, is passed on by who knows them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import Forgotten
from livingdb.graph.diff import diff_versions, lookup_diff
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version
from livingdb.tracing.blame.timeline import timeline
from livingdb.tracing.blame.version_stretches import Stretch, stretches
from livingdb.trees.compare import differs
from livingdb.trees.diff import UPDATED, DiffBatch
from livingdb.trees.keys import KeyArray, member, search

__all__ = ["BlameResolver", "RowBlame", "blame"]

_EVOLVED = "schema_change"

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass
class RowBlame:
    """For each of some keys, the number of the snapshot that gave the row (or cell) its value.

    `via` is the snapshot by which it came to the line it was asked for on, 0 if it was made there;
    `local` is the last snapshot of that line itself that changed it.
    """

    who: Numbers
    via: Numbers
    local: Numbers

    @classmethod
    def nobody(cls, count: int) -> RowBlame:
        """For keys of which nothing is known yet."""
        return cls(*(np.zeros(count, np.int64) for _ in range(3)))

    def put(self, places: Numbers, found: RowBlame) -> None:
        """Take over who is to blame for some keys; which snapshot of this line it was, stays."""
        self.who[places], self.via[places] = found.who, found.via


class BlameResolver(Protocol):
    """Knows where a snapshot has rows from."""

    def __call__(
        self, row: SnapshotRow, table: str, keys: KeyArray, column: str | None
    ) -> RowBlame | None:
        """Who is to blame for what a snapshot has in a table; None: the snapshot itself."""
        ...


def blame(
    graph: Graph,
    head: SnapshotRow,
    table: str,
    keys: KeyArray,
    column: str | None = None,
    passes_on: BlameResolver | None = None,
) -> RowBlame:
    """For each of the sorted keys, who last changed the row, or one column of it."""
    blamed = RowBlame.nobody(len(keys))
    if not len(keys):
        return blamed
    schema = graph.versions.definition(graph.version(head, table)).schema
    position = None if column is None else schema.position(column)
    for stretch in stretches(graph, head, table):
        left = np.flatnonzero(blamed.who == 0)
        if not len(left):
            break
        found, who = _last_changes(graph, stretch, keys[left], position)
        places = left[found]
        blamed.who[places] = blamed.local[places] = who
        for number in np.unique(who).tolist():
            mine = places[blamed.local[places] == number]
            row = graph.snapshots.at(number)
            if row.others:
                _blame_merge(graph, row, table, keys, mine, blamed, column, passes_on)
            elif passes_on is not None and row.kind != "transaction":
                with suppress(Forgotten):  # as far as what it came from is kept
                    passed = passes_on(row, table, keys[mine], column)
                    if passed is not None:
                        blamed.put(mine, passed)
    return blamed


def _last_changes(
    graph: Graph, stretch: Stretch, keys: KeyArray, position: int | None
) -> tuple[Numbers, Numbers]:
    """Which of the keys a stretch changed, and the snapshot that did so last."""
    base = stretch.base
    if len(stretch.versions) == 1 and _is_new_table(graph, stretch):
        return np.arange(len(keys)), np.full(len(keys), stretch.snapshots[-1])
    if not stretch.is_linked:
        return _last_changes_by_diff(graph, stretch, keys, position)
    assert base is not None
    chain = [base, *stretch.versions[::-1]]
    line = timeline(graph.versions, chain, keys, None if position is None else [position])
    real = slice(None) if position is None else np.flatnonzero(line.cells[0])
    changed, steps = line.keys[real], line.step[real]
    if not len(changed):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    is_last = np.append(changed[1:] != changed[:-1], True)
    at = search(keys, changed[is_last])
    numbers = np.array(stretch.snapshots[::-1])
    return at, numbers[steps[is_last]]


def _is_new_table(graph: Graph, stretch: Stretch) -> bool:
    """Whether a snapshot's table is not one that was changed: it is new, or has another schema."""
    base, (version,) = stretch.base, stretch.versions
    if base is None or base.rows == 0 or not graph.versions.is_alike(base, version):
        return True
    return not stretch.is_linked and graph.snapshots.at(stretch.snapshots[0]).kind == _EVOLVED


def _last_changes_by_diff(
    graph: Graph, stretch: Stretch, keys: KeyArray, position: int | None
) -> tuple[Numbers, Numbers]:
    """The same where the only version of a stretch does not come from the one before."""
    (number,) = stretch.snapshots
    parts: list[Numbers] = []
    for batch in diff_versions(graph.versions, stretch.base, stretch.versions[0]):
        kept = batch.keys
        if position is not None:
            kept = kept[_cell_mask(batch, position)]
        parts.append(np.flatnonzero(member(keys, kept)))
    at = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
    return at, np.full(len(at), number)


def _cell_mask(batch: DiffBatch, position: int) -> Mask:
    mask: Mask = batch.kinds != UPDATED
    return mask | differs(batch.before[position], batch.after[position])


def _blame_merge(
    graph: Graph,
    row: SnapshotRow,
    table: str,
    keys: KeyArray,
    mine: Numbers,
    blamed: RowBlame,
    column: str | None,
    passes_on: BlameResolver | None,
) -> None:
    """What a merge brought in is the work of the side it came from.

    Where it brought another schema, what it left alone is of its first parent.
    """
    version = graph.version(row, table)
    for parent in (graph.snapshots.at(number) for number in (*row.others, row.first or 0)):
        if graph.forgotten.find(parent) is not None:
            continue
        theirs = graph.find_version(parent, table)
        is_first = parent.sequence == row.first
        if theirs is None or not len(mine):
            continue
        if is_first and graph.versions.is_alike(theirs, version):
            continue
        name = _column_in(graph, version, theirs, column)
        if column is not None and name is None:
            continue
        same = _equal_rows_mask(graph, version, theirs, keys[mine], column)
        if same.any():
            found = blame(graph, parent, table, keys[mine[same]], name, passes_on)
            blamed.put(mine[same], found)
            mine = mine[~same]


def _column_in(graph: Graph, version: Version, other: Version, column: str | None) -> str | None:
    """What a column is called in a version of the table with, perhaps, another schema."""
    if column is None or graph.versions.is_alike(version, other):
        return column
    here, there = (graph.versions.definition(side).schema for side in (version, other))
    number = here.column(column).id
    return next((known.name for known in there.columns if known.id == number), None)


def _equal_rows_mask(
    graph: Graph, one: Version, other: Version, keys: KeyArray, column: str | None
) -> Mask:
    """Which of the keys have the same row (or cell) in both versions."""
    mine, theirs = graph.versions.rows(one), graph.versions.rows(other)
    same = np.ones(len(keys), bool)
    if graph.versions.is_alike(one, other):
        position = None if column is None else mine.schema.position(column)
        for batch in lookup_diff(mine, theirs, keys):
            kept = batch.keys if position is None else batch.keys[_cell_mask(batch, position)]
            same &= ~member(keys, kept)
        return same
    if mine.schema.key_codec.types != theirs.schema.key_codec.types:
        return ~same
    known = {(item.id, item.type): item.name for item in theirs.schema.columns}
    pairs = [
        (item.name, known[item.id, item.type])
        for item in mine.schema.stored_columns
        if (item.id, item.type) in known and (column is None or item.name == column)
    ]
    if not pairs:
        return ~same
    here, left = mine.lookup(keys, [pair[0] for pair in pairs])
    there, right = theirs.lookup(keys, [pair[1] for pair in pairs])
    both = here & there
    for before, after in zip(left, right, strict=True):
        ours, yours = before.filter(pa.array(both[here])), after.filter(pa.array(both[there]))
        same[np.flatnonzero(both)] &= ~differs(ours, yours)
    return same & both
