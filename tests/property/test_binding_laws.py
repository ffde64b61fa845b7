"""A stored query means the same whatever its tables' columns are called later."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from tests.property.query_texts import NAMES, Shown, queries
from tests.property.trying import tries

from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.request import Request, Source
from livingdb.errors import LivingDBError
from livingdb.sql.bind_query import bind_query
from livingdb.sql.bindings import BoundColumn, BoundQuery, BoundTable
from livingdb.sql.column_titles import with_spark_titles
from livingdb.sql.parse import parse_statement
from livingdb.sql.render_query import render

ENGINE = EmbeddedEngine()
TYPES = {
    "number": pa.int64(),
    "struct": pa.struct([("a", pa.int64()), ("b", pa.int64())]),
    "array": pa.list_(pa.int64()),
}
TABLES = ("t", "u", "id")


@dataclass(frozen=True)
class Table:
    """A table: its columns by id, name and kind, and values by which column and row."""

    name: str
    columns: tuple[tuple[str, str, str], ...]

    @property
    def shown(self) -> Shown:
        return Shown(self.name, tuple((name, kind) for _, name, kind in self.columns))

    @property
    def bound(self) -> BoundTable:
        columns = (BoundColumn(number, name, kind) for number, name, kind in self.columns)
        return BoundTable(self.name, self.name, tuple(columns))

    @property
    def rows(self) -> pa.Table:
        columns = {}
        for number, name, kind in self.columns:
            seed = sum(map(ord, f"{self.name}{number}"))
            numbers = [(seed * (row + 3)) % 4 if (seed + row) % 7 else None for row in range(4)]
            values: list[object] = list(numbers)
            if kind == "struct":
                values = [{"a": n, "b": 2} for n in numbers]
            if kind == "array":
                values = [[n, 1] for n in numbers]
            columns[name] = pa.array(values, TYPES[kind])
        return pa.table(columns)


def _unique(names: list[str]) -> bool:
    return len({name.casefold() for name in names}) == len(names)


@st.composite
def _tables(draw: st.DrawFn) -> list[Table]:
    made = []
    for table in TABLES[: draw(st.integers(1, 3))]:
        names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
        kinds = [
            draw(st.sampled_from(["number", "number", "struct", "array"])) if at else "number"
            for at in range(len(names))
        ]
        columns = zip(names, kinds, strict=True)
        made.append(Table(table, tuple((f"{table}{at}", *c) for at, c in enumerate(columns))))
    return made


@st.composite
def _later(draw: st.DrawFn, table: Table, words: list[str]) -> Table:
    """The table with other names, some of them swapped, some new columns and another order."""
    pool = [*NAMES, *words, "new`one"]
    names = [name for _, name, _ in table.columns]
    for at in range(len(names)):
        if draw(st.booleans()):
            names[at] = draw(st.sampled_from(pool))
    if draw(st.integers(0, 3)) == 0:
        names = draw(st.permutations([name for _, name, _ in table.columns]))
    assume(_unique(names))
    columns = [(n, name, kind) for (n, _, kind), name in zip(table.columns, names, strict=True)]
    for at, name in enumerate(draw(st.lists(st.sampled_from(pool), max_size=2))):
        if _unique([*names, name]):
            names.append(name)
            columns.insert(draw(st.integers(0, len(columns))), (f"new{at}", name, "number"))
    return Table(table.name, tuple(columns))


def _answer(text: str, tables: list[Table]) -> tuple[pa.Schema, list[str]]:
    tree = parse_statement(text)
    request = Request(tree.copy(), {table.name: Source(table.rows) for table in tables})
    found = with_spark_titles(tree, ENGINE.rows(request))
    return found.schema, sorted(map(repr, (tuple(row.values()) for row in found.to_pylist())))


def _check(tables: list[Table], text: str, later: list[Table]) -> None:
    try:
        expected = _answer(text, tables)
    except (LivingDBError, ValueError):
        event("the query is wrong")
        return
    bound = bind_query(text, {table.name: table.bound for table in tables})
    assert render(bound, [table.bound for table in tables]) == text
    assert BoundQuery.from_json(json.loads(json.dumps(bound.to_json()))) == bound
    made = render(bound, [table.bound for table in later])
    assert isinstance(made, str)
    event("a subquery" if "(SELECT `" in made else "names" if made != text else "the same text")
    assert _answer(made, later) == expected, f"{text}\n{made}"


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[Table], str, list[Table]]:
    tables = draw(_tables())
    text = draw(queries([table.shown for table in tables]))
    return tables, text, [draw(_later(table, ["k0", "k1", "q"])) for table in tables]


_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(
    max_examples=10,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=_SLOW,
)
@given(_cases())
def test_a_query_means_the_same_over_other_names(
    case: tuple[list[Table], str, list[Table]],
) -> None:
    _check(*case)


@pytest.mark.slow
@settings(max_examples=tries(1_000), deadline=None, suppress_health_check=_SLOW)
@given(_cases())
def test_a_query_means_the_same_over_other_names_at_length(
    case: tuple[list[Table], str, list[Table]],
) -> None:
    _check(*case)
