"""Where rows come from: who gave them their values, and which they have had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import LivingDBError
from livingdb.evolution.masked_history import MessageFilter
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot_columns import CHANGE_TYPES, snapshot_columns
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.free_names import free_names
from livingdb.tracing.blame.row_blame import RowBlame
from livingdb.tracing.blame.version_stretches import is_exact
from livingdb.trees.keys import KeyArray

__all__ = ["AT_OR_BEFORE", "blame", "history"]

AT_OR_BEFORE = "at or before: what came between was forgotten"
"""The message of a change that one of several snapshots made, of which the last is kept."""


def blame(graph: Graph, head: SnapshotRow, table: str, key: object, columns: bool) -> pa.Table:
    """For every row (or that with the key), the snapshot that gave it its values, or its cells.

    What came by a sync, a view or a schema change is traced to the edit that caused it; `via`,
    if anything did, names the snapshot it came by.  A column of the key keeps its name; what is
    told beside it has an underscore more where it has the same.
    """
    from livingdb.tracing.blame.cause import Causes

    causes = Causes(graph, _ViewSources(graph))
    rows = graph.versions.rows(graph.version(head, table))
    schema = rows.schema
    if key is None:
        keys = [flat(column) for column in rows.to_arrow(list(schema.key)).columns]
        encoded = rows.forest.shape.keys(keys)
    else:
        schema.require_key()
        wanted = ingest.deletes(schema, rows.forest.shape, _key_rows(key))
        there, keys = rows.lookup(wanted.keys, list(schema.key))
        encoded = wanted.keys[there]
    named = {
        name: values
        for name, values in zip(schema.key, keys, strict=True)
        if name in schema.visible_key
    }
    cells = [column for column in schema.visible_columns if column.name not in schema.key]
    if not columns or not cells:
        found = {schema.key[0] if columns else None: causes.blame(head, table, encoded)}
    else:
        found = {c.name: causes.blame(head, table, encoded, c.name) for c in cells}
    came = any(who.via.any() for who in found.values())
    message_filter = MessageFilter(graph, head)
    parts = [
        _blame_table(message_filter, graph, table, named, who, name, came)
        for name, who in found.items()
    ]
    return pa.concat_tables(parts)


class _ViewSources:
    """The source rows behind rows of views that this process can answer for."""

    def __init__(self, graph: Graph):
        self._graph = graph

    def __call__(self, row: SnapshotRow, table: str, key: KeyArray) -> list[Any]:
        """See `livingdb.tracing.blame.cause.ViewSources`; nothing where nobody can tell."""
        branch = self._graph.branches.find(table)
        if branch is None:
            return []
        from livingdb.tracing.blame.cause import OriginKeys
        from livingdb.tracing.lineage import search
        from livingdb.tracing.lineage import target as targets

        made = OriginKeys
        rows = self._graph.versions.rows(self._graph.version(row, table))
        names = [column.name for column in rows.schema.visible_columns]
        asked = pa.Table.from_arrays(rows.lookup(key, names)[1], names=names)
        target = targets.Target(table, branch.id, row, table)
        try:
            found = search.Search(self._graph, "embedded", False).source_rows(target, asked)
        except LivingDBError:
            return []
        return [
            made(origin.branch, origin.table, origin.snapshot, _keys(origin))
            for origin in found
            if not origin.is_whole and origin.source.schema.visible_key
        ]


def _keys(origin: Any) -> KeyArray:
    """The keys of rows, sorted."""
    columns = [flat(origin.rows.column(name)) for name in origin.source.schema.key]
    return np.unique(origin.source.forest.shape.keys(columns))


def history(graph: Graph, head: SnapshotRow, table: str, key: object) -> pa.Table:
    """Every value a row has had (no key: all rows), newest first.

    Columns keep their names; what is told beside them has an underscore more where it has the same.
    """
    rows = graph.versions.rows(graph.version(head, table))
    schema = rows.schema
    keys = None
    if key is not None:
        schema.require_key()
        keys = ingest.deletes(schema, rows.forest.shape, _key_rows(key)).keys
    from livingdb.tracing.blame.row_history import history_through_changes

    events = history_through_changes(graph, head, table, keys)
    rows_told = MessageFilter(graph, head).rows(
        graph.snapshots.get_many([event.snapshot for event in events]).values()
    )
    found = {row.sequence: _hedged(graph, row, table) for row in rows_told}
    fields = [column.field.with_nullable(True) for column in schema.visible_columns]
    parts = []
    for event in events:
        row = found[event.snapshot]
        kinds = [CHANGE_TYPES[kind] for kind in event.kinds.tolist()]
        about = snapshot_columns([row] * len(kinds))
        values = [event.after[schema.position(column.name)] for column in schema.visible_columns]
        parts.append(
            pa.table(
                [*about.values(), pa.array(kinds, pa.string()), *values],
                schema=_history_schema(fields),
            )
        )
    return pa.concat_tables(parts) if parts else _history_schema(fields).empty_table()


def _hedged(graph: Graph, row: SnapshotRow, table: str) -> SnapshotRow:
    """A snapshot as it is told; where history was cut before it, who did it is not known."""
    if is_exact(graph, row, table):
        return row
    return row._replace(author="", message=AT_OR_BEFORE)


def _key_rows(key: object) -> object:
    """A key as a user gives it (a value, or a tuple), as a list of one key."""
    return [tuple(key)] if isinstance(key, (tuple, list)) else [key]


def _blame_table(
    message_filter: MessageFilter,
    graph: Graph,
    table: str,
    keys: Mapping[str, pa.Array],
    blamed: RowBlame,
    column: str | None,
    came: bool,
) -> pa.Table:
    numbers, places = np.unique(blamed.who, return_inverse=True)
    found = graph.snapshots.get_many(numbers.tolist())
    rows = message_filter.rows(found[number] for number in numbers.tolist())
    about = snapshot_columns([_hedged(graph, row, table) for row in rows])
    taken = pa.array(places)
    told: dict[str, pa.Array] = {}
    if column is not None:
        told["column"] = pa.array([column]).take(pa.array(np.zeros(len(places), np.int64)))
    told |= {name: values.take(taken) for name, values in about.items()}
    if came:
        told["via"] = _ids(graph, blamed.via)
    return pa.table([*keys.values(), *told.values()], [*keys, *free_names(told, keys)])


def _ids(graph: Graph, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """The ids of snapshots by number; null for none."""
    unique, places = np.unique(numbers, return_inverse=True)
    found = graph.snapshots.get_many([number for number in unique.tolist() if number])
    ids = [found[number].address.hex() if number else None for number in unique.tolist()]
    return pa.array(ids, pa.string()).take(pa.array(places))


def _history_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    about = {
        "snapshot": pa.string(),
        "author": pa.string(),
        "time": pa.timestamp("us", "UTC"),
        "message": pa.string(),
        "_change_type": pa.string(),
    }
    names = free_names(about, [field.name for field in fields])
    told = [pa.field(name, kind) for name, kind in zip(names, about.values(), strict=True)]
    return pa.schema([*told, *fields])
