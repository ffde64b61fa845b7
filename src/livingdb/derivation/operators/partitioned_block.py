"""Partitioned blocks: only partitions with changed rows are recomputed.

Outer, semi and anti joins by their keys, subqueries by what ties them to the row, groups,
partitions of windows, and DISTINCT and set operations by whole rows: the answer over all rows is
the answers for each value, put together.  So what changes lies where a delta has values, and
there the block is answered twice, over the old rows and over the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.node import Leaf, Node, Run, is_empty
from livingdb.derivation.operators.value_lookups import distinct_values, fit_types
from livingdb.derivation.plan import WEIGHT, Ask, Relation, Side
from livingdb.derivation.weighted_rows import (
    concat_rows,
    consolidate,
    difference,
    distinct_rows,
    semi_join,
)

__all__ = ["PartitionedBlock"]


class PartitionedBlock(Node):
    """A query over inputs that falls apart by columns of each.

    `by` has as many columns for each input.  `kept` says which columns of the result are one of
    them as it is, by its number.  `leading` is an input without whose rows there is no result,
    and `origin` where columns of the result come from unchanged.  With `by_row`, each row of the
    leading input makes its rows of the result alone, so that its delta needs no other rows of it.
    """

    def __init__(
        self,
        query: exp.Query,
        inputs: Mapping[str, Node],
        by: Mapping[str, Sequence[str]],
        *,
        columns: Sequence[str],
        types: Mapping[str, pa.DataType | None],
        key: tuple[str, ...] | None,
        kept: Mapping[str, int],
        origin: Mapping[str, tuple[str, str]] | None = None,
        leading: str | None = None,
        by_row: bool = False,
        required: frozenset[str] = frozenset(),
        constants: Mapping[str, Leaf] | None = None,
    ):
        self.query = query
        self.nodes = dict(inputs)
        self.by = {name: tuple(names) for name, names in by.items()}
        self.columns = tuple(columns)
        self.types = types
        self._is_typed = all(kind is not None for kind in types.values())
        self.key = key
        self.kept = dict(kept)
        self.origin = dict(origin or {})
        self.leading = leading
        self.required = required
        self.strategy = "touched"
        spoken = {node.name for node in query.find_all(exp.Table)}
        self.constants = {k: leaf for k, leaf in (constants or {}).items() if k in spoken}
        self._ask = Ask(query, (*self.nodes, *self.constants))
        self._weighted = self._weighted_ask() if by_row else None
        width = len(next(iter(self.by.values())))
        self.names = tuple(f"v{at}" for at in range(width))

    def inputs(self) -> Mapping[str, Node]:
        return self.nodes

    def used_columns(self, name: str) -> tuple[str, ...]:
        return self.nodes[name].columns

    def full_query(self) -> exp.Query:
        made = self.query.copy()
        depth = self._depth()
        named = {name: leaf.name for name, leaf in self.constants.items()}
        for column in made.find_all(exp.Column):
            if column.table in self.nodes:
                alias = exp.to_identifier(f"{column.table}{depth}", quoted=True)
                column.set("table", alias)
        for node in list(made.find_all(exp.Table)):
            name = node.name
            if name in named:
                node.set("this", exp.to_identifier(named[name], quoted=True))
            elif name in self.nodes:
                node.replace(self._input_relation(name, f"{name}{depth}"))
        return made

    def _input_relation(self, name: str, alias: str) -> exp.Expr:
        inner = self.nodes[name]
        if isinstance(inner, Leaf):
            return trees.table(inner.name, alias)
        named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        return exp.Subquery(this=inner.full_query(), alias=named)

    def _depth(self) -> int:
        """How many blocks like this lie in each other here; none is called as one around it."""
        below = (part for node in self.nodes.values() for part in node.parts())
        return 1 + max(
            (part._depth() for part in below if isinstance(part, PartitionedBlock)), default=0
        )

    def _weighted_ask(self) -> Ask:
        """The query over weighted rows of the leading input."""
        assert self.leading is not None
        made = self.query.copy()
        weight = trees.with_alias(trees.column(self.leading, WEIGHT), WEIGHT)
        made.set("expressions", [*made.expressions, weight])
        return Ask(made, self._ask.relations)

    @property
    def is_by_row(self) -> bool:
        """Whether each row of the leading input makes its rows of the result alone."""
        return self._weighted is not None

    # --- its rows -------------------------------------------------------------------------------

    def delta(self, run: Run) -> pa.Table:
        if self._weighted is not None and self.leading is not None:
            return self._delta_by_row(run, self.leading, self._weighted)
        values = self.touched_values(run)
        if values is None:
            return self.empty_delta()
        return difference(self.answer_for(run, "old", values), self.answer_for(run, "new", values))

    def _delta_by_row(self, run: Run, leading: str, ask: Ask) -> pa.Table:
        """The changed rows beside the other input as it is, and the others beside its change."""
        self.check_constants(run)
        (other,) = set(self.nodes) - {leading}
        mine, theirs = self._input_delta(run, leading), self._input_delta(run, other)
        found = []
        if mine.num_rows:
            values = distinct_values([(mine, self.by[leading])], self.names)
            rows = self._matching_input(run, other, "new", values)
            relations: dict[str, Relation] = {leading: mine, other: rows}
            found.append(run.relations.answer(ask, relations | self.constant_rows(run, "new")))
        if theirs.num_rows:
            values = distinct_values([(theirs, self.by[other])], self.names)
            rows = self._matching_input(run, leading, "old", values)
            if rows.num_rows:
                sides: tuple[Side, Side] = ("old", "new")
                answers = (
                    self._answer(
                        run,
                        "old",
                        {leading: rows, other: self._matching_input(run, other, side, values)},
                    )
                    for side in sides
                )
                found.append(difference(*answers))
        found = [part for part in found if part.num_rows]
        return concat_rows(found) if found else self.empty_delta()

    def _matching_input(
        self,
        run: Run,
        name: str,
        side: Side,
        values: pa.Table,
        numbers: Sequence[int] | None = None,
    ) -> pa.Table:
        """The rows of an input that have some values in the columns it falls apart by."""
        node = self.nodes[name]
        places = range(len(self.names)) if numbers is None else numbers
        asked = fit_types(values.rename_columns([self.by[name][at] for at in places]), node)
        return node.semi_join(run, side, asked).select(list(node.columns))

    def touched_values(self, run: Run) -> pa.Table | None:
        """The values that changed rows have in the columns it falls apart by; None if none did."""
        self.check_constants(run)
        deltas = {name: self._input_delta(run, name) for name in self.nodes}
        parts = [(delta, self.by[name]) for name, delta in deltas.items() if delta.num_rows]
        return distinct_values(parts, self.names) if parts else None

    def _input_delta(self, run: Run, name: str) -> pa.Table:
        delta = run.delta(self.nodes[name])
        if not delta.num_rows:
            return delta
        return consolidate(delta.select([*self.nodes[name].columns, WEIGHT]))

    def answer_for(
        self, run: Run, side: Side, values: pa.Table, numbers: Sequence[int] | None = None
    ) -> pa.Table:
        """The answer for some values of the columns it falls apart by, or of some of them."""
        relations: dict[str, Relation] = {
            name: self._matching_input(run, name, side, values, numbers) for name in self.nodes
        }
        needed = self.nodes if self.leading is None else [self.leading]
        if self._is_typed and all(is_empty(relations[name]) for name in needed):
            return self.empty_delta().drop_columns([WEIGHT])
        return self._answer(run, side, relations)

    def _answer(self, run: Run, side: Side, relations: Mapping[str, Relation]) -> pa.Table:
        constants = self.constant_rows(run, side)
        return run.relations.answer(self._ask, {**relations, **constants})

    def semi_join(self, run: Run, side: Side, values: pa.Table) -> pa.Table:
        names = values.column_names
        numbers: dict[int, str] = {}
        for name in names:
            if name in self.kept:
                numbers.setdefault(self.kept[name], name)
        if numbers:
            asked = distinct_rows(values.select(list(numbers.values())))
            rows = self.answer_for(run, side, asked, list(numbers))
        else:
            entered = self._entry_values(run, side, values)
            rows = self._rows(run, side) if entered is None else self.answer_for(run, side, entered)
        return semi_join(rows, names, values)

    def _entry_values(self, run: Run, side: Side, values: pa.Table) -> pa.Table | None:
        """The values it falls apart by of the rows of one input that are asked for.

        A null in a column of an input that need not have a row is no row of that input.
        """
        for name, node in self.nodes.items():
            places = {
                column: self.origin[column][1]
                for column in values.column_names
                if self.origin.get(column, ("", ""))[0] == name
            }
            if not places or len(set(places.values())) < len(places):
                continue
            asked = values.select(list(places)).rename_columns(list(places.values()))
            if name != self.leading and any(column.null_count for column in asked.columns):
                continue
            rows = node.semi_join(run, side, fit_types(distinct_rows(asked), node))
            return distinct_values([(rows, self.by[name])], self.names)
        return None

    def all_rows(self, run: Run, side: Side) -> Relation:
        return self._rows(run, side)

    def _rows(self, run: Run, side: Side) -> pa.Table:
        return self._answer(
            run, side, {name: node.all_rows(run, side) for name, node in self.nodes.items()}
        )
