"""Rows that are set aside already: as long as they stay as they are, nothing is new about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.hidden_tables import quarantine_table
from livingdb.guard.conditions.kinds.repeated_values import is_in_values

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["unquarantined_rows"]


def unquarantined_rows(crossing: PendingChange, table: str, rows: pa.Table) -> pa.Table:
    """Of rows of a table of the target, those that come, or that were not set aside before."""
    graph, key = crossing.graph, list(crossing.schema(table).key)
    aside = (
        None
        if crossing.head is None
        else graph.find_version(crossing.head, quarantine_table(table))
    )
    if aside is None or not rows.num_rows:
        return rows
    held = matching_rows(graph.versions.rows(aside), rows.select(key), key)
    is_old = is_in_values(rows, key, held.select(key))
    comes = is_in_values(rows, key, crossing.come(table).select(key))
    return rows.filter(pc.or_(comes, pc.invert(is_old)))
