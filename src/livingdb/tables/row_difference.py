"""How the rows of a version differ from those it should have, as the delta that mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.tables.batches import flat
from livingdb.tables.rows import RowSet
from livingdb.trees.compare import differs
from livingdb.trees.delta import DELETE, Delta, merge_deltas
from livingdb.trees.keys import KeyArray, search

__all__ = ["RowDifference", "compare_rows"]

Mask = npt.NDArray[np.bool_]
_SHOWN_ROWS = 3


@dataclass
class RowDifference:
    """What differs: rows that are missing, rows too many, and rows with other values.

    `delta` makes the rows what they should be; `examples` are the first few of each kind, by
    their keys, or by all their values where the key is hidden.
    """

    delta: Delta
    missing: int = 0
    surplus: int = 0
    changed: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return self.missing + self.surplus + self.changed


def compare_rows(
    rows: RowSet,
    wanted: Delta,
    is_allowed: Callable[[pa.Table], Mask] | None = None,
    rounds: bool = False,
) -> RowDifference:
    """What differs between rows and those wanted, given as upserts of all of them.

    `is_allowed` tells of rows that are not wanted which may be there nevertheless.  `rounds`:
    floats count as equal if nothing but the order of a sum can be what makes the difference.
    """
    return _Comparison(rows, wanted, is_allowed, rounds).run()


class _Comparison:
    """One pass over the rows, batch by batch."""

    def __init__(
        self,
        rows: RowSet,
        wanted: Delta,
        is_allowed: Callable[[pa.Table], Mask] | None,
        rounds: bool,
    ):
        self._rows, self._wanted, self._is_allowed = rows, wanted, is_allowed
        self._columns = rows.schema.stored_columns
        self._seen = np.zeros(len(wanted), bool)
        self._changed: list[npt.NDArray[np.int64]] = []
        self._deletes: list[Delta] = []
        self._examples: list[dict[str, Any]] = []
        self._scales = [_scale(column) if rounds else None for column in wanted.columns]

    def run(self) -> RowDifference:
        for batch in self._rows.batches([column.name for column in self._columns]):
            self._compare(batch)
        missing = np.flatnonzero(~self._seen)
        changed = np.concatenate([np.empty(0, np.int64), *self._changed])
        self._show(self._wanted, changed)
        self._show(self._wanted, missing)
        upserts = self._wanted.select(np.sort(np.concatenate([changed, missing])))
        surplus = sum(len(part) for part in self._deletes)
        delta = merge_deltas([*self._deletes, upserts])
        return RowDifference(delta, len(missing), surplus, len(changed), self._examples)

    def _compare(self, batch: pa.RecordBatch) -> None:
        columns = batch.columns
        keys = self._rows.forest.shape.keys(columns)
        at, hit = self._places(keys)
        self._note_surplus(batch, keys, ~hit)
        if not hit.any():
            return
        places = at[hit]
        self._seen[places] = True
        taken, mine = pa.array(places), batch if hit.all() else batch.filter(pa.array(hit))
        wrong = np.zeros(len(places), bool)
        for position, column in enumerate(mine.columns):
            given = self._wanted.columns[position]
            assert given is not None
            other = given.take(taken)
            scale = self._scales[position]
            wrong |= differs(column, other) if scale is None else _is_apart(column, other, scale)
        self._changed.append(places[wrong])

    def _places(self, keys: KeyArray) -> tuple[npt.NDArray[np.int64], Mask]:
        """Where the keys are among those wanted, and which are."""
        if not len(self._wanted):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        at = np.minimum(search(self._wanted.keys, keys), len(self._wanted) - 1)
        return at, np.asarray(self._wanted.keys[at] == keys, bool)

    def _note_surplus(self, batch: pa.RecordBatch, keys: KeyArray, surplus: Mask) -> None:
        if surplus.any() and self._is_allowed is not None:
            rows = pa.Table.from_batches([batch.filter(pa.array(surplus))])
            names = [column.name for column in self._rows.schema.columns]
            surplus[surplus] = ~self._is_allowed(rows.select(names))
        if not surplus.any():
            return
        found = batch.filter(pa.array(surplus))
        count = len(self._rows.schema.key)
        rest = (None,) * (len(self._columns) - count)
        shape = self._rows.forest.shape
        ops = np.full(len(found), DELETE, np.int8)
        gone = (*found.columns[:count], *rest)
        self._deletes.append(Delta(shape, keys[surplus], ops, gone, (None,) * len(gone)))
        names = self._shown_names()
        self._examples += (
            found.slice(0, _SHOWN_ROWS - len(self._examples)).select(names).to_pylist()
        )

    def _shown_names(self) -> list[str]:
        schema = self._rows.schema
        hidden = any(column.hidden for column in schema.key_columns)
        return [column.name for column in schema.visible_columns] if hidden else list(schema.key)

    def _show(self, rows: Delta, places: npt.NDArray[np.int64]) -> None:
        few = rows.select(places[: _SHOWN_ROWS - len(self._examples)])
        known = {column.name: few.columns[n] for n, column in enumerate(self._columns)}
        if len(few):
            self._examples += pa.table({n: known[n] for n in self._shown_names()}).to_pylist()


# --- floats ---------------------------------------------------------------------------------

_RELATIVE = 1e-9
"""Of a float sum, by which another order of adding may change it."""
_PRECISION = 1e-15
"""Of the largest value of a column, below which sums that cancel out leave anything."""


def _scale(column: pa.Array | None) -> float | None:
    """The largest value of a column of floats; None for any other."""
    if column is None or not pa.types.is_floating(column.type):
        return None
    values = np.abs(flat(column).fill_null(0.0).to_numpy(zero_copy_only=False))
    values = values[np.isfinite(values)]
    return float(values.max()) if len(values) else 0.0


def _is_apart(first: pa.Array, second: pa.Array, scale: float) -> Mask:
    """Which floats differ by more than another order of adding explains."""
    wrong = differs(first, second)
    if not wrong.any():
        return wrong
    one, other = (
        column.fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
        for column in (first, second)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.maximum(np.abs(one), np.abs(other))
        near = np.abs(one - other) <= np.maximum(_RELATIVE * largest, _PRECISION * scale)
    apart: Mask = wrong & ~(near & np.isfinite(one) & np.isfinite(other))
    return apart
