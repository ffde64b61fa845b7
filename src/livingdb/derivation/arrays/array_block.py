"""Linear blocks of exact types as operations on arrays: what a few rows of one source give.

From the rows of one source the others are reached along equal columns.  A table that did not
change and is reached by its key is looked up where it is kept; what was found out about the rows
of a delta, where their partners are and which conditions hold, is shared by all who ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.arrays.expressions import ArrayExpression, ColumnRef, array_expression
from livingdb.derivation.arrays.frame import Frame, Source, table_source
from livingdb.derivation.arrays.kept_rows import KeptRows, Mask, Positions, truth
from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.join_routes import RouteHop
from livingdb.derivation.operators.node import Leaf, Run
from livingdb.derivation.plan import WEIGHT, Side
from livingdb.engines.portable.portability import PortableQuery, check_portability

if TYPE_CHECKING:
    from livingdb.derivation.operators.linear_block import LinearBlock

__all__ = ["ArrayBlock", "array_block"]

MOST_ROWS = 50_000
"""Of a side of a join, beyond which an engine is quicker."""

Findings = dict[object, Any]
"""What is known about rows: positions of their partners, and where conditions hold."""


class TooManyRowsError(Exception):
    """An engine is quicker."""


@dataclass(frozen=True)
class _Hop:
    """The next source, by columns of one that was reached.

    `own` are conditions of it alone, `later` those of several sources that can be told once it
    is there.
    """

    step: RouteHop
    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    own: tuple[ArrayExpression, ...]
    later: tuple[ArrayExpression, ...]

    @cached_property
    def own_texts(self) -> tuple[str, ...]:
        """What tells its own conditions from those of another."""
        return tuple(condition.text for condition in self.own)

    @property
    def source(self) -> str:
        """The source it leads to."""
        return self.step.source

    @property
    def by(self) -> str:
        """The source it leads from."""
        assert self.step.by is not None
        return self.step.by

    def find(self, kept: KeptRows, source: Source) -> Positions:
        """Where in a table that is kept the partners of rows are, if there are any."""
        pairs = dict(zip(self.theirs, self.mine, strict=True))
        return kept.find([source(pairs[name]) for name in kept.key])

    def keep(self, kept: KeptRows, places: Positions) -> Mask:
        """Which rows have a partner for which its own conditions hold."""
        found = places >= 0
        for condition in self.own:
            found &= kept.holds(condition)[places]
        return found


@dataclass(frozen=True)
class _Route:
    """From one source to all others; `own` are conditions of that source alone."""

    own: tuple[ArrayExpression, ...]
    hops: tuple[_Hop, ...]


class ArrayBlock:
    """A linear block; `routes` are by the source whose rows are given."""

    def __init__(
        self,
        block: LinearBlock,
        projections: Mapping[str, ArrayExpression],
        routes: Mapping[str, _Route],
    ):
        self._block = block
        self._projections = projections
        self._routes = routes

    def starts_at(self, source: str) -> bool:
        """Whether what rows of a source give can be found here."""
        return source in self._routes

    def rows(
        self,
        run: Run,
        start: str,
        rows: pa.Table,
        sides: Mapping[str, Side],
        findings: Findings | None = None,
    ) -> pa.Table | None:
        """What rows of a source give beside the others, with their weights; None for nothing.

        `findings` is what is known about the rows, and what is found out joins it.  An error of
        `ARRAY_ERRORS`, or `TooManyRowsError`, leaves the answer to an engine.
        """
        route = self._routes[start]
        frame, looked_up = self._look_up(run, start, rows, {} if findings is None else findings)
        for hop in route.hops:
            if not frame.count:
                return None
            if hop.source not in looked_up:
                frame = self._reach(run, frame, hop, sides[hop.source])
            for condition in hop.later:
                frame = frame.narrow(truth(condition, frame.column, frame.count))
        return self._project(frame, start, rows) if frame.count else None

    def _look_up(
        self, run: Run, start: str, rows: pa.Table, findings: Findings
    ) -> tuple[Frame, set[str]]:
        """The rows that are left, beside their partners in tables that are kept."""
        route, source, count = self._routes[start], table_source(rows), rows.num_rows
        left = np.ones(count, bool)
        for condition in route.own:
            held = findings.get(condition.text)
            if held is None:
                held = truth(condition, lambda _, name: source(name), count)
                findings[condition.text] = held
            left &= held
        partners: dict[str, tuple[KeptRows, Positions]] = {}
        for hop in route.hops if left.any() else ():
            kept = self._kept_rows(run, hop, count) if hop.by == start else None
            if kept is None:
                continue
            place = kept.address, hop.mine, hop.theirs
            places = findings.get(place)
            if places is None:
                places = findings[place] = hop.find(kept, source)
            mask = place, hop.own_texts
            held = findings.get(mask)
            if held is None:
                held = findings[mask] = hop.keep(kept, places)
            left &= held
            partners[hop.source] = kept, places
        at = np.flatnonzero(left)
        frame = Frame(len(at), {start: source}, {start: at})
        for name, (kept, places) in partners.items():
            frame = frame.add(name, kept.column, places[at])
        return frame, set(partners)

    def _kept_rows(self, run: Run, hop: _Hop, count: int) -> KeptRows | None:
        """The table that a hop leads to by its whole key, if it is kept."""
        node = self._block.sources[hop.source]
        if not isinstance(node, Leaf) or node.key is None or {*node.key} != {*hop.theirs}:
            return None
        return run.relations.kept_rows(node.name, count)

    def _reach(self, run: Run, frame: Frame, hop: _Hop, side: Side) -> Frame:
        """The rows beside their partners in one more source."""
        kept = self._kept_rows(run, hop, frame.count)
        if kept is not None:
            places = hop.find(kept, lambda name: frame.column(hop.by, name))
            left = hop.keep(kept, places)
            return frame.narrow(left).add(hop.source, kept.column, places[left])
        mine = [frame.column(hop.by, name) for name in hop.mine]
        given = pa.Table.from_arrays(mine, names=list(hop.mine))
        values = self._block.lookup_values(given, hop.step)
        rows = self._block.sources[hop.source].semi_join(run, side, values)
        if max(rows.num_rows, frame.count) > MOST_ROWS:
            raise TooManyRowsError
        frame = frame.join([(hop.by, name) for name in hop.mine], hop.source, rows, hop.theirs)
        for condition in hop.own:
            frame = frame.narrow(truth(condition, frame.column, frame.count))
        return frame

    def _project(self, frame: Frame, start: str, rows: pa.Table) -> pa.Table:
        columns = []
        for item in self._projections.values():
            found = item.evaluate(frame.column)
            columns.append(pa.repeat(found, frame.count) if isinstance(found, pa.Scalar) else found)
        names = list(self._projections)
        if WEIGHT in rows.column_names:
            columns.append(frame.column(start, WEIGHT))
            names.append(WEIGHT)
        return pa.Table.from_arrays(columns, names=names)


def array_block(block: LinearBlock) -> ArrayBlock | None:
    """The block as operations on arrays; None if an engine has to answer it."""
    if block.laterals or block.constants:
        return None
    typed = _typed_expressions(block)
    if typed is None:
        return None
    items, conditions = typed
    projections: dict[str, ArrayExpression] = {}
    for (name, _), item in zip(block.projections, items, strict=True):
        made = array_expression(item)
        if made is None or made.type != block.types[name]:
            return None
        projections[name] = made
    tests = [(node, array_expression(node)) for node in conditions]
    routes = {start: _route(block, start, tests) for start in block.sources}
    found = {start: route for start, route in routes.items() if route is not None}
    return ArrayBlock(block, projections, found) if found else None


def _typed_expressions(block: LinearBlock) -> tuple[list[exp.Expr], list[exp.Expr]] | None:
    """Projections and conditions with notes of their types; None if engines may differ."""
    items = [item.copy() for _, item in block.projections]
    conditions = [condition.copy() for condition in block.conditions]
    named = [trees.with_alias(item, f"c{at}") for at, item in enumerate([*items, *conditions])]
    select = exp.Select(expressions=named)
    for at, (name, node) in enumerate(block.sources.items()):
        if any(kind is None for kind in node.types.values()):
            return None
        table = trees.table(name, name)
        if at:
            select.append("joins", exp.Join(this=table, kind="CROSS"))
        else:
            select.set("from_", exp.From(this=table))
    schemas = {name: pa.schema(list(node.types.items())) for name, node in block.sources.items()}
    found = check_portability(select, schemas)
    return (items, conditions) if isinstance(found, PortableQuery) else None


def _route(
    block: LinearBlock, start: str, tests: Sequence[tuple[exp.Expr, ArrayExpression | None]]
) -> _Route | None:
    """From one source to all others; None if a step or a condition is not one of arrays."""
    steps = block.routes[start]
    joined: set[frozenset[ColumnRef]] = set()
    for step in steps:
        if step.by is None or any(nulls for _, _, nulls in step.pairs):
            return None
        for mine, theirs, _ in step.pairs:
            ends = (step.by, mine), (step.source, theirs)
            if any(_is_inexact(block.sources[name].types[column]) for name, column in ends):
                return None
            joined.add(frozenset(ends))
    waiting: list[ArrayExpression] = []
    for node, test in tests:
        if _is_equation(node) and frozenset(trees.columns_in(node)) in joined:
            continue
        if test is None or not pa.types.is_boolean(test.type) or not test.sources:
            return None
        waiting.append(test)
    reached = {start}
    own = tuple(test for test in waiting if test.sources == reached)
    hops = []
    for step in steps:
        before = set(reached)
        reached.add(step.source)
        ready = [t for t in waiting if t.sources <= reached and not t.sources <= before]
        hops.append(
            _Hop(
                step,
                tuple(mine for mine, _, _ in step.pairs),
                tuple(theirs for _, theirs, _ in step.pairs),
                tuple(test for test in ready if test.sources == {step.source}),
                tuple(test for test in ready if len(test.sources) > 1),
            )
        )
    return _Route(own, tuple(hops))


def _is_equation(node: exp.Expr) -> bool:
    """Whether two columns are equal."""
    is_equal = isinstance(node, exp.EQ)
    return is_equal and trees.is_column(node.this) and trees.is_column(node.expression)


def _is_inexact(kind: pa.DataType | None) -> bool:
    """Whether values that are equal may have different bits."""
    return kind is None or bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))
