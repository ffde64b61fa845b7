"""The queries of views over tables whose columns have other names: the same rows and plans."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.property.view_shapes import SCHEMAS_OF_SHAPES, SHAPES

from livingdb.derivation.compiler.plan_query import Input, Plan, plan
from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.request import Request, Source
from livingdb.sql.bind_query import bind_query
from livingdb.sql.bindings import BoundColumn, BoundTable
from livingdb.sql.parse import parse_statement
from livingdb.sql.render_query import render

SCHEMAS = {**SCHEMAS_OF_SHAPES, "b": pa.schema([("g", pa.string()), ("x", pa.int64())])}
KEYS = {"t": ("id",), "u": ("u", "v"), "s": ("k",), "b": None}
TEXTS = [
    pytest.param(text, marks=[pytest.mark.slow] if at % 9 else [])
    for at, (text, _) in enumerate(SHAPES)
]


def _value(kind: pa.DataType, number: int) -> object:
    if pa.types.is_string(kind):
        return "abc"[number % 3]
    if pa.types.is_decimal(kind):
        return Decimal(number % 4)
    if pa.types.is_date(kind):
        return datetime.date(2026, 1, 1 + number % 5)
    return number % 4


def _rows(name: str) -> pa.Table:
    columns = []
    for at, field in enumerate(SCHEMAS[name]):
        is_key = at < len(KEYS[name] or ())
        values = [
            row if is_key and not at else _value(field.type, row * (at + 1) + at)
            for row in range(5)
        ]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMAS[name])


ROWS = {name: _rows(name) for name in SCHEMAS}


def _bound(name: str, titles: list[str], more: list[str]) -> BoundTable:
    columns = [BoundColumn(f"{name}{at}", title) for at, title in enumerate(titles)]
    columns += [BoundColumn(f"new{at}", title) for at, title in enumerate(more)]
    return BoundTable(name, name, tuple(columns))


def _rotated(name: str) -> list[str]:
    names = list(SCHEMAS[name].names)
    return [*names[1:], names[0]]


def _crossed(name: str) -> list[str]:
    """Names that columns of other tables have, and the query as it goes."""
    others = [n for table, schema in SCHEMAS.items() if table != name for n in schema.names]
    pool = list(dict.fromkeys([*others, *SCHEMAS[name].names]))
    return pool[: len(SCHEMAS[name])]


def _same(name: str) -> list[str]:
    return list(SCHEMAS[name].names)


WAYS = {"rotated": _rotated, "crossed": _crossed, "same": _same}
WIDER = ("id", "g", "x", "u", "v", "n", "y", "label", "k")


def _renamed(name: str, way: str) -> tuple[BoundTable, pa.Table]:
    titles = WAYS[way](name)
    more = [other for other in WIDER if other not in titles] if way != "rotated" else []
    rows = ROWS[name].rename_columns(titles)
    for other in more:
        rows = rows.append_column(pa.field(other, pa.int64()), pa.array(range(rows.num_rows)))
    return _bound(name, titles, more), rows


def _answer(text: str, tables: dict[str, pa.Table]) -> tuple[pa.Schema, list[str]]:
    sources = {name: Source(rows) for name, rows in tables.items()}
    rows = EmbeddedEngine().rows(Request(parse_statement(text), sources))
    return rows.schema, sorted(map(repr, (tuple(row.values()) for row in rows.to_pylist())))


def _plan(text: str, tables: dict[str, pa.Table]) -> Plan:
    inputs = {}
    for name, rows in tables.items():
        key = KEYS[name]
        at = [] if key is None else [SCHEMAS[name].names.index(column) for column in key]
        shown = None if key is None else tuple(rows.schema.names[n] for n in at)
        inputs[name] = Input(rows.schema, shown)
    return plan(parse_statement(text), inputs)


def _used(found: Plan, tables: dict[str, BoundTable]) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {name: set() for name in tables}
    for stage in found.stages:
        for name, columns in stage.columns_used.items():
            used[name] |= {c.id for c in tables[name].columns if c.name in columns}
    return used


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("text", TEXTS)
def test_a_view_reads_the_same_columns_by_other_names(text: str, way: str) -> None:
    old = {name: _bound(name, _same(name), []) for name in SCHEMAS}
    later = {name: _renamed(name, way) for name in SCHEMAS}
    bound = bind_query(text, old)
    assert render(bound, old.values()) == text
    made = render(bound, [table for table, _ in later.values()])
    assert isinstance(made, str)
    tables = {name: rows for name, (_, rows) in later.items()}
    before, after = _plan(text, ROWS), _plan(made, tables)
    read = _used(before, old)
    if before.stages[-1].strategy != "full":  # what is answered in full counts what it mentions
        assert _used(after, {name: table for name, (table, _) in later.items()}) == read, made
        for name, columns in bound.uses().items():
            keys = {f"{name}{at}" for at in range(len(KEYS[name] or ()))}
            assert read[name] - keys <= columns, (name, read[name], columns)
    shown = [(stage.strategy, stage.reason) for stage in (before.stages[-1], after.stages[-1])]
    assert shown[0] == shown[1], made


@pytest.mark.parametrize("text", TEXTS)
def test_a_view_gives_the_same_rows_by_other_names(text: str) -> None:
    bound = bind_query(text, {name: _bound(name, _same(name), []) for name in SCHEMAS})
    expected = _answer(text, ROWS)
    for way in ("rotated", "crossed"):
        later = {name: _renamed(name, way) for name in SCHEMAS}
        made = render(bound, [table for table, _ in later.values()])
        assert isinstance(made, str)
        assert _answer(made, {name: rows for name, (_, rows) in later.items()}) == expected, made
