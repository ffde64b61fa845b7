"""Rows that hold what others hold, too, or what nothing holds: found by the values that come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.hidden_tables import quarantine_table
from livingdb.tables.batches import flat
from livingdb.tables.row_hash import encoded_rows, numbered_rows
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["distinct_values", "duplicate_mask", "has_no_null", "is_in_values", "unquarantined_rows"]


def has_no_null(rows: pa.Table, columns: Sequence[str]) -> Any:
    """Which rows have no null in some columns."""
    found = np.ones(rows.num_rows, bool)
    for name in columns:
        found &= flat(rows.column(name)).is_valid().to_numpy(zero_copy_only=False)
    return pa.array(found)


def distinct_values(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The combinations of values in some columns, each once, without those that have a null."""
    some = rows.select(list(columns)).filter(has_no_null(rows, columns))
    if not some.num_rows:
        return some
    first, _ = numbered_rows([flat(column) for column in some.columns])
    return some.take(pa.array(first))


def is_in_values(rows: pa.Table, columns: Sequence[str], values: pa.Table) -> Any:
    """Which rows hold in some columns one of the rows of `values`, column by column."""
    mine = [flat(rows.column(name)) for name in columns]
    theirs = [flat(column).cast(one.type) for column, one in zip(values.columns, mine, strict=True)]
    return pc.is_in(encoded_rows(mine), value_set=encoded_rows(theirs))


def duplicate_mask(come: pa.Table, after: RowSet | None, columns: Sequence[str]) -> Any:
    """Which of the rows that come hold values that another row of the table holds, too.

    Only the columns are read, and of the table only rows that hold one of the values.
    """
    names = list(columns)
    values = distinct_values(come, names)
    if after is None or not values.num_rows:
        return pa.array(np.zeros(come.num_rows, bool))
    held = matching_rows(after, values, names)
    first, numbers = numbered_rows([flat(held.column(name)) for name in names])
    often = np.bincount(numbers, minlength=len(first)) > 1
    twice = held.take(pa.array(first[often]))
    return is_in_values(come, names, twice)


def unquarantined_rows(pending: PendingChange, table: str, rows: pa.Table) -> pa.Table:
    """Of rows of a table of the target, those that come, or that were not set aside before."""
    graph, key = pending.graph, list(pending.schema(table).key)
    aside = (
        None if pending.head is None else graph.find_version(pending.head, quarantine_table(table))
    )
    if aside is None or not rows.num_rows:
        return rows
    held = matching_rows(graph.versions.rows(aside), rows.select(key), key)
    is_old = is_in_values(rows, key, held.select(key))
    comes = is_in_values(rows, key, pending.come(table).select(key))
    return rows.filter(pc.or_(comes, pc.invert(is_old)))
