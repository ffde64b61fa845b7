"""Linear blocks: filters, projections, inner joins and LATERAL VIEW.

What changes is a sum of terms, one for each source that changed: the sources before it as they
were, its delta, the sources after it as they are now.  Sources are read only where join keys
of the delta lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.operators.join_routes import ColumnRef, Link, RouteHop, joined_key, routes
from livingdb.derivation.operators.moved_constants import MovedConstants
from livingdb.derivation.operators.node import Leaf, Node, Run, in_memory_rows, is_empty
from livingdb.derivation.operators.value_lookups import fit_types, is_comparable
from livingdb.derivation.plan import WEIGHT, Ask, Relation, Side
from livingdb.derivation.weighted_rows import (
    concat_rows,
    consolidate,
    distinct_rows,
    semi_join,
)

if TYPE_CHECKING:
    from livingdb.derivation.arrays.array_block import ArrayBlock

__all__ = ["LinearBlock"]


class LinearBlock(Node):
    """A selection over inner joins of its sources."""

    def __init__(
        self,
        sources: Mapping[str, Node],
        conditions: Sequence[exp.Expr],
        projections: Sequence[tuple[str, exp.Expr]],
        laterals: Sequence[exp.Expr] = (),
        constants: Mapping[str, Leaf] | None = None,
    ):
        self.sources = dict(sources)
        self.conditions = list(conditions)
        self.projections = list(projections)
        self.laterals = list(laterals)
        spoken = {t.name for e in self._expressions() for t in e.find_all(exp.Table)}
        self.constants = {k: leaf for k, leaf in (constants or {}).items() if k in spoken}
        self.columns = tuple(name for name, _ in self.projections)
        self.strategy = "join" if len(self.sources) > 1 else "linear"
        self._used = self._columns_used()
        self.links = tuple(self._links())
        self.types = trees.column_types(self._select(), self._schemas())
        self._is_typed = all(kind is not None for kind in self.types.values())
        self.required = frozenset(
            name
            for name, item in self.projections
            if isinstance(item, exp.Column)
            and item.table in self.sources
            and item.name in self.sources[item.table].required
        )
        self.key = None if self.laterals or self._explodes() else joined_key(self)
        self._ask = Ask(self._select(), (*self.sources, *self.constants))
        self.routes = routes(self.sources, self.links)
        self._asks = {name: self._delta_ask(name) for name in self.sources}
        self._filters = {name: self._filter_ask(name) for name in self.sources}
        self._moved = MovedConstants(self) if self.constants else None

    # --- what it is -----------------------------------------------------------------------------

    def inputs(self) -> Mapping[str, Node]:
        return self.sources

    def used_columns(self, name: str) -> tuple[str, ...]:
        return self._used[name]

    def full_query(self) -> exp.Query:
        return self._select({name: node.full_query() for name, node in self.sources.items()})

    @cached_property
    def is_rename(self) -> bool:
        """Whether it only chooses columns of one source and gives them names."""
        plain = all(trees.is_column(item) for _, item in self.projections)
        return plain and len(self.sources) == 1 and not self.conditions and not self.laterals

    def _expressions(self) -> list[exp.Expr]:
        return [*(item for _, item in self.projections), *self.conditions, *self.laterals]

    def _explodes(self) -> bool:
        kinds = (exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest, exp.ExplodeOuter)
        return any(item.find(*kinds) is not None for _, item in self.projections)

    def _columns_used(self) -> dict[str, tuple[str, ...]]:
        spoken = set(trees.columns_in(*self._expressions()))
        found = {}
        for name, node in self.sources.items():
            columns = tuple(column for column in node.columns if (name, column) in spoken)
            found[name] = columns
        return found

    def _schemas(self) -> dict[str, Mapping[str, pa.DataType | None]]:
        found = {name: node.types for name, node in self.sources.items()}
        found |= {name: leaf.types for name, leaf in self.constants.items()}
        for lateral in self.laterals:
            alias = lateral.args["alias"]
            found[alias.name] = self._exploded_types(
                [name.name for name in alias.columns], lateral.this
            )
        return found

    def _exploded_types(self, names: list[str], call: exp.Expr) -> dict[str, pa.DataType | None]:
        """The types of the columns that LATERAL VIEW makes of a column."""
        inner = call.this
        kind = None
        if isinstance(inner, exp.Column) and inner.table in self.sources:
            kind = self._type((inner.table, inner.name))
        if kind is not None and pa.types.is_list(kind) and len(names) == 1:
            return {names[0]: kind.value_type}
        if kind is not None and pa.types.is_map(kind) and len(names) == 2:
            return {names[0]: kind.key_type, names[1]: kind.item_type}
        return dict.fromkeys(names)

    def _links(self) -> Iterable[Link]:
        for condition in self.conditions:
            if not isinstance(condition, (exp.EQ, exp.NullSafeEQ)):
                continue
            left, right = condition.this, condition.expression
            if not (isinstance(left, exp.Column) and isinstance(right, exp.Column)):
                continue
            if left.table == right.table or not {left.table, right.table} <= set(self.sources):
                continue
            one, other = (left.table, left.name), (right.table, right.name)
            if is_comparable(self._type(one), self._type(other)):
                yield Link(one, other, isinstance(condition, exp.NullSafeEQ))

    def _type(self, place: ColumnRef) -> pa.DataType | None:
        return self.sources[place[0]].types.get(place[1])

    # --- its queries ----------------------------------------------------------------------------

    def _select(
        self, nested: Mapping[str, exp.Query] | None = None, weight_of: str | None = None
    ) -> exp.Select:
        said = self._with_constants if nested is not None else _copy_expression
        items = [trees.with_alias(said(item), name) for name, item in self.projections]
        if weight_of is not None:
            items.append(trees.with_alias(trees.column(weight_of, WEIGHT), WEIGHT))
        made = exp.Select(expressions=items)
        waiting = [said(condition) for condition in self.conditions]
        seen: set[str] = set()
        for name in self.sources:
            seen.add(name)
            source = self._from_item(name, nested)
            if len(seen) == 1:
                made.set("from_", exp.From(this=source))
                continue
            ready = [
                c for c in waiting if self._relations_in(c) <= seen and self._can_be_on(c, name)
            ]
            waiting = [c for c in waiting if not any(c is other for other in ready)]
            on = trees.and_all(ready)
            join = exp.Join(this=source, on=on) if on else exp.Join(this=source, kind="CROSS")
            made.append("joins", join)
        if self.laterals:
            made.set("laterals", [said(lateral) for lateral in self.laterals])
        where = trees.and_all(waiting)
        if where is not None:
            made.set("where", exp.Where(this=where))
        return made

    def query_over(self, source: exp.Expr) -> exp.Select:
        """The query with something else in the place of its only source."""
        made = self._select()
        made.set("from_", exp.From(this=source))
        return made

    def _from_item(self, name: str, nested: Mapping[str, exp.Query] | None) -> exp.Expr:
        node = self.sources[name]
        if nested is None:
            return trees.table(name, name)
        if isinstance(node, Leaf):
            return trees.table(node.name, name)
        return exp.Subquery(
            this=nested[name], alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        )

    def _with_constants(self, expression: exp.Expr) -> exp.Expr:
        """An expression that reads its constants from the stages they are."""
        made = expression.copy()
        for node in made.find_all(exp.Table):
            leaf = self.constants.get(node.name)
            if leaf is not None:
                node.set("this", exp.to_identifier(leaf.name, quoted=True))
        return made

    def _relations_in(self, condition: exp.Expr) -> set[str]:
        return {name for name, _ in trees.columns_in(condition) if name in self.sources}

    def _can_be_on(self, condition: exp.Expr, name: str) -> bool:
        """Whether a condition can stand after ON, where no queries may be."""
        lateral = {alias for alias, _ in trees.columns_in(condition)} - set(self.sources)
        is_query = condition.find(exp.Query, exp.Subquery) is not None
        return not lateral and not is_query and name in self._relations_in(condition)

    def _delta_ask(self, name: str) -> Ask:
        return Ask(self._select(weight_of=name), (*self.sources, *self.constants))

    def _filter_ask(self, name: str) -> Ask | None:
        """The rows of a source that its own conditions leave; None if that decides nothing."""
        own = [
            condition
            for condition in self.conditions
            if {alias for alias, _ in trees.columns_in(condition)} == {name}
            and condition.find(exp.Query, exp.Subquery) is None
        ]
        if len(self.sources) == 1 or not own:
            return None
        kept = [*self._used[name], WEIGHT]
        made = exp.Select(
            expressions=[trees.with_alias(trees.column(name, column), column) for column in kept],
            where=exp.Where(this=trees.and_all(own)),
        )
        made.set("from_", exp.From(this=trees.table(name, name)))
        return Ask(made, (name,))

    # --- its rows -------------------------------------------------------------------------------

    def delta(self, run: Run) -> pa.Table:
        moved = None if self._moved is None else self._moved.delta(run)
        found = [moved] if moved is not None and moved.num_rows else []
        names = list(self.sources)
        for at, name in enumerate(names):
            delta = run.delta(self.sources[name])
            if not delta.num_rows:
                continue
            sides: dict[str, Side] = {
                other: "old" if place < at else "new" for place, other in enumerate(names)
            }
            term = self._term_of(run, name, delta, sides)
            if term is not None and term.num_rows:
                found.append(term)
        return concat_rows(found) if found else self.empty_delta()

    def _term_of(
        self, run: Run, name: str, delta: pa.Table, sides: Mapping[str, Side]
    ) -> pa.Table | None:
        """What the delta of a source gives beside the others; None if that is nothing."""
        if self.is_rename:
            return self.term(run, name, delta, sides)
        source = self.sources[name]
        findings = run.relations.findings(source.name) if isinstance(source, Leaf) else None
        found = self._array_rows(run, name, delta, sides, findings)
        if found is not None:
            return found
        delta = consolidate(delta.select([*self._used[name], WEIGHT]))
        ask = self._filters[name]
        if ask is not None and delta.num_rows:
            delta = run.relations.answer(ask, {name: delta})
        return self.term(run, name, delta, sides) if delta.num_rows else None

    @cached_property
    def _arrays(self) -> ArrayBlock | None:
        from livingdb.derivation.arrays.array_block import array_block

        return array_block(self)

    def _array_rows(
        self,
        run: Run,
        name: str,
        rows: pa.Table,
        sides: Mapping[str, Side],
        findings: dict[object, Any] | None = None,
    ) -> pa.Table | None:
        """What rows of a source give, without an engine; None if one has to be asked."""
        from livingdb.derivation.arrays.array_block import TooManyRowsError
        from livingdb.derivation.arrays.expressions import ARRAY_ERRORS

        if self._arrays is None or not self._arrays.starts_at(name):
            return None
        try:
            found = self._arrays.rows(run, name, rows, sides, findings)
        except (*ARRAY_ERRORS, TooManyRowsError):
            return None
        if found is not None:
            return found
        empty = self.empty_delta()
        return empty if WEIGHT in rows.column_names else empty.drop_columns([WEIGHT])

    def term(
        self, run: Run, name: str, delta: pa.Table, sides: Mapping[str, Side]
    ) -> pa.Table | None:
        """What weighted rows of one source give beside the others; None if that is nothing."""
        if self.is_rename:
            return self._rename_columns(delta).append_column(WEIGHT, delta.column(WEIGHT))
        relations = self._reachable_rows(run, {name: delta}, self.routes[name], sides)
        if relations is None:
            return None
        relations |= self.constant_rows(run, "new")
        return run.relations.answer(self._asks[name], relations)

    def _rename_columns(self, rows: pa.Table) -> pa.Table:
        columns = [rows.column(item.name) for _, item in self.projections]
        return pa.Table.from_arrays(columns, names=list(self.columns))

    def semi_join(self, run: Run, side: Side, values: pa.Table) -> pa.Table:
        start, places = self._entry_source(values.column_names)
        if start is None:
            rows = self._rows(run, side)
            return semi_join(rows, values.column_names, values)
        asked = distinct_rows(values.select(list(places)))
        asked = asked.rename_columns([places[name] for name in places])
        first = self.sources[start].semi_join(run, side, asked)
        is_exact = set(places) == set(values.column_names)
        if self.is_rename:
            rows = self._rename_columns(first)
            return rows if is_exact else semi_join(rows, values.column_names, values)
        sides: dict[str, Side] = dict.fromkeys(self.sources, side)
        found = self._array_rows(run, start, first, sides)
        if found is not None:
            return found if is_exact else semi_join(found, values.column_names, values)
        relations = self._reachable_rows(run, {start: first}, self.routes[start], sides)
        if relations is None:
            return self.empty_delta().drop_columns([WEIGHT])
        rows = run.relations.answer(self._ask, relations | self.constant_rows(run, side))
        return rows if is_exact else semi_join(rows, values.column_names, values)

    def _entry_source(self, names: Sequence[str]) -> tuple[str | None, dict[str, str]]:
        """The source that most of the columns come from unchanged, and their names there."""
        items = dict(self.projections)
        found: dict[str, dict[str, str]] = {name: {} for name in self.sources}
        for name in names:
            item = items[name]
            if not isinstance(item, exp.Column) or item.table not in self.sources:
                continue
            found[item.table].setdefault(name, item.name)
            for link in self.links:
                ends = {link.one: link.other, link.other: link.one}
                other = ends.get((item.table, item.name))
                if other is not None and self._type(other) == self._type((item.table, item.name)):
                    found[other[0]].setdefault(name, other[1])
        best = max(found, key=lambda name: self._entry_rank(name, found[name]))
        places: dict[str, str] = {}
        for name, place in found[best].items():
            if place not in places.values():
                places[name] = place
        return (best, places) if places else (None, {})

    def _entry_rank(self, source: str, places: Mapping[str, str]) -> tuple[int, int]:
        key = self.sources[source].key or ()
        return len(places), int(bool(key) and key[0] in places.values())

    def all_rows(self, run: Run, side: Side) -> Relation:
        return self._rows(run, side)

    def _rows(self, run: Run, side: Side) -> pa.Table:
        relations: dict[str, Relation] = {
            name: node.all_rows(run, side) for name, node in self.sources.items()
        }
        if self.is_rename:
            rows = in_memory_rows(relations[next(iter(relations))])
            if rows is not None:
                return self._rename_columns(rows)
        return run.relations.answer(self._ask, relations | self.constant_rows(run, side))

    # --- from one source to the others ----------------------------------------------------------

    def _reachable_rows(
        self,
        run: Run,
        known: Mapping[str, pa.Table],
        route: Sequence[RouteHop],
        sides: Mapping[str, Side],
    ) -> dict[str, Relation] | None:
        """The rows of all sources that can meet those of the first; None if none can."""
        found: dict[str, Relation] = dict(known)
        if self._is_typed and any(is_empty(rows) for rows in found.values()):
            return None
        for step in route:
            node, side = self.sources[step.source], sides[step.source]
            by = found.get(step.by) if step.by is not None else None
            if not isinstance(by, pa.Table):
                rows = node.all_rows(run, side)
            else:
                rows = node.semi_join(run, side, self.lookup_values(by, step))
            if self._is_typed and is_empty(rows):
                return None
            found[step.source] = rows
        return found

    def lookup_values(self, rows: pa.Table, step: RouteHop) -> pa.Table:
        """The values that lead from rows of one source to the next."""
        source = self.sources[step.source]
        columns = [rows.column(one) for one, _, _ in step.pairs]
        values = pa.Table.from_arrays(columns, names=[other for _, other, _ in step.pairs])
        strict = [other for _, other, nulls in step.pairs if not nulls]
        if strict and any(values.column(name).null_count for name in strict):
            for name in strict:
                values = values.filter(values.column(name).is_valid())
        return fit_types(distinct_rows(values), source)


def _copy_expression(expression: exp.Expr) -> exp.Expr:
    return expression.copy()
