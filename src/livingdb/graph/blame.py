"""Blame and row history: which snapshot gave rows the values they have, or had.

History is gone through from the newest snapshot back along first parents, a stretch of linked
versions at a time; a merge passes what it brought in on to the parent it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.compare import diff_versions, lookup_diff
from livingdb.graph.graph import Graph
from livingdb.graph.history import first_parents, is_ancestor
from livingdb.graph.timeline import timeline
from livingdb.tables.index import Version
from livingdb.trees.compare import differs
from livingdb.trees.diff import DELETED, UPDATED, DiffBatch
from livingdb.trees.keys import KeyArray, concat_keys, member, search, union_keys

__all__ = ["Event", "blame_cells", "blame_rows", "row_history"]

_STRETCH = 256

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Stretch:
    """Snapshots that changed a table, newest first, whose versions are linked one to the next.

    `base` is the version before the oldest of them; None if there was no such table.
    """

    snapshots: list[int]
    versions: list[Version]
    base: Version | None
    is_linked: bool


def _touches(graph: Graph, head: SnapshotRow, table: str) -> Iterator[tuple[int, Address | None]]:
    """Snapshots of the first-parent line that changed the table, newest first."""
    line = first_parents(graph.snapshots, head)
    window: set[int] = set()
    high = head.sequence
    for row in line:
        window.add(row.sequence)
        if len(window) >= 4 * _STRETCH or row.first is None:
            low = row.sequence
            for sequence, version in graph.catalog.touches.between(table, low, high):
                if sequence in window:
                    yield sequence, version
            window.clear()
            high = low - 1


def _stretches(graph: Graph, head: SnapshotRow, table: str) -> Iterator[_Stretch]:
    """The history of a table, cut where a version does not come from the one before."""
    versions = graph.versions
    held: list[tuple[int, Address]] = []

    def cut(before: Version | None) -> Iterator[_Stretch]:
        graph.index.preload([address for _, address in held])
        found = [versions.require(address) for _, address in held]
        numbers = [number for number, _ in held]
        start = 0
        for at, version in enumerate(found):
            older = found[at + 1] if at + 1 < len(found) else before
            is_last = at + 1 == len(found)
            linked = older is not None and version.base == older.address
            if linked and not is_last:
                continue
            if not linked and at > start:
                yield _Stretch(numbers[start:at], found[start:at], version, True)
                start = at
            yield _Stretch(numbers[start : at + 1], found[start : at + 1], older, linked)
            start = at + 1

    for number, address in _touches(graph, head, table):
        if len(held) >= _STRETCH or address is None:
            yield from cut(None if address is None else versions.require(address))
            held = []
        if address is not None:
            held.append((number, address))
    if held:
        yield from cut(None)


# --- blame ----------------------------------------------------------------------------------


def blame_rows(graph: Graph, head: SnapshotRow, table: str, keys: KeyArray) -> Numbers:
    """For each of the sorted keys, the number of the snapshot that last changed the row."""
    return _blame(graph, head, table, keys, None)


def blame_cells(
    graph: Graph, head: SnapshotRow, table: str, keys: KeyArray, position: int
) -> Numbers:
    """For each of the sorted keys, the snapshot that last changed one column of the row."""
    return _blame(graph, head, table, keys, position)


def _blame(
    graph: Graph, head: SnapshotRow, table: str, keys: KeyArray, position: int | None
) -> Numbers:
    blamed = np.zeros(len(keys), np.int64)
    for stretch in _stretches(graph, head, table):
        left = np.flatnonzero(blamed == 0)
        if not len(left):
            break
        found, who = _last_changes(graph, stretch, keys[left], position)
        blamed[left[found]] = who
        _pass_on(graph, stretch, table, keys, left[found], blamed, position)
    return blamed


def _last_changes(
    graph: Graph, stretch: _Stretch, keys: KeyArray, position: int | None
) -> tuple[Numbers, Numbers]:
    """Which of the keys a stretch changed, and the snapshot that did so last."""
    if stretch.base is None or stretch.base.rows == 0:
        number = stretch.snapshots[-1]
        if len(stretch.versions) == 1:
            return np.arange(len(keys)), np.full(len(keys), number)
    if not stretch.is_linked:
        return _by_diff(graph, stretch, keys, position)
    assert stretch.base is not None
    chain = [stretch.base, *stretch.versions[::-1]]
    line = timeline(graph.versions, chain, keys)
    real = slice(None) if position is None else np.flatnonzero(line.cells[position])
    changed, steps = line.keys[real], line.step[real]
    if not len(changed):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    is_last = np.append(changed[1:] != changed[:-1], True)
    at = search(keys, changed[is_last])
    numbers = np.array(stretch.snapshots[::-1])
    return at, numbers[steps[is_last]]


def _by_diff(
    graph: Graph, stretch: _Stretch, keys: KeyArray, position: int | None
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


def _pass_on(
    graph: Graph,
    stretch: _Stretch,
    table: str,
    keys: KeyArray,
    places: Numbers,
    blamed: Numbers,
    position: int | None,
) -> None:
    """What a merge brought in is the work of the side it came from."""
    for number in {int(n) for n in np.unique(blamed[places])}:
        row = graph.snapshots.at(number)
        if not row.others:
            continue
        version = stretch.versions[stretch.snapshots.index(number)]
        mine = places[blamed[places] == number]
        for other in row.others:
            parent = graph.snapshots.at(other)
            theirs = graph.find_version(parent, table)
            if theirs is None or not len(mine):
                continue
            same = _agreeing(graph, version, theirs, keys[mine], position)
            if same.any():
                blamed[mine[same]] = _blame(graph, parent, table, keys[mine[same]], position)
                mine = mine[~same]


def _agreeing(
    graph: Graph, one: Version, other: Version, keys: KeyArray, position: int | None
) -> Mask:
    """Which of the keys have the same row (or cell) in both versions."""
    same = np.ones(len(keys), bool)
    rows = graph.versions.rows(one), graph.versions.rows(other)
    for batch in lookup_diff(*rows, keys):
        kept = batch.keys if position is None else batch.keys[_cell_mask(batch, position)]
        same &= ~member(keys, kept)
    return same


# --- history --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """Something that happened to rows: in which snapshot, what, and the rows after it."""

    snapshot: int
    kinds: npt.NDArray[np.int8]
    keys: KeyArray
    after: list[pa.Array]


def row_history(graph: Graph, head: SnapshotRow, table: str, keys: KeyArray | None) -> list[Event]:
    """Everything that happened to the rows with these keys (None: to all), newest first.

    A merge is in it where the row then is not what its last change on either side made it.
    """
    found: dict[int, list[Event]] = {}
    _collect(graph, head, table, keys, found, None)
    events = [_joined(found[number]) for number in sorted(found)]
    return _without_echoes(graph, events)[::-1]


def _collect(
    graph: Graph,
    head: SnapshotRow,
    table: str,
    keys: KeyArray | None,
    found: dict[int, list[Event]],
    until: SnapshotRow | None,
) -> None:
    """The events of a line of first parents, down to what is in the history of `until`."""
    for stretch in _stretches(graph, head, table):
        for event in _events(graph, stretch, keys):
            row = graph.snapshots.at(event.snapshot)
            if until is not None and is_ancestor(graph.snapshots, row, until):
                return
            fresh = _unknown(event, found.get(event.snapshot, []))
            if fresh is None:
                continue
            found.setdefault(event.snapshot, []).append(fresh)
            for other in row.others:
                assert row.first is not None
                parent, first = graph.snapshots.at(other), graph.snapshots.at(row.first)
                _collect(graph, parent, table, fresh.keys, found, first)


def _unknown(event: Event, known: list[Event]) -> Event | None:
    """What of an event is not known yet."""
    if not known:
        return event
    rows = np.flatnonzero(~member(event.keys, union_keys([part.keys for part in known])))
    return _select(event, rows) if len(rows) else None


def _without_echoes(graph: Graph, events: list[Event]) -> list[Event]:
    """Events, oldest first, without those of merges that left a row as it was made before."""
    is_merge = [bool(graph.snapshots.at(event.snapshot).others) for event in events]
    if not any(is_merge):
        return events
    every = _joined(events)
    ages = np.repeat(np.arange(len(events)), [len(event.keys) for event in events])
    order = np.lexsort((ages, search(union_keys([every.keys]), every.keys)))
    before, after = order[:-1], order[1:]
    same = (every.keys[before] == every.keys[after]) & np.array(is_merge)[ages[after]]
    same &= (every.kinds[before] == DELETED) == (every.kinds[after] == DELETED)
    for column in every.after:
        same &= ~differs(column.take(pa.array(before)), column.take(pa.array(after)))
    echo = np.zeros(len(order), bool)
    echo[after[same]] = True
    kept = [_select(event, np.flatnonzero(~echo[ages == at])) for at, event in enumerate(events)]
    return [event for event in kept if len(event.keys)]


def _select(event: Event, rows: Numbers) -> Event:
    taken = pa.array(rows)
    after = [column.take(taken) for column in event.after]
    return Event(event.snapshot, event.kinds[rows], event.keys[rows], after)


def _events(graph: Graph, stretch: _Stretch, keys: KeyArray | None) -> Iterator[Event]:
    if stretch.is_linked and stretch.base is not None:
        line = timeline(graph.versions, [stretch.base, *stretch.versions[::-1]], keys)
        numbers = np.array(stretch.snapshots[::-1])[line.step]
        for number in stretch.snapshots:
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                taken = pa.array(rows)
                after = [column.take(taken) for column in line.after]
                yield Event(number, line.kinds[rows], line.keys[rows], after)
        return
    parts: list[Event] = []
    key_count = graph.versions.forest(stretch.versions[0]).shape.key_count
    for batch in diff_versions(graph.versions, stretch.base, stretch.versions[0]):
        rows = np.arange(len(batch.keys))
        if keys is not None:
            rows = np.flatnonzero(member(batch.keys, keys))
        if len(rows):
            after = [*batch.key_columns(key_count), *batch.after[key_count:]]
            event = Event(stretch.snapshots[0], batch.kinds, batch.keys, after)
            parts.append(_select(event, rows))
    if parts:
        yield _joined(parts)


def _joined(parts: list[Event]) -> Event:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.after for part in parts), strict=True)
    return Event(
        parts[0].snapshot,
        np.concatenate([part.kinds for part in parts]),
        concat_keys([part.keys for part in parts]),
        [pa.concat_arrays(list(column)) for column in columns],
    )
