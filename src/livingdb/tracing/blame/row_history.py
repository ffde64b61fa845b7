"""Row history: everything that happened to rows, newest first, through schema changes too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.diff import diff_versions
from livingdb.graph.graph import Graph
from livingdb.tracing.blame.lens_rows import lens_of_version
from livingdb.tracing.blame.timeline import timeline
from livingdb.tracing.blame.version_stretches import Stretch, stretches
from livingdb.trees.compare import differs
from livingdb.trees.diff import DELETED
from livingdb.trees.keys import KeyArray, concat_keys, member, search, union_keys

__all__ = ["Event", "RowHistory", "history_through_changes", "row_history"]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Event:
    """Something that happened to rows: in which snapshot, what, and the rows after it."""

    snapshot: int
    kinds: npt.NDArray[np.int8]
    keys: KeyArray
    after: list[pa.Array]


@dataclass(frozen=True)
class RowHistory:
    """What happened to rows of a table, newest first, since the schema change that made it.

    `since` is that change; None if the history is whole.
    """

    events: list[Event]
    since: SnapshotRow | None


def row_history(
    graph: Graph, head: SnapshotRow, table: str, keys: KeyArray | None, whole: bool = False
) -> RowHistory:
    """Everything that happened to the rows with these keys (None: to all), newest first.

    A merge is in it where the row then is not what its last change on either side made it.
    `whole`: a schema change is what made all rows that it found.
    """
    found: dict[int, list[Event]] = {}
    since = _collect(graph, head, table, keys, found, None, whole)
    events = [_concat_events(found[number]) for number in sorted(found)]
    return RowHistory(_without_echoes(graph, events)[::-1], since)


def _collect(
    graph: Graph,
    head: SnapshotRow,
    table: str,
    keys: KeyArray | None,
    found: dict[int, list[Event]],
    until: SnapshotRow | None,
    whole: bool,
) -> SnapshotRow | None:
    """The events of a line of first parents, down to what is in the history of `until`.

    They end where the table had another schema; the snapshot, if a schema change is why.
    """
    newest = graph.version(head, table)
    for stretch in stretches(graph, head, table):
        if not graph.versions.is_alike(stretch.versions[0], newest):
            return None  # a table that was dropped, and had the name before
        first = graph.snapshots.at(stretch.snapshots[0])
        is_change = first.kind == "schema_change" and first.first is not None
        is_change = is_change and not stretch.is_linked
        if is_change and not whole:
            return first
        for event in _events(graph, stretch, keys):
            row = graph.snapshots.at(event.snapshot)
            if until is not None and is_ancestor(graph.snapshots, row, until):
                return None
            fresh = _unknown_rows(event, found.get(event.snapshot, []))
            if fresh is None:
                continue
            found.setdefault(event.snapshot, []).append(fresh)
            for other in row.others:
                assert row.first is not None
                parent, older = graph.snapshots.at(other), graph.snapshots.at(row.first)
                if _has_same_schema(graph, row, parent, table):
                    _collect(graph, parent, table, fresh.keys, found, older, whole)
        base = stretch.base
        if is_change or (base and not graph.versions.is_alike(base, stretch.versions[-1])):
            return None
    return None


def _has_same_schema(graph: Graph, row: SnapshotRow, parent: SnapshotRow, table: str) -> bool:
    """Whether a table has the same schema in two snapshots, and both their rows."""
    if graph.forgotten.find(parent) is not None:
        return False
    theirs = graph.find_version(parent, table)
    return theirs is not None and graph.versions.is_alike(theirs, graph.version(row, table))


def _unknown_rows(event: Event, known: list[Event]) -> Event | None:
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
    every = _concat_events(events)
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


def _events(graph: Graph, stretch: Stretch, keys: KeyArray | None) -> Iterator[Event]:
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
    base, version = stretch.base, stretch.versions[0]
    if base is not None and not graph.versions.is_alike(base, version):
        base = None
    key_count = graph.versions.forest(version).shape.key_count
    for batch in diff_versions(graph.versions, base, version):
        rows = np.arange(len(batch.keys))
        if keys is not None:
            rows = np.flatnonzero(member(batch.keys, keys))
        if len(rows):
            after = [*batch.key_columns(key_count), *batch.after[key_count:]]
            event = Event(stretch.snapshots[0], batch.kinds, batch.keys, after)
            parts.append(_select(event, rows))
    if parts:
        yield _concat_events(parts)


def _concat_events(parts: list[Event]) -> Event:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.after for part in parts), strict=True)
    return Event(
        parts[0].snapshot,
        np.concatenate([part.kinds for part in parts]),
        concat_keys([part.keys for part in parts]),
        [pa.concat_arrays(list(column)) for column in columns],
    )


def history_through_changes(
    graph: Graph, head: SnapshotRow, table: str, keys: KeyArray | None
) -> list[Event]:
    """Everything that happened to the rows with these keys (None: to all), newest first.

    It goes on before a schema change that carries every row on its own; others are where it begins.
    """
    found = row_history(graph, head, table, keys)
    since = found.since
    if since is None or since.first is None:
        return found.events
    older = graph.snapshots.at(since.first)
    is_cut = graph.forgotten.find(older) is not None
    way = None if is_cut else _row_lenses(graph, since, older, table)
    if way is None:
        return row_history(graph, head, table, keys, whole=True).events
    name, lenses = way
    before = history_through_changes(graph, older, name, keys)
    return [*found.events, *(_migrate_event(event, lenses) for event in before)]


def _row_lenses(
    graph: Graph, row: SnapshotRow, older: SnapshotRow, table: str
) -> tuple[str, list[RowLens]] | None:
    """The table that one was before a schema change, and what was done to its rows since."""
    names = {address: name for name, address in graph.tables(older).items()}
    version = graph.version(row, table)
    lenses: list[RowLens] = []
    while version.address not in names:
        step = lens_of_version(graph, version)
        if step is None:
            return None
        lens, part, inputs = step
        same = lens.unchanged_source(part)
        if isinstance(lens, RowLens) and not lens.drops and not lens.consults:
            lenses.append(lens)
            version = inputs[lens.old_name]
        elif same is not None:
            version = inputs[same]
        else:
            return None
    return names[version.address], lenses[::-1]


def _migrate_event(event: Event, lenses: Sequence[RowLens]) -> Event:
    """An event with its rows as newer schemas have them; of deleted ones only the key is known."""
    alive = event.kinds != DELETED
    after = event.after
    taken = pa.array(np.cumsum(alive) - 1, mask=~alive)
    for lens in lenses:
        old, new = lens.old_schema, lens.new_schema
        there = pa.array(alive)
        names = [column.name for column in old.columns]
        arrays = [after[old.position(name)].filter(there) for name in names]
        made = lens.to_new_rows(pa.Table.from_arrays(arrays, names=names))
        keys = after[: len(old.key)]
        values = [made.column(c.name).combine_chunks() for c in new.stored_columns[len(new.key) :]]
        after = [*keys, *(value.take(taken) for value in values)]
    return Event(event.snapshot, event.kinds, event.keys, after)
