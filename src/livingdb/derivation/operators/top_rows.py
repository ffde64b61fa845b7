"""ORDER BY … LIMIT: the first rows are kept, and the others looked at only if too few stay.

Rows that come are put among those that are held.  What is held ends at some row; whatever goes, all
rows up to that one are known.  Once fewer of these are left than are asked for, the rest is
looked for among all rows.  Rows that are alike in the order lie in the order of all their columns,
so that each answer is the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.node import Node, Run
from livingdb.derivation.operators.stored_node import StoredNode
from livingdb.derivation.plan import WEIGHT, Ask
from livingdb.derivation.weighted_rows import (
    concat_rows,
    consolidate,
    difference,
    expand_weights,
    with_weight,
)
from livingdb.tables.free_names import inner_name

__all__ = ["LaterRows", "TopRows"]

_ROWS = "r"
_HELD = inner_name("_held")


class TopRows(StoredNode):
    """The first rows of an input in an order of its columns."""

    strategy = "touched"

    def __init__(self, node: Node, order: Sequence[exp.Expr], limit: int):
        self.node = node
        self.key = node.key or None
        self.columns = node.columns
        self.types = node.types
        self._order, self._limit = list(order), limit
        self._sorted = Ask(self._select(trees.table(_ROWS, _ROWS), (_HELD,)), (_ROWS,))

    def full_query(self) -> exp.Query:
        """The whole answer."""
        alias = exp.TableAlias(this=exp.to_identifier(_ROWS, quoted=True))
        made = self._select(exp.Subquery(this=self.node.full_query(), alias=alias))
        made.set("limit", exp.Limit(expression=exp.Literal.number(self._limit)))
        return made

    def _select(self, source: exp.Expr, last: Sequence[str] = ()) -> exp.Select:
        """All rows in order; columns beside those of the input come last in it."""
        names = [*self.columns, *last]
        made = exp.Select(
            expressions=[trees.with_alias(trees.column(_ROWS, name), name) for name in names]
        )
        made.set("from_", exp.From(this=source))
        ties = [exp.Ordered(this=trees.column(_ROWS, name), nulls_first=True) for name in names]
        made.set("order", exp.Order(expressions=[*(item.copy() for item in self._order), *ties]))
        return made

    def delta(self, run: Run) -> pa.Table:
        """The rows that go from the first ones and that come to them."""
        change = self.input_delta(run)
        if not change.num_rows:
            return self.empty_delta()
        held = run.relations.held_rows(None).select(list(self.columns))
        made = self._follow(run, held, change)
        if made is None:
            made = self.answer_in_full(run)
        return difference(held, made.cast(_plain(held.schema)))

    def _follow(self, run: Run, held: pa.Table, change: pa.Table) -> pa.Table | None:
        """The first rows from those held and those that changed; None if they do not tell."""
        change = change.cast(pa.schema([*_plain(held.schema), (WEIGHT, pa.int64())]))
        both = consolidate(concat_rows([with_weight(held, 1), change]))
        rows, _ = expand_weights(both.filter(pc.greater(both.column(WEIGHT), 0)))
        rows = rows.drop_columns([WEIGHT])
        if held.num_rows < self._limit and rows.num_rows <= self._limit:
            return rows
        marked = concat_rows([_flagged(rows, 0), _flagged(held, 1)])
        ordered = run.relations.answer(self._sorted, {_ROWS: marked})
        flags = ordered.column(_HELD).to_numpy()
        places = np.flatnonzero(flags == 0)
        if held.num_rows == self._limit:
            places = places[places < np.flatnonzero(flags).max(initial=-1)]
            if len(places) < self._limit:
                return None
        return ordered.take(pa.array(places[: self._limit])).drop_columns([_HELD])


class LaterRows(TopRows):
    """The first rows of an input without some that OFFSET passes over; the input is small."""

    def __init__(self, node: Node, order: Sequence[exp.Expr], limit: int, offset: int):
        super().__init__(node, order, limit)
        self._offset = offset

    def full_query(self) -> exp.Query:
        """The whole answer."""
        made = super().full_query()
        made.set("offset", exp.Offset(expression=exp.Literal.number(self._offset)))
        return made

    def delta(self, run: Run) -> pa.Table:
        """All rows as they were and as they are, if a row of the input changed."""
        if not self.input_delta(run).num_rows:
            return self.empty_delta()
        held = run.relations.held_rows(None).select(list(self.columns))
        return difference(held, self.answer_in_full(run).cast(_plain(held.schema)))


def _flagged(rows: pa.Table, flag: int) -> pa.Table:
    return rows.append_column(_HELD, pa.array(np.full(rows.num_rows, flag, np.int32)))


def _plain(schema: pa.Schema) -> pa.Schema:
    """The columns without promises about nulls."""
    return pa.schema([(field.name, field.type) for field in schema])
