"""Row history through schema changes: what rows were before, as the schema of today shows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.graph.graph import Graph
from livingdb.tracing.blame.lens_rows import lens_of_version
from livingdb.tracing.blame.row_history import Event, row_history
from livingdb.trees.diff import DELETED
from livingdb.trees.keys import KeyArray

__all__ = ["history_through_changes"]


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
    way = _row_lenses(graph, since, older, table)
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
        if isinstance(lens, RowLens) and not lens.drops:
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
        made = lens.made(pa.Table.from_arrays(arrays, names=names))
        keys = after[: len(old.key)]
        values = [made.column(c.name).combine_chunks() for c in new.stored[len(new.key) :]]
        after = [*keys, *(value.take(taken) for value in values)]
    return Event(event.snapshot, event.kinds, event.keys, after)
