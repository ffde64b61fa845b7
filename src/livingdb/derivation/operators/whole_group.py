"""The only group of an input: one row of aggregates that are not kept by adding.

Sums of floats, deviations and percentiles are answered again over all rows once one of them
changed, and not otherwise.  There is a row even where the input has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.additive_groups import AdditiveGroups
from livingdb.derivation.operators.node import Node, Run
from livingdb.derivation.weighted_rows import difference

__all__ = ["WholeGroup"]


class WholeGroup(AdditiveGroups):
    """One row, called 0, of aggregates over the rows `r` of an input."""

    strategy = "touched"

    def __init__(self, node: Node, items: Sequence[tuple[str, exp.Expr]]):
        self._items = list(items)
        super().__init__(node, [], [], ("g0", *(name for name, _ in items)))

    def _select(self, source: exp.Expr) -> exp.Select:
        items = [("g0", exp.Literal.number(0)), *self._items]
        made = exp.Select(expressions=[trees.with_alias(e.copy(), name) for name, e in items])
        made.set("from_", exp.From(this=source))
        return made

    def change(self, run: Run) -> pa.Table:
        """The row as it was and as it is, if a row of the input changed."""
        if not self.input_delta(run).num_rows:
            return self.empty_delta()
        held = run.relations.held_rows(None).select(list(self.columns))
        return difference(held, self.answer_in_full(run).cast(held.schema))
