"""Conditions that compare with the value of a query: what they let through once it has changed.

Only rows between the old value and the new one pass the condition before and not after, or the
other way round.  They are looked for among the old rows, by ranges where a column is compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.node import Leaf, Run
from livingdb.derivation.plan import WEIGHT, Ask, NeedsFull, Relation, Side
from livingdb.derivation.weighted_rows import consolidate
from livingdb.engines.request import Source
from livingdb.engines.value_ranges import (
    Ranges,
    comparison_ranges,
    intersect_ranges,
    union_ranges,
)
from livingdb.sql.comparison import comparison_of
from livingdb.tables.free_names import inner_name
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    from livingdb.derivation.operators.linear_block import LinearBlock

__all__ = ["MovedConstants"]

_OLD = inner_name("_old")


class MovedConstants:
    """The conditions of a block that read single values, if they are about one source of it."""

    def __init__(self, block: LinearBlock):
        self._constants = block.constants
        self._conditions = [c for c in block.conditions if self._names(c)]
        others = [c for c in block.conditions if not self._names(c)]
        shown = [item for _, item in block.projections]
        about = {name for c in self._conditions for name, _ in trees.columns_in(c)}
        about &= set(block.sources)
        self._rest: LinearBlock | None = None
        if len(about) != 1 or block.laterals or any(self._names(item) for item in shown):
            return
        (self._source,) = about
        self._used = block.used_columns(self._source)
        self._rest = type(block)(block.sources, others, block.projections)
        self._ask = self._switch_ask(others)
        self._node = block.sources[self._source]

    def _names(self, expression: exp.Expr) -> set[str]:
        return {t.name for t in expression.find_all(exp.Table)} & set(self._constants)

    def _switch_ask(self, others: list[exp.Expr]) -> Ask:
        """The rows of the source that pass with one value only; 1 if it is the new one."""
        new, old = (self._is_met(side) for side in ("", _OLD))
        sign = exp.Case(
            ifs=[exp.If(this=new.copy(), true=exp.Literal.number(1))],
            default=exp.Literal.number(-1),
        )
        weight = exp.Cast(this=sign, to=exp.DataType.build("bigint", "spark"))
        own = [c for c in others if {name for name, _ in trees.columns_in(c)} == {self._source}]
        switched = exp.NEQ(this=new, expression=old)
        made = exp.Select(
            expressions=[
                *(trees.with_alias(trees.column(self._source, n), n) for n in self._used),
                trees.with_alias(weight, WEIGHT),
            ],
            where=exp.Where(this=trees.and_all([*own, switched])),
        )
        made.set("from_", exp.From(this=trees.table(self._source, self._source)))
        names = [name for name in self._constants if self._is_spoken_of(name)]
        return Ask(made, (self._source, *names, *(name + _OLD for name in names)))

    def _is_spoken_of(self, name: str) -> bool:
        return any(name in self._names(condition) for condition in self._conditions)

    def _is_met(self, side: str) -> exp.Expr:
        """Whether all the conditions hold with the values of one side; null is false."""
        whole = trees.and_all(self._conditions)
        assert whole is not None
        for node in whole.find_all(exp.Table, exp.Column):
            part = "this" if isinstance(node, exp.Table) else "table"
            if node.text(part) in self._constants:
                node.set(part, exp.to_identifier(node.text(part) + side, quoted=True))
            alias = node.args.get("alias")
            if alias is not None:
                alias.set("this", exp.to_identifier(alias.name + side, quoted=True))
        return exp.Coalesce(this=exp.Paren(this=whole), expressions=[exp.false()])

    # --- what changes ---------------------------------------------------------------------------

    def delta(self, run: Run) -> pa.Table | None:
        """What the block gives of the old rows with the new values and did not, and what it did.

        None if no value changed; `NeedsFull` if that tells nothing about which rows matter.
        """
        if not any(run.delta(leaf).num_rows for leaf in self._constants.values()):
            return None
        if self._rest is None:
            raise NeedsFull("SCALAR_SUBQUERY_CHANGED")
        relations: dict[str, Relation] = {self._source: self._source_rows(run)}
        for name, leaf in self._constants.items():
            if name in self._ask.relations:
                relations[name] = leaf.all_rows(run, "new")
                relations[name + _OLD] = leaf.all_rows(run, "old")
        rows = consolidate(run.relations.answer(self._ask, relations))
        if not rows.num_rows:
            return None
        wanted = consolidate(rows.select([*self._rest.used_columns(self._source), WEIGHT]))
        return self._rest.term(run, self._source, wanted, dict.fromkeys(self._rest.sources, "old"))

    def _source_rows(self, run: Run) -> Relation:
        """The old rows of the source, in the range that matters if that is known."""
        rows = self._node.all_rows(run, "old")
        if not isinstance(rows, Source) or not isinstance(rows.rows, RowSet):
            return rows
        return replace(rows, ranges={**rows.ranges, **self._ranges(run)})

    def _ranges(self, run: Run) -> Mapping[str, Ranges]:
        if len(self._conditions) != 1:
            return {}
        found = comparison_of(self._conditions[0])
        if found is None or not isinstance(found.operand, exp.Subquery):
            return {}
        (name,) = self._names(found.operand) or {""}
        kind = self._node.types.get(found.column.name)
        leaf = self._constants.get(name)
        if leaf is None or kind is None or found.operator not in (">", ">=", "<", "<=", "="):
            return {}
        column = found.operand.this.selects[0].name
        ends = [*_values(leaf, run, "old", column), *_values(leaf, run, "new", column)]
        if any(isinstance(value, float) and math.isnan(value) for value in ends):
            return {}
        parts = [comparison_ranges(kind, found.operator, value) for value in ends]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not known:
            return {}
        if len(known) == 2 and found.operator != "=":
            low, high = (comparison_ranges(kind, sign, end(ends)) for sign, end in _ENDS)
            return (
                {found.column.name: intersect_ranges(low or (), high or ())} if low and high else {}
            )
        return {found.column.name: union_ranges(known)}


_ENDS = ((">=", min), ("<=", max))


def _values(leaf: Leaf, run: Run, side: Side, column: str) -> list[Any]:
    """The value of a constant, unless it is null or there is none."""
    rows = leaf.all_rows(run, side)
    whole = rows.rows if isinstance(rows, Source) else rows
    table = whole.to_arrow() if isinstance(whole, RowSet) else whole
    return [value for value in table.column(column).to_pylist() if value is not None]
