"""A laboratory for lineage: tables in memory, the rows behind an answer's, and rows taken away."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp
from tests.property.view_world import KEYS, TABLES, some_rows

from livingdb.derivation.column_lineage.normalize_query import is_grouped
from livingdb.derivation.compiler.plan_query import Input, plan
from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.request import Request, Source
from livingdb.sql.parse import parse_statement
from livingdb.tracing.lineage.requested_rows import RequestedRows
from livingdb.tracing.lineage.search import TracedRows, trace_rows
from livingdb.tracing.lineage.trace_query import KnownTable

ENGINE = EmbeddedEngine()
BAG = pa.schema([("g", pa.string()), ("x", pa.int32())])


def is_sufficient(text: str) -> bool:
    """Whether a row is there with the rows behind it alone: OFFSET wants others before it."""
    return parse_statement(text).find(exp.Offset) is None


def is_complete(text: str) -> bool:
    """Whether only rows behind a row can change it by going.

    Not where other rows come to its group when they go: below an aggregate is another, an outer
    join, or a condition that something be absent.  And not with OFFSET.
    """
    tree = parse_statement(text)
    for select in filter(is_grouped, tree.find_all(exp.Select)):
        inner = [other for other in select.find_all(exp.Select) if other is not select]
        absent = [n for n in select.find_all(exp.Not) if not isinstance(n.this, exp.Is)]
        sides = {join.side or join.kind for join in select.find_all(exp.Join)}
        values = [other for other in inner if isinstance(other.parent, exp.Subquery)]
        groups = [other for other in values if is_grouped(other) and _is_read(other)]
        if absent or groups or select.find(exp.Except) or sides & OUTER:
            return False
    return tree.find(exp.Offset) is None


def _is_read(select: exp.Select) -> bool:
    """Whether a query stands in FROM."""
    return isinstance(select.parent.parent, (exp.From, exp.Join))


OUTER = {"LEFT", "RIGHT", "FULL", "ANTI"}

Data = dict[str, pa.Table]
Row = tuple[Any, ...]


def tables_of(rows: Mapping[str, list[dict[str, Any]]]) -> Data:
    """The tables, and the bag."""
    made = {name: pa.Table.from_pylist(rows[name], schema=TABLES[name]) for name in TABLES}
    made["b"] = made["c"].select(["g", "x"])
    return made


def some_tables(seed: int, count: int) -> Data:
    """The tables by chance."""
    chance = random.Random(seed)
    return tables_of({name: some_rows(chance, name, count) for name in TABLES})


def alike(one: Row, other: Row) -> bool:
    """Whether rows are equal, floats but for the last places."""
    return all(
        a == b
        or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9))
        for a, b in zip(one, other, strict=True)
    )


@dataclass
class Asked:
    """A query over tables in memory."""

    text: str
    data: Data

    @cached_property
    def tables(self) -> dict[str, KnownTable]:
        used = {table.name for table in parse_statement(self.text).find_all(exp.Table)}
        return {
            name: KnownTable(Source(rows), tuple(KEYS[name]) if name in KEYS else None)
            for name, rows in self.data.items()
            if name in used
        }

    @cached_property
    def answer(self) -> pa.Table:
        return self.over({})

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Where the key of the view is, or all columns if it has none."""
        inputs = {
            name: Input(rows.schema, tuple(KEYS[name]) if name in KEYS else None)
            for name, rows in self.data.items()
        }
        key = plan(parse_statement(self.text), inputs).stages[-1].key
        names = [name.casefold() for name in self.answer.column_names]
        if key is None:
            return tuple(range(len(names)))
        return tuple(names.index(name.casefold()) for name in key)

    def over(self, other: Data) -> pa.Table:
        """The answer with other tables in the place of some."""
        sources = {name: Source(rows) for name, rows in {**self.data, **other}.items()}
        return ENGINE.rows(Request(parse_statement(self.text), sources))

    def behind(self, row: int | None) -> dict[str, TracedRows]:
        """The rows behind a row of the answer; None for all."""
        wanted = None
        if row is not None:
            asked = self.answer.slice(row, 1).select(list(self.positions))
            wanted = RequestedRows(asked, self.positions)
        return trace_rows(parse_statement(self.text), self.tables, wanted, ENGINE.rows)

    def without(self, table: str, row: int) -> list[Row]:
        """The answer without a row of a table."""
        rows = self.data[table]
        fewer = pa.concat_tables([rows.slice(0, row), rows.slice(row + 1)])
        return rows_of(self.over({table: fewer}))


def rows_of(table: pa.Table) -> list[Row]:
    """The rows as tuples."""
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def check_laws(text: str, data: Data, most: int) -> int:
    """Hold the lineage of some rows of a query against its laws; how many rows were held."""
    asked = Asked(text, data)
    before = rows_of(asked.answer)
    chosen = range(min(len(before), most))
    if not chosen:
        return 0
    found = {row: asked.behind(row) for row in chosen}
    for row, behind in found.items():
        assert not [name for name, some in behind.items() if some.is_whole], text
        if is_sufficient(text):
            again = rows_of(asked.over({name: some.rows for name, some in behind.items()}))
            assert any(alike(before[row], other) for other in again), (text, before[row], behind)
    if not is_complete(text):
        return len(found)
    for name in asked.tables:
        everything = rows_of(data[name])
        for place, gone in enumerate(everything):
            after = asked.without(name, place)
            for row, behind in found.items():
                was = sum(alike(before[row], other) for other in before)
                now = sum(alike(before[row], other) for other in after)
                if now < was:
                    assert gone in rows_of(behind[name].rows), (text, before[row], name, gone)
    return len(found)
