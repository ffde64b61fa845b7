"""Which changes of a delta change something, and how many rows they insert, update or delete."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from livingdb.chunks.arrow_values import taken_rows
from livingdb.errors import MissingKey
from livingdb.tables.recipe import Counts
from livingdb.tables.rows import RowSet
from livingdb.trees.compare import differs
from livingdb.trees.delta import DELETE, UPSERT, Delta

__all__ = ["classify"]


def classify(rows: RowSet, changes: Delta, strict: bool = False) -> tuple[Delta, Counts]:
    """Only the changes that change something, and how many rows they insert, update, delete.

    `strict`: `MissingKey` for a patch or delete of a row that is not there.
    """
    found, old = rows.lookup(changes.keys, [column.name for column in rows.schema.stored_columns])
    absent = ~found & (changes.ops != UPSERT)
    if strict and absent.any():
        shown = _key_values(rows, changes, int(absent.argmax()))
        raise MissingKey(f"the key {shown} is not in the table")
    effective = ~absent
    there = np.flatnonzero(found & (changes.ops != DELETE))
    if len(there):
        effective[there] = _differing_rows(changes, there, old, np.cumsum(found)[there] - 1)
    kept = changes.select(np.flatnonzero(effective))
    hit = found[effective]
    deleted = kept.ops == DELETE
    return kept, Counts(
        int((~hit & (kept.ops == UPSERT)).sum()),
        int((hit & ~deleted).sum()),
        int((hit & deleted).sum()),
    )


def _differing_rows(
    changes: Delta,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    old: Sequence[pa.Array],
    old_rows: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the upserts and patches give a row other values than it has."""
    unequal = np.zeros(len(rows), bool)
    taken, old_taken = taken_rows(rows), taken_rows(old_rows)
    for position in range(changes.shape.key_count, len(changes.columns)):
        column = changes.columns[position]
        if column is not None:
            carried = changes.carries(position)[rows]
            unequal |= carried & differs(column.take(taken), old[position].take(old_taken))
    return unequal


def _key_values(rows: RowSet, changes: Delta, row: int) -> dict[str, object]:
    keys = changes.columns[: len(rows.schema.key)]
    values = [None if column is None else column[row].as_py() for column in keys]
    return dict(zip(rows.schema.key, values, strict=True))
