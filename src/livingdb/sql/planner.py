"""From a syntax tree to a Request: each table becomes a pruned source of its own.

Every occurrence of a table becomes a relation of its own, registered with the session and
pruned by what the query says about it right there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.engine_choice import answer_request
from livingdb.engines.request import Request, Source
from livingdb.sql.column_titles import with_spark_titles
from livingdb.sql.condition_ranges import ranges_of_all
from livingdb.sql.parameters import Parameters
from livingdb.sql.scope import Scope
from livingdb.sql.table_conditions import conditions_on, owner_of
from livingdb.sql.table_names import (
    check_columns,
    check_sources,
    is_range,
    source_of,
    table_nodes,
    written_name,
)
from livingdb.sql.written_places import Renamed, written_query
from livingdb.tables.letter_case import column_names
from livingdb.tables.rows import RowSet

__all__ = ["Planner"]


class Planner:
    """Plans and runs the queries of one statement."""

    def __init__(
        self,
        scope: Scope,
        parameters: Mapping[str, object],
        wanted: str | None = None,
    ):
        self.scope = scope
        self.parameters = dict(parameters)
        self.engine = "embedded"
        """Spark, once it has answered a query of the statement."""
        self._wanted = wanted
        self._count = 0

    def request(
        self, query: exp.Query, text: str | None = None, given: Parameters = None
    ) -> Request:
        """The query over the rows its tables stand for.

        `text` is what its user wrote, and `given` its parameters, if it is the whole of one.
        """
        bound = query.copy()
        check_sources(bound)
        tables = [table for table in table_nodes(bound) if not is_range(table)]
        found = {id(table): self._source(table) for table in tables}
        rows = {key: source.rows for key, source in found.items()}
        check_columns(bound, map(_column_names, rows.values()))
        sources: dict[str, Source] = {}
        names = []
        for table in tables:
            name = f"livingdb_{self._count}"
            self._count += 1
            sources[name] = self._prune(table, found[id(table)], rows)
            names.append((table, name))
        renamed = _qualify(tables)
        written = None
        if text is not None:
            at = [(table.copy(), name) for table, name in names]
            written = partial(written_query, text, at, [(c.copy(), n) for c, n in renamed], given)
        for column, name in renamed:
            column.set("db", None)
            column.set("table", exp.to_identifier(name, quoted=True))
        for table, name in names:
            _point_at(table, name)
        return Request(bound, sources, self.parameters, self.scope.trust, written)

    def parameter(self, value: object) -> exp.Placeholder:
        """A value as part of a tree."""
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return exp.Placeholder(this=name)

    def run(self, query: exp.Query) -> pa.Table:
        """The rows the query gives, in Spark's types and with Spark's names for its columns."""
        return self.answer(self.request(query), query)

    def run_over(self, query: exp.Query, rows: pa.Table) -> pa.Table:
        """The rows that a query gives whose one table stands for these rows."""
        bound = query.copy()
        tables = table_nodes(bound)
        check_columns(bound, [rows.column_names])
        for table in tables:
            _point_at(table, "livingdb_rows")
        sources = {"livingdb_rows": Source(rows)}
        return self.answer(Request(bound, sources, self.parameters, self.scope.trust), query)

    def answer(self, request: Request, query: exp.Query) -> pa.Table:
        """The rows of a request that was made of the query."""
        rows, name = answer_request(request, self._wanted)
        if name == "embedded":
            return with_spark_titles(query, rows)
        self.engine = name
        return rows

    def _source(self, table: exp.Table) -> Source:
        return source_of(self.scope, table, self.parameters)

    def _prune(
        self, table: exp.Table, source: Source, rows: Mapping[int, RowSet | pa.Table]
    ) -> Source:
        """The source with the ranges the query needs it in."""
        owner = owner_of(table, rows)
        if owner is None:
            return source
        wanted = ranges_of_all(conditions_on(table), owner, self.parameters)
        return replace(source, ranges=wanted)


def _column_names(rows: RowSet | pa.Table) -> list[str]:
    return list(rows.schema.names) if isinstance(rows, pa.Table) else column_names(rows.schema)


def _point_at(table: exp.Table, name: str) -> None:
    """Make the table the relation of that name, called what it was called before."""
    if not table.alias:
        called = exp.to_identifier(written_name(table), quoted=True)
        alias = table.args.get("alias") or exp.TableAlias()
        alias.set("this", called)
        table.set("alias", alias)
    for part in ("db", "catalog", "version"):
        table.set(part, None)
    table.set("this", exp.to_identifier(name))


def _qualify(tables: list[exp.Table]) -> list[Renamed]:
    """Let columns find tables of other branches: `dev.orders.id` names one by both its names."""
    found: dict[int, Renamed] = {}
    for table in tables:
        if not table.db or table.alias:
            continue
        select = table.find_ancestor(exp.Select)
        same = [
            other
            for other in tables
            if other is not table
            and other.find_ancestor(exp.Select) is select
            and other.alias_or_name.casefold() == table.name.casefold()
        ]
        branch, name = table.db.casefold(), table.name.casefold()
        if same:
            alias = exp.to_identifier(f"{table.db}.{table.name}", quoted=True)
            table.set("alias", exp.TableAlias(this=alias))
        for column in select.find_all(exp.Column) if select is not None else ():
            if column.args.get("db") is None or column.db.casefold() != branch:
                continue
            if column.table.casefold() == name:
                found.setdefault(id(column), (column, table.alias_or_name))
    return list(found.values())
