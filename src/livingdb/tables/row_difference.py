"""How the rows of a version differ from those it should have, as the delta that mends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.tables.batches import flat
from livingdb.tables.row_hash import encoded_rows
from livingdb.tables.rows import RowSet
from livingdb.trees.compare import differs
from livingdb.trees.delta import DELETE, Delta, empty_delta, merge_deltas
from livingdb.trees.keys import KeyArray, search

__all__ = ["RowDifference", "compare_rows", "with_held_values"]

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
    unordered: bool = False,
) -> RowDifference:
    """What differs between rows and those wanted, given as upserts of all of them.

    `is_allowed` tells of rows that are not wanted which may be there nevertheless.  `unordered`:
    the order in which rows were read may make a difference, to sums of floats and in lists, and
    what differs by nothing else counts as equal.
    """
    found = _Comparison(rows, wanted, is_allowed, unordered).run()
    if unordered and found.missing == found.surplus > 0 and _is_reordered(rows, found):
        return RowDifference(empty_delta(wanted.shape))
    return found


class _Comparison:
    """One pass over the rows, batch by batch."""

    def __init__(
        self,
        rows: RowSet,
        wanted: Delta,
        is_allowed: Callable[[pa.Table], Mask] | None,
        unordered: bool,
    ):
        self._rows, self._wanted, self._is_allowed = rows, wanted, is_allowed
        self._columns = rows.schema.stored_columns
        self._seen = np.zeros(len(wanted), bool)
        self._changed: list[npt.NDArray[np.int64]] = []
        self._deletes: list[Delta] = []
        self._examples: list[dict[str, Any]] = []
        self._unordered = unordered
        self._scales = [_scale(column) if unordered else None for column in wanted.columns]

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
            wrong |= self._differs(column, given.take(taken), self._scales[position])
        self._changed.append(places[wrong])

    def _differs(self, first: pa.Array, second: pa.Array, scale: float | None) -> Mask:
        if scale is not None:
            return _is_apart(first, second, scale)
        wrong = differs(first, second)
        if self._unordered and pa.types.is_list(first.type) and wrong.any():
            mask = pa.array(wrong)
            lists = (_sorted_lists(column.filter(mask)) for column in (first, second))
            wrong[wrong] = differs(*lists)
        return wrong

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


# --- what the order of rows makes of an answer --------------------------------------------------

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


def _sorted_lists(column: pa.Array) -> pa.Array:
    """Lists with their items in order, where items have one."""
    items = column.flatten()
    if pa.types.is_nested(items.type):
        return column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(column)), lengths)
    order = pa.table({"owner": owners, "item": items}).sort_by(
        [("owner", "ascending"), ("item", "ascending")]
    )
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    made = pa.ListArray.from_arrays(offsets, flat(order.column("item")), type=column.type)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    return made.take(pa.array(np.arange(len(column)), mask=is_null))


def _is_reordered(rows: RowSet, found: RowDifference) -> bool:
    """Whether rows whose key is a hash of their values differ by such an order only."""
    schema = rows.schema
    if not any(column.hidden for column in schema.key_columns):
        return False
    names = [column.name for column in schema.visible_columns]
    goes = found.delta.ops == DELETE
    comes = found.delta.select(np.flatnonzero(~goes))
    _, held = rows.lookup(found.delta.keys[goes], names)
    wanted = [comes.columns[schema.position(name)] for name in names]
    mine, theirs = (_in_order(columns) for columns in (held, wanted))
    if not mine.column(0).equals(theirs.column(0)):
        return False
    pairs = zip(mine.columns[1:], theirs.columns[1:], strict=True)
    return not any(_is_apart(flat(a), flat(b), _scale(b) or 0.0).any() for a, b in pairs)


def _in_order(columns: Sequence[pa.Array | None]) -> pa.Table:
    """Rows in an order of their own: a code of all that is no float, and the floats."""
    known = [column for column in columns if column is not None]
    floats = [column for column in known if pa.types.is_floating(column.type)]
    others = [c for c in known if not pa.types.is_floating(c.type)]
    others = [_sorted_lists(c) if pa.types.is_list(c.type) else c for c in others]
    codes = encoded_rows(others) if others else pa.nulls(len(known[0]), pa.binary())
    arrays = [codes, *floats]
    table = pa.Table.from_arrays(arrays, names=[str(number) for number in range(len(arrays))])
    return table.sort_by([(name, "ascending") for name in table.column_names])


def with_held_values(rows: RowSet, wanted: pa.Table, column: str) -> pa.Table:
    """Rows with the values that a column has in the rows of the same keys that are there."""
    keys = rows.forest.shape.keys([flat(wanted.column(name)) for name in rows.schema.key])
    order = np.argsort(keys, kind="stable")
    found, (held,) = rows.lookup(keys[order], [column])
    places = np.empty(len(keys), np.int64)
    places[order] = np.where(found, np.cumsum(found) - 1, -1)
    is_held = places >= 0
    values = held.take(pa.array(places, mask=~is_held))
    at = wanted.column_names.index(column)
    kept = pc.if_else(pa.array(is_held), values, flat(wanted.column(column)))
    return wanted.set_column(at, wanted.schema.field(at), kept)
