"""Backward row lineage of a query (why-provenance), from its answer down to its tables.

A query is traced from its answer down.  Of each SELECT the rows in FROM that the rows asked for
are made of are found by the SELECT itself, with a condition that says which rows are asked for;
where something in FROM is a query, its rows are asked for in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.column_lineage.normalize_query import (
    Untraceable,
    has_aggregate,
    is_correlated,
    is_grouped,
    relations_of,
    selects_of,
    without_alias,
    without_parentheses,
)
from livingdb.derivation.compiler import query_trees as trees
from livingdb.engines.request import Request, Source
from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.condition_ranges import ranges_of_all
from livingdb.sql.table_conditions import conditions_on, owner_of
from livingdb.tables.rows import RowSet
from livingdb.tracing.lineage.filter_rows import filter_rows
from livingdb.tracing.lineage.from_clause import (
    HERE,
    FromRows,
    add_condition,
    can_be_missing,
    from_rows,
    group_keys,
    mark_present,
    merge_inner_query,
    partitions_of,
    table_alias,
)
from livingdb.tracing.lineage.requested_rows import (
    NOTHING,
    RequestedRows,
    is_comparable,
    one_of_condition,
)
from livingdb.tracing.lineage.subqueries import InnerQuery, inner_queries

__all__ = ["Answer", "KnownTable", "QueryTracer", "TableTrace"]

Answer = Callable[[Request], pa.Table]


@dataclass(frozen=True)
class KnownTable:
    """A table that a query reads; without a key its rows are told apart by all they hold."""

    source: Source
    key: tuple[str, ...] | None


@dataclass
class TableTrace:
    """What was found of one table: whole rows, and keys of rows; or that all of it matters."""

    rows: list[pa.Table] = field(default_factory=list)
    keys: list[pa.Table] = field(default_factory=list)
    is_whole: bool = False


class QueryTracer:
    """Traces rows of one query."""

    def __init__(self, tables: Mapping[str, KnownTable], answer: Answer):
        self._tables = tables
        self._answer = answer
        self._wanted: dict[str, pa.Table] = {}
        self.found = {name: TableTrace() for name in tables}

    # --- queries --------------------------------------------------------------------------------

    def trace(self, tree: exp.Expr, wanted: RequestedRows | None) -> None:
        """Find the rows that those rows of a query's answer are made of; None for all of them."""
        tree = without_parentheses(tree)
        try:
            if wanted is not None and not wanted.rows.num_rows:
                return
            if isinstance(tree, exp.Select):
                self._trace_select(tree, wanted)
            elif isinstance(tree, exp.SetOperation):
                self._trace_set_operation(tree, wanted)
            else:
                raise Untraceable(type(tree).__name__)
        except (Untraceable, InvalidData, Unsupported):
            self.trace_all(tree)

    def trace_all(self, tree: exp.Expr) -> None:
        """All rows of the tables that a query reads may matter."""
        for table in tree.find_all(exp.Table):
            if table.name in self.found:
                self.found[table.name].is_whole = True

    def _trace_set_operation(self, tree: exp.SetOperation, wanted: RequestedRows | None) -> None:
        if tree.args.get("by_name"):
            raise Untraceable("BY NAME")
        if wanted is None and (not isinstance(tree, exp.Union) or tree.args.get("limit")):
            wanted = self._all_rows(tree)
        self.trace(tree.this, wanted)
        if not isinstance(tree, exp.Except):
            self.trace(tree.expression, wanted)

    def _all_rows(self, tree: exp.Expr) -> RequestedRows:
        """All rows of an answer, as rows that are asked for."""
        rows = self._ask(tree)
        places = [n for n, kind in enumerate(rows.schema.types) if is_comparable(kind)]
        return RequestedRows(rows.select(places), tuple(places))

    def _trace_select(self, select: exp.Select, wanted: RequestedRows | None) -> None:
        if not relations_of(select):
            return
        if wanted is None and (select.args.get("limit") or select.args.get("qualify")):
            wanted = self._all_rows(select)
        flow = from_rows(select)
        condition = self._condition(select, flow, wanted)
        if condition == NOTHING:
            return
        flow = flow.where(condition)
        self._trace_from(flow, [*inner_queries(select)])

    # --- which rows in FROM -----------------------------------------------------------------

    def _condition(
        self, select: exp.Select, flow: FromRows, wanted: RequestedRows | None
    ) -> exp.Expr:
        """What the rows in FROM meet that the rows asked for are made of."""
        windows = list(partitions_of(select))
        if wanted is None:
            having = select.args.get("having")
            if having is None or select.args.get("group") is None:
                return exp.true()
            return self._groups_condition(select, flow, having.this)
        if windows:
            return self._partitions_condition(select, flow, windows, wanted)
        if is_grouped(select):
            return self._answer_groups_condition(select, flow, wanted)
        return self._requested_condition(select, wanted)

    def _requested_condition(
        self, select: exp.Select, wanted: RequestedRows, nulls_match_all: bool = False
    ) -> exp.Expr:
        """The condition that the items of a SELECT are those of a row that is asked for."""
        items = {at: without_alias(select.expressions[at]) for at in wanted.positions}
        kinds = dict(zip(wanted.positions, wanted.rows.schema.types, strict=True))
        plain = [
            at
            for at, item in items.items()
            if is_comparable(kinds[at]) and item.find(exp.Query) is None
        ]
        chosen = plain or [at for at in items if is_comparable(kinds[at])]
        return self._one_of_condition(
            [items[at] for at in chosen], wanted.select_columns(chosen).rows, nulls_match_all
        )

    def _one_of_condition(
        self, expressions: Sequence[exp.Expr], rows: pa.Table, nulls_match_all: bool = False
    ) -> exp.Expr:
        name = f"w{len(self._wanted)}"
        self._wanted[name] = rows.rename_columns([f"c{n}" for n in range(rows.num_columns)])
        return one_of_condition(expressions, rows, name, nulls_match_all)

    def _answer_groups_condition(
        self, select: exp.Select, flow: FromRows, wanted: RequestedRows
    ) -> exp.Expr:
        """The members of the groups that are asked for."""
        group = select.args.get("group")
        if group is None:
            return exp.true()
        keys = group_keys(group)
        plain = [
            at
            for at in wanted.positions
            if not has_aggregate(without_alias(select.expressions[at]))
        ]
        if keys is None:
            return self._requested_condition(
                select, wanted.select_columns(plain), nulls_match_all=True
            )
        shown = [without_alias(select.expressions[at]) for at in plain]
        if all(key in shown for key in keys):
            return self._requested_condition(select, wanted.select_columns(plain))
        condition = self._requested_condition(select, wanted)
        having = select.args.get("having")
        if having is not None:
            condition = trees.and_all([having.this, condition]) or condition
        return self._groups_condition(select, flow, condition)

    def _groups_condition(self, select: exp.Select, flow: FromRows, having: exp.Expr) -> exp.Expr:
        """The members of the groups for which a condition holds."""
        keys = group_keys(select.args["group"])
        if not keys:
            return exp.true()
        ask = flow.select.copy()
        ask.set(
            "expressions", [trees.with_alias(key.copy(), f"c{n}") for n, key in enumerate(keys)]
        )
        ask.set("group", select.args["group"].copy())
        ask.set("having", exp.Having(this=having.copy()))
        return self._one_of_condition(keys, self._ask(ask))

    def _partitions_condition(
        self, select: exp.Select, flow: FromRows, windows: Sequence[exp.Expr], wanted: RequestedRows
    ) -> exp.Expr:
        """The rows of the partitions that the rows asked for are in."""
        conditions: list[exp.Expr] = []
        for partition in windows:
            parts = partition.expressions
            if not parts:
                return exp.true()
            values = self._requested_partitions(select, parts, wanted)
            if not is_grouped(select):
                conditions.append(self._one_of_condition(parts, values))
                continue
            if select.args.get("group") is None:
                return exp.true()
            having = select.args.get("having")
            chosen = [] if having is None else [having.this]
            chosen.append(self._one_of_condition(parts, values))
            conditions.append(
                self._groups_condition(select, flow, trees.and_all(chosen) or exp.true())
            )
        made = conditions[0]
        for condition in conditions[1:]:
            made = exp.Or(this=made, expression=condition)
        return made

    def _requested_partitions(
        self, select: exp.Select, parts: Sequence[exp.Expr], wanted: RequestedRows
    ) -> pa.Table:
        """The values by which the rows asked for are partitioned."""
        inner = select.copy()
        for clause in ("distinct", "limit", "offset", "order"):
            inner.set(clause, None)
        items = [
            trees.with_alias(without_alias(i).copy(), f"i{n}")
            for n, i in enumerate(inner.expressions)
        ]
        inner.set(
            "expressions",
            [*items, *(trees.with_alias(part.copy(), f"p{n}") for n, part in enumerate(parts))],
        )
        outer = exp.select(*(trees.column("q", f"p{n}") for n in range(len(parts)))).distinct()
        outer = outer.from_(exp.Subquery(this=inner, alias=table_alias("q")))
        chosen = [trees.column("q", f"i{n}") for n in range(len(items))]
        shown = exp.Select(expressions=chosen)
        return self._ask(outer.where(self._requested_condition(shown, wanted)))

    # --- rows in FROM -----------------------------------------------------------------------

    def _trace_from(self, flow: FromRows, inner: Sequence[InnerQuery]) -> None:
        """Find what is behind the rows in FROM, and behind the queries in expressions on them."""
        for name in flow.traced:
            self._trace_relation(flow, name)
        for query in inner:
            self._trace_inner(flow, query)

    def _trace_relation(self, flow: FromRows, name: str) -> None:
        select = flow.select.copy()
        node, join = next((n, j) for n, j in relations_of(select) if n.alias == name)
        kind = "" if join is None else str(join.kind).upper()
        if kind == "ANTI":
            return
        if kind == "SEMI":
            assert join is not None
            join.set("kind", None)
            join.set("side", None)
        query = node.this if isinstance(node, exp.Subquery) else None
        known = None if query is not None else self._tables[node.name]
        columns = self._columns(node)
        is_alone = len(relations_of(select)) == 1 and not select.args.get("laterals")
        if known is not None and is_alone:
            columns = known.source.schema.names
        elif known is not None and known.key is not None:
            columns = list(known.key)
        if can_be_missing(select, name):
            mark_present(node, columns, name)
            add_condition(select, trees.column(name, HERE))
        items = [trees.with_alias(trees.column(name, c), f"c{n}") for n, c in enumerate(columns)]
        select.set("expressions", items)
        if not is_alone:
            select.set("distinct", exp.Distinct())
        rows = self._table_rows(select, node) if is_alone and query is None else self._ask(select)
        if query is not None:
            places = [n for n, k in enumerate(rows.schema.types) if is_comparable(k)]
            self.trace(query, RequestedRows(rows.select(places), tuple(places)))
            return
        assert known is not None
        rows = rows.rename_columns(columns)
        traced = self.found[node.name]
        (traced.rows if is_alone else traced.keys).append(rows)

    def _table_rows(self, select: exp.Select, node: exp.Expr) -> pa.Table:
        """Rows of one table; those that plain comparisons single out are not asked for."""
        every = self._tables[node.name].source.rows
        where = select.args.get("where")
        known = None
        if isinstance(every, RowSet) and where is not None:
            known = filter_rows(every, where.this)
        if known is None:
            return self._ask(select)
        rows, is_all = known
        return rows if is_all else self._ask(select, {node.name: rows})

    def _columns(self, node: exp.Expr) -> list[str]:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return list(self._tables[node.name].source.schema.names)
        if not isinstance(node, exp.Subquery):
            raise Untraceable(type(node).__name__)
        names = [item.alias_or_name for item in node.this.selects]
        given = [column.name for column in node.args["alias"].args.get("columns") or ()]
        return given or names

    # --- queries in expressions -----------------------------------------------------------------

    def _trace_inner(self, flow: FromRows, inner: InnerQuery) -> None:
        if not is_correlated(inner.query):
            self.trace(inner.query, self._compared_rows(flow, inner))
            return
        try:
            for select in selects_of(inner.query):
                if relations_of(select):
                    self._trace_from(
                        merge_inner_query(flow, select, inner), [*inner_queries(select)]
                    )
        except (Untraceable, InvalidData, Unsupported):
            self.trace_all(inner.query)

    def _compared_rows(self, flow: FromRows, inner: InnerQuery) -> RequestedRows | None:
        """The rows that IN looks for in a query; None if it is not IN."""
        if not inner.compared or any(map(has_aggregate, inner.compared)):
            return None
        select = flow.select.copy()
        items = [trees.with_alias(e.copy(), f"c{n}") for n, e in enumerate(inner.compared)]
        select.set("expressions", items)
        select.set("distinct", exp.Distinct())
        return RequestedRows(self._ask(select), tuple(range(len(items))))

    # --- asking ---------------------------------------------------------------------------------

    def _ask(self, tree: exp.Expr, read: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """The answer to a query over the tables and the rows that are asked for.

        `read` are the rows of the table in FROM that were read already.
        """
        query = tree.copy()
        tables = list(query.find_all(exp.Table))
        sources: dict[str, Source] = {}
        known: dict[int, Source] = {}
        for number, table in enumerate(tables):
            if table.name in self._wanted and table.name == table.alias:
                sources[table.name] = Source(self._wanted[table.name])
                continue
            is_read = read is not None and table.parent_select is query
            given = None if read is None or not is_read else read.get(table.name)
            source = self._tables[table.name].source
            known[id(table)] = source if given is None else Source(given)
            name = f"livingdb_{number}"
            sources[name] = known[id(table)]
            table.set("this", exp.to_identifier(name, quoted=True))
        rows = {key: source.rows for key, source in known.items()}
        for table in tables:
            if id(table) not in known:
                continue
            owner = owner_of(table, rows)
            if owner is not None:
                wanted = ranges_of_all(conditions_on(table), owner, {})
                sources[table.name] = replace(sources[table.name], ranges=wanted)
        assert isinstance(query, exp.Query)
        return self._answer(Request(query, sources))
