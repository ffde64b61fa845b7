"""Lineage of the queries of TPC-H: each is taken apart, and its rows are made of what is found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.property.lineage_lab import ENGINE, alike, rows_of
from tests.tpch_data import generate
from tests.tpch_queries import KEYS, QUERIES

from livingdb.derivation.column_lineage.query_columns import columns_of_query
from livingdb.derivation.compiler.plan_query import Input, plan
from livingdb.engines.request import Request, Source
from livingdb.sql.parse import parse_statement
from livingdb.tracing.lineage.requested_rows import RequestedRows
from livingdb.tracing.lineage.search import trace_rows
from livingdb.tracing.lineage.trace_query import KnownTable

NOT_SUFFICIENT = {22}
"""Its mean is of customers who have orders, too, and are not counted only because of these."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return generate(Path(tmp_path_factory.mktemp("tpch")), 0.002)


def _answer(number: int, data: dict[str, pa.Table]) -> pa.Table:
    sources = {name: Source(rows) for name, rows in data.items()}
    return ENGINE.rows(Request(parse_statement(QUERIES[number]), sources))


@pytest.mark.slow
@pytest.mark.parametrize("number", QUERIES)
def test_a_query(number: int, data: dict[str, pa.Table]) -> None:
    tree = parse_statement(QUERIES[number])
    used = {table.name for table in tree.find_all(exp.Table)}
    tables = {n: KnownTable(Source(rows), KEYS[n]) for n, rows in data.items() if n in used}
    answer = _answer(number, data)
    inputs = {name: Input(rows.schema, KEYS[name]) for name, rows in data.items()}
    key = plan(parse_statement(QUERIES[number]), inputs).stages[-1].key
    names = [name.casefold() for name in answer.column_names]
    places = range(len(names)) if key is None else [names.index(k.casefold()) for k in key]
    schemas = {name: rows.schema for name, rows in data.items()}
    found = columns_of_query(parse_statement(QUERIES[number]), schemas)
    assert len(found.values) == len(names)
    for row in {0, answer.num_rows // 2} if answer.num_rows else ():
        wanted = RequestedRows(answer.slice(row, 1).select(list(places)), tuple(places))
        behind = trace_rows(tree, tables, wanted, ENGINE.rows)
        assert not any(some.is_whole for some in behind.values())
        again = _answer(number, {**data, **{name: some.rows for name, some in behind.items()}})
        is_there = any(alike(rows_of(answer)[row], other) for other in rows_of(again))
        assert is_there or number in NOT_SUFFICIENT
