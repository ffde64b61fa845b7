"""Which rows of a derived table are as its sync made them, and which somebody wrote since."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.tables.batches import flat
from livingdb.tables.row_hash import encoded_rows
from livingdb.tables.rows import RowSet

__all__ = ["SplitRows", "split_rows"]


@dataclass(frozen=True)
class SplitRows:
    """Rows of a table: `own` are those that somebody wrote, as they are.

    `made` are the others, as the last version of the sync has them in the table `table`; None if
    that has no such table.
    """

    own: pa.Table
    made: pa.Table | None = None
    table: str = ""


def split_rows(
    graph: Graph, made: SnapshotRow | None, row: SnapshotRow, table: str, rows: pa.Table | None
) -> SplitRows:
    """Rows of a table (None: all) in a snapshot, beside the last version that a sync made, if any.

    A row is as it was made if a row there holds the same in all columns that both tables have, with
    the key among them.
    """
    now = graph.versions.rows(graph.version(row, table))
    held = now.to_arrow() if rows is None else rows
    name = None if made is None else _name_then(graph, made, table)
    if made is None or name is None:
        return SplitRows(held)
    then = graph.versions.rows(graph.version(made, name))
    shared = _shared_columns(now, then, held)
    key = list(then.schema.visible_key) or [c.name for c in then.schema.visible_columns]
    if not set(key) <= set(shared):
        return SplitRows(held)
    candidates = matching_rows(then, distinct_rows(held.select(key)))
    is_made = _is_in(held.select(shared), candidates.select(shared))
    kept = candidates.filter(_is_in(candidates.select(shared), held.select(shared)))
    return SplitRows(held.filter(pc.invert(is_made)), kept, name)


def _name_then(graph: Graph, made: SnapshotRow, table: str) -> str | None:
    """What a table was called; of a view, which has one table, it is that one."""
    names = [name for name in graph.tables(made) if not is_hidden(name)]
    if table in names:
        return table
    return names[0] if len(names) == 1 else None


def _shared_columns(now: RowSet, then: RowSet, held: pa.Table) -> list[str]:
    types = {column.name: column.type for column in now.schema.visible_columns}
    return [
        column.name
        for column in then.schema.visible_columns
        if types.get(column.name) == column.type and column.name in held.column_names
    ]


def _is_in(rows: pa.Table, others: pa.Table) -> pa.Array:
    mine = encoded_rows([flat(column) for column in rows.columns])
    return pc.is_in(mine, value_set=encoded_rows([flat(column) for column in others.columns]))
