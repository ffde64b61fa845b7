"""Columns that writers do not name: computed from the row, or left as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.sql.expressions import Expression
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.changes import DELETE, UPSERT, Changes
from livingdb.trees.compare import choose
from livingdb.trees.keys import member

__all__ = ["check_conditions", "with_fixed"]


def with_fixed(rows: RowSet, changes: Changes) -> Changes:
    """The changes with the columns that their writer could not name.

    A column that is read-only keeps its value where the row is there already; a computed one is
    computed from the row as it will be.
    """
    schema = rows.schema
    fixed = [column for column in schema.columns if column.is_fixed]
    if not fixed or not len(changes) or bool((changes.ops == DELETE).all()):
        return changes
    names = [column.name for column in schema.stored]
    found, old = rows.lookup(changes.keys, names)
    changes = _kept(schema, changes, found, old)
    keys, after = changes.apply(changes.keys[found], old)
    whole = pa.Table.from_arrays(list(after), names=names)
    places = np.flatnonzero(member(changes.keys, keys))
    columns, present = list(changes.columns), list(changes.present)
    spread = pa.array(np.cumsum(member(changes.keys, keys)) - 1, mask=~member(changes.keys, keys))
    for column in fixed:
        if column.computed is None:
            continue
        at = schema.position(column.name)
        values = Expression(column.computed).values(whole, column.type)
        columns[at] = values.take(spread)
        carried = np.zeros(len(changes), bool)
        carried[places] = True
        present[at] = carried if bool((changes.ops != UPSERT).any()) else None
    return replace(changes, columns=tuple(columns), present=tuple(present))


def _kept(
    schema: TableSchema,
    changes: Changes,
    found: np.ndarray[tuple[int], np.dtype[np.bool_]],
    old: list[pa.Array],
) -> Changes:
    """Upserts of rows that are there leave their read-only columns as they are."""
    columns = list(changes.columns)
    spread = pa.array(np.cumsum(found) - 1, mask=~found)
    for column in schema.columns:
        at = schema.position(column.name)
        held = columns[at]
        if column.read_only and held is not None:
            columns[at] = choose(held, old[at].take(spread), found)
    return replace(changes, columns=tuple(columns))


def check_conditions(name: str, rows: RowSet, changes: Changes) -> None:
    """`InvalidData` names the first row that breaks a condition of its table."""
    schema = rows.schema
    if not schema.checks:
        return
    touched = changes.keys[changes.ops != DELETE]
    _, arrays = rows.lookup(touched, schema.arrow.names)
    whole = pa.Table.from_arrays(arrays, schema=schema.arrow)
    for title, text in schema.checks:
        held = Expression(text).values(whole, pa.bool_()).fill_null(True)
        broken = np.flatnonzero(~held.to_numpy(zero_copy_only=False))
        if len(broken):
            key = {part: whole.column(part)[int(broken[0])].as_py() for part in schema.key}
            raise InvalidData(f"table {name!r}: the row {key} breaks {title!r}: {text}")
