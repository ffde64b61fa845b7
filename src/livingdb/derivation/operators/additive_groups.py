"""Groups maintained by addition: counts, exact sums, minima and maxima.

Each group holds how many rows it has and what its aggregates are made of.  A delta is summed by
group and added to what is held; a group without rows goes.  A deleted extreme is found again
among the rows of its group.  Sums that do not fit are left to a full recomputation, which says
so as the engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.chunks.arrow_values import as_mask, as_numbers, taken_rows
from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.keyed_change import KeyedChange
from livingdb.derivation.operators.node import Node, Run
from livingdb.derivation.operators.stored_node import StoredNode
from livingdb.derivation.operators.value_lookups import fit_types
from livingdb.derivation.plan import WEIGHT, Ask, NeedsFull
from livingdb.derivation.row_numbers import Numbers
from livingdb.derivation.weighted_rows import cancels_out, difference, expand_weights
from livingdb.tables.batches import flat

__all__ = ["AdditiveGroups", "Slot"]

Kind = Literal["rows", "count", "sum", "avg", "min", "max"]
_ROWS = "r"


@dataclass(frozen=True)
class Slot:
    """A number that a group holds, made of a column of the input.

    `counted` is the slot that counts the values of a sum: without any, the sum is null.  `summed`
    is the slot with the sum of an average.
    """

    name: str
    kind: Kind
    column: str | None = None
    counted: str | None = None
    summed: str | None = None


class AdditiveGroups(StoredNode):
    """The groups of an input.  Without group columns there is one group, called 0."""

    strategy = "additive"

    def __init__(
        self,
        node: Node,
        groups: Sequence[tuple[str, str]],
        slots: Sequence[Slot],
        order: Sequence[str] | None = None,
    ):
        self.node = node
        self.is_global = not groups
        self.groups = list(groups)
        self.key: tuple[str, ...] = tuple(name for name, _ in groups) or ("g0",)
        self.slots = list(slots)
        self.columns = tuple(order or (*self.key, *(slot.name for slot in slots)))
        select = self._select(trees.table(_ROWS, _ROWS))
        self.types = trees.column_types(select, {_ROWS: node.types})
        self._ask = Ask(select, (_ROWS,))

    def full_query(self) -> exp.Query:
        """The whole answer."""
        alias = exp.TableAlias(this=exp.to_identifier(_ROWS, quoted=True))
        return self._select(exp.Subquery(this=self.node.full_query(), alias=alias))

    def _select(self, source: exp.Expr) -> exp.Select:
        items: dict[str, exp.Expr] = {
            name: trees.column(_ROWS, column) for name, column in self.groups
        }
        if self.is_global:
            items = {"g0": exp.Literal.number(0)}
        items |= {slot.name: _aggregate(slot) for slot in self.slots}
        made = exp.Select(
            expressions=[trees.with_alias(items[name], name) for name in self.columns]
        )
        made.set("from_", exp.From(this=source))
        if self.groups:
            keys = [trees.column(_ROWS, column) for _, column in self.groups]
            made.set("group", exp.Group(expressions=keys))
        return made

    # --- maintenance ----------------------------------------------------------------------------

    def delta(self, run: Run) -> pa.Table:
        """The groups that go and come."""
        found = self.change(run)
        return found if isinstance(found, pa.Table) else found.weighted_rows

    def change(self, run: Run) -> pa.Table | KeyedChange:
        """The groups that go and come, by their keys unless some of them are made anew."""
        delta = self._changed_rows(run)
        if not delta.num_rows:
            return self.empty_delta()
        rows, signs = expand_weights(delta)
        keys = self._keys(rows)
        touched = run.relations.touched_groups(keys)
        held, schema = touched.held.select(list(self.columns)), touched.held.schema
        keys = _as_nullable(keys.take(taken_rows(touched.first)), schema)
        if not all(_can_add(slot, schema.field(slot.name).type) for slot in self.slots):
            return difference(held, self._recompute_groups(run, keys, held.schema))
        places = np.concatenate([touched.groups, np.flatnonzero(touched.was)])
        sums = self._sum_by_group(rows, signs, held, places)
        made = self._build_groups(keys, sums, held.schema)
        stale = self._stale_groups(sums)
        if stale.any():
            made = self._recompute_stale(run, made, stale, held.schema)
            if not self.is_global:
                made = made.filter(pc.greater(made.column(self._counter), 0))
            return difference(held, made)
        stays = as_numbers(flat(made.column(self._counter))) > 0
        before = taken_rows(np.cumsum(touched.was) - 1, ~touched.was)
        return KeyedChange(
            touched.was,
            stays | self.is_global,
            _plain(held.take(before)),
            made,
            touched.encoded,
        ).without_same()

    def _changed_rows(self, run: Run) -> pa.Table:
        """What changed in the input; what comes and goes again is left in where it adds nothing."""
        delta = run.delta(self.node)
        if not delta.num_rows or pc.min(delta.column(WEIGHT)).as_py() > 0:
            return delta
        if not self._adds_only:
            return self.input_delta(run)
        rows = delta.select([*self.node.columns, WEIGHT])
        return rows.slice(0, 0) if cancels_out(rows) else rows

    @cached_property
    def _adds_only(self) -> bool:
        """Whether what comes and goes again leaves no trace in any group."""
        kinds = [self.types.get(slot.name) for slot in self.slots]
        is_exact = not any(kind is None or pa.types.is_floating(kind) for kind in kinds)
        return is_exact and all(slot.kind not in ("min", "max") for slot in self.slots)

    @cached_property
    def _counter(self) -> str:
        return next(slot.name for slot in self.slots if slot.kind == "rows")

    def _keys(self, rows: pa.Table) -> pa.Table:
        if self.is_global:
            return pa.table({"g0": pa.array(np.zeros(rows.num_rows, np.int32))})
        return rows.select([column for _, column in self.groups]).rename_columns(list(self.key))

    def _sum_by_group(
        self, rows: pa.Table, signs: Numbers, held: pa.Table, places: Numbers
    ) -> pa.Table:
        """By group, in order: the new sums and counts, and old, new and deleted extremes."""
        count = int(places.max()) + 1
        sums: dict[str, pa.Array | pa.ChunkedArray] = {}
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        asked = []
        for slot in self.slots:
            before = held.column(slot.name)
            if slot.kind in ("rows", "count"):
                weights = signs
                if slot.column is not None:
                    weights = signs * as_mask(rows.column(slot.column).is_valid())
                numbers = np.concatenate([weights, as_numbers(flat(before))])
                sums[slot.name] = pa.array(_add_up(numbers, places, count))
                continue
            values = rows.column(slot.column)
            if slot.kind == "avg":
                continue
            if slot.kind == "sum":
                exact = _exact_sums(values, signs, before, places, count)
                if exact is not None:
                    sums[slot.name] = exact
                    continue
                wide, goes = _wide_type(before.type), pa.array(signs < 0)
                turned = pc.if_else(goes, pc.negate(values.cast(wide)), values.cast(wide))
                columns[slot.name] = _concat_chunks([turned, before.cast(wide)], wide)
                asked.append((slot.name, "sum"))
                continue
            values = values.cast(before.type)
            comes, goes = pa.array(signs > 0), pa.array(signs < 0)
            none = pa.scalar(None, before.type)
            empty, absent = pa.nulls(len(before), before.type), pa.nulls(len(rows), before.type)
            parts = {
                "old": [absent, before],
                "new": [pc.if_else(comes, values, none), empty],
                "gone": [pc.if_else(goes, values, none), empty],
            }
            for name, part in parts.items():
                columns[f"{slot.name} {name}"] = _concat_chunks(part, before.type)
                asked.append((f"{slot.name} {name}", slot.kind))
        if asked:
            columns["group"] = pa.array(places)
            table = pa.table(columns).group_by("group", use_threads=False).aggregate(asked)
            table = table.sort_by("group")
            sums |= {name: table.column(f"{name}_{how}") for name, how in asked}
        return pa.table(sums)

    def _build_groups(self, keys: pa.Table, sums: pa.Table, schema: pa.Schema) -> pa.Table:
        counter = as_numbers(flat(sums.column(self._counter)))
        if counter.min() < 0:
            raise NeedsFull("STATE_DOES_NOT_MATCH")
        columns: dict[str, pa.Array | pa.ChunkedArray] = {n: keys.column(n) for n in self.key}
        for slot in self.slots:
            if slot.kind in ("rows", "count"):
                columns[slot.name] = sums.column(slot.name)
            elif slot.kind == "sum":
                some = as_numbers(flat(sums.column(slot.counted or self._counter))) > 0
                kept = _null_unless(some, sums.column(slot.name))
                columns[slot.name] = _narrow(kept, schema.field(slot.name).type)
            elif slot.kind == "avg":
                found = sums.column(slot.summed)
                count = sums.column(slot.counted or self._counter)
                columns[slot.name] = _average(found, count, schema.field(slot.name).type)
            else:
                choose = pc.min_element_wise if slot.kind == "min" else pc.max_element_wise
                old, new = (sums.column(f"{slot.name} {side}") for side in ("old", "new"))
                columns[slot.name] = _null_unless(counter > 0, choose(old, new))
        types = [schema.field(name).type for name in self.columns]
        made = [columns[name] for name in self.columns]
        fitted = [
            a if a.type == kind else a.cast(kind) for a, kind in zip(made, types, strict=True)
        ]
        return pa.Table.from_arrays(fitted, names=list(self.columns))

    def _stale_groups(self, sums: pa.Table) -> npt.NDArray[np.bool_]:
        """The groups that lost an extreme and got none as good."""
        found = np.zeros(sums.num_rows, bool)
        for slot in self.slots:
            if slot.kind not in ("min", "max"):
                continue
            old, new, gone = (sums.column(f"{slot.name} {s}") for s in ("old", "new", "gone"))
            lost = pc.equal(old, gone).fill_null(False)
            beats = pc.less_equal if slot.kind == "min" else pc.greater_equal
            replaced = beats(new, gone).fill_null(False)
            found |= pc.and_(lost, pc.invert(replaced)).to_numpy()
        found &= sums.column(self._counter).to_numpy() > 0
        return found

    def _recompute_stale(
        self, run: Run, made: pa.Table, stale: npt.NDArray[np.bool_], schema: pa.Schema
    ) -> pa.Table:
        """The groups with some of them made again from their rows."""
        found = self._recompute_groups(
            run, made.filter(pa.array(stale)).select(list(self.key)), schema
        )
        return pa.concat_tables([made.filter(pa.array(~stale)), found])

    def _recompute_groups(self, run: Run, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """Some groups, made from their rows as they are now."""
        if self.is_global:
            rows = self.node.all_rows(run, "new")
        else:
            asked = keys.rename_columns([column for _, column in self.groups])
            rows = self.node.semi_join(run, "new", fit_types(asked, self.node))
        return run.relations.answer(self._ask, {_ROWS: rows}).cast(_nullable_schema(schema))


def _add_up(numbers: Numbers, places: Numbers, count: int) -> Numbers:
    """Sums by place."""
    found = np.zeros(count, np.int64)
    np.add.at(found, places, numbers)
    return found


def _exact_sums(
    values: pa.ChunkedArray, signs: Numbers, before: pa.ChunkedArray, places: Numbers, count: int
) -> pa.Array | None:
    """Sums of whole numbers by group; None if they are none, or might not fit."""
    if not (pa.types.is_integer(values.type) and pa.types.is_int64(before.type)):
        return None
    added, held = (_whole_numbers(flat(column)) for column in (values, before))
    ends = [end for part in (added, held) if len(part) for end in (part.min(), part.max())]
    most = max(abs(int(end)) for end in ends)
    if most * len(places) >= 2**63:
        return None
    return pa.array(_add_up(np.concatenate([added * signs, held]), places, count))


def _whole_numbers(column: pa.Array) -> Numbers:
    """Whole numbers, those that are null as zeros."""
    filled = pc.fill_null(column, 0) if column.null_count else column
    return as_numbers(filled if pa.types.is_int64(filled.type) else filled.cast(pa.int64()))


def _can_add(slot: Slot, data_type: pa.DataType) -> bool:
    """Whether what a slot holds is exact; an engine may give other types than were expected."""
    return slot.kind != "sum" or not pa.types.is_floating(data_type)


def _aggregate(slot: Slot) -> exp.Expr:
    if slot.column is None:
        return exp.Count(this=exp.Star(), big_int=True)
    value = trees.column(_ROWS, slot.column)
    if slot.kind == "count":
        return exp.Count(this=value, big_int=True)
    kinds = {"sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max}
    return kinds[slot.kind](this=value)


def _average(
    total: pa.ChunkedArray, count: pa.ChunkedArray, target: pa.DataType
) -> pa.ChunkedArray:
    """The quotient, null without values; a decimal is rounded half up, as Spark does."""
    some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, pa.int64()))
    if not pa.types.is_decimal(target):
        return pc.divide(total.cast(pa.float64()), some.cast(pa.float64())).cast(target)
    try:
        exact = pc.divide(
            total.cast(pa.decimal256(38, total.type.scale)), some.cast(pa.decimal256(19, 0))
        )
    except pa.ArrowInvalid:
        raise NeedsFull("OVERFLOW") from None
    return _narrow(pc.round(exact, target.scale, "half_towards_infinity"), target)


def _nullable_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in schema])


def _wide_type(data_type: pa.DataType) -> pa.DataType:
    """A type in which sums do not overflow."""
    scale = data_type.scale if pa.types.is_decimal(data_type) else 0
    return pa.decimal256(76, scale)


def _null_unless(holds: npt.NDArray[np.bool_], column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values where something holds, null elsewhere."""
    if holds.all():
        return column
    return pc.if_else(pa.array(holds), column, pa.scalar(None, column.type))


def _narrow(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    try:
        return column if column.type == target else column.cast(target)
    except pa.ArrowInvalid:
        raise NeedsFull("OVERFLOW") from None


def _concat_chunks(
    parts: Sequence[pa.Array | pa.ChunkedArray], kind: pa.DataType
) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for part in parts:
        chunks += part.chunks if isinstance(part, pa.ChunkedArray) else [part]
    return pa.chunked_array(chunks, kind)


def _plain(rows: pa.Table) -> pa.Table:
    """The rows without promises about nulls."""
    return pa.Table.from_arrays(rows.columns, names=rows.column_names)


def _as_nullable(rows: pa.Table, schema: pa.Schema, names: Sequence[str] | None = None) -> pa.Table:
    """The columns in the types of a schema, without promises about nulls."""
    names = rows.column_names if names is None else names
    given = ((rows.column(name), schema.field(name).type) for name in names)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in given]
    return pa.Table.from_arrays(columns, names=list(names))
