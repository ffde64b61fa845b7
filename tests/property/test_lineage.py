"""The laws of lineage, by brute force over views of every shape.

*Sufficient*: a view over nothing but the rows behind one of its rows has that row.
*Complete*: a source row that takes a view's row away by going, or changes it, is behind it.
*Exact*: of filters, joins and groups, the rows behind a row are those that one would name by hand.
*Forward*: what changes in views when a row goes is among what the row has a part in.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.lineage_lab import (
    Asked,
    Row,
    check_laws,
    rows_of,
    some_tables,
    tables_of,
)
from tests.property.trying import HAS_TIME, tries
from tests.property.view_world import QUERIES, TABLES, ViewWorld, contents, key_of, some_rows
from tests.thinned import thinned

import livingdb

quick = settings(
    max_examples=tries(300) if HAS_TIME else 3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
_SHAPES = QUERIES[::3]
_MORE_SHAPES = [query for query in QUERIES if query not in _SHAPES]


@pytest.mark.parametrize("query", thinned(_SHAPES, every=6))
def test_every_third_shape(query: str) -> None:
    check_laws(query, some_tables(len(query), 5), 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("query", QUERIES)
def test_every_shape(query: str, seed: int) -> None:
    check_laws(query, some_tables(seed, 7), 6)


def test_tables_and_joins_in_parentheses() -> None:
    for joined in ("(t JOIN u ON (t.u) = ((u.u)))", "(t) LEFT JOIN (u) ON (t.u = u.u)"):
        query = f"SELECT t.id, (u.v) AS v FROM {joined} WHERE ((t.x > 0))"
        assert check_laws(query, some_tables(1, 7), 6) > 0


@quick
@given(contents(), st.lists(st.sampled_from(_MORE_SHAPES), min_size=3, max_size=6, unique=True))
def test_shapes_over_any_rows(rows: dict[str, list[dict[str, Any]]], queries: list[str]) -> None:
    for query in queries:
        check_laws(query, tables_of(rows), 3)


# --- by hand ------------------------------------------------------------------------------------

Hand = Callable[[dict[str, Any], dict[str, list[dict[str, Any]]]], dict[str, list[dict[str, Any]]]]


def _joined(row: dict[str, Any], data: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    t = [r for r in data["t"] if r["id"] == row["id"]]
    return {"t": t, "u": [u for u in data["u"] if u["u"] == t[0]["u"] and u["v"] == row["v"]]}


EXACT: dict[str, Hand] = {
    "SELECT id, x FROM t WHERE x > 1": lambda row, data: {
        "t": [r for r in data["t"] if r["id"] == row["id"]]
    },
    "SELECT g, count(*) AS n, sum(x) AS s FROM t WHERE x > 0 GROUP BY g": lambda row, data: {
        "t": [r for r in data["t"] if r["g"] == row["g"] and r["x"] is not None and r["x"] > 0]
    },
    "SELECT g, sum(x) AS s FROM t GROUP BY g HAVING count(*) > 1": lambda row, data: {
        "t": [r for r in data["t"] if r["g"] == row["g"]]
    },
    "SELECT t.id, u.v, u.name FROM t JOIN u ON t.u = u.u": _joined,
    "SELECT t.id, u.v, u.name FROM t LEFT JOIN u ON t.u = u.u": _joined,
    "SELECT DISTINCT g FROM t": lambda row, data: {
        "t": [r for r in data["t"] if r["g"] == row["g"]]
    },
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.u = t.u)": lambda row, data: {
        "t": [r for r in data["t"] if r["id"] == row["id"]],
        "u": [],
    },
    "SELECT id FROM t WHERE u IN (SELECT u FROM u WHERE v > 1)": lambda row, data: {
        "t": [r for r in data["t"] if r["id"] == row["id"]],
        "u": [
            u
            for u in data["u"]
            if u["v"] > 1 and u["u"] in [r["u"] for r in data["t"] if r["id"] == row["id"]]
        ],
    },
    "SELECT g FROM t UNION SELECT name FROM u": lambda row, data: {
        "t": [r for r in data["t"] if r["g"] == row["g"]],
        "u": [u for u in data["u"] if u["name"] == row["g"]],
    },
    "SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM t": lambda row, data: {
        "t": [
            r
            for r in data["t"]
            if r["g"] in [other["g"] for other in data["t"] if other["id"] == row["id"]]
        ]
    },
    "SELECT count(*) AS n FROM t WHERE x > 1": lambda row, data: {
        "t": [r for r in data["t"] if r["x"] is not None and r["x"] > 1]
    },
}


@pytest.mark.parametrize(("query", "seed"), thinned(EXACT, [3, 4, 5], every=6))
def test_what_one_would_name_by_hand(query: str, seed: int) -> None:
    data = some_tables(seed, 9)
    asked = Asked(query, data)
    plain = {name: rows.to_pylist() for name, rows in data.items()}
    assert asked.answer.num_rows
    for place, row in enumerate(asked.answer.to_pylist()):
        wanted = EXACT[query](row, plain)
        found = asked.behind(place)
        for name, rows in wanted.items():
            assert _sorted(found[name].rows.to_pylist()) == _sorted(rows), (query, row, name)


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("query", [*EXACT, "SELECT x FROM b INTERSECT SELECT v FROM u"])
def test_all_rows_at_once(query: str) -> None:
    """The rows behind all rows are those behind any of them."""
    data = some_tables(11, 8)
    asked = Asked(query, data)
    every: dict[str, set[Row]] = {name: set() for name in asked.tables}
    for place in range(asked.answer.num_rows):
        for name, some in asked.behind(place).items():
            every[name] |= set(rows_of(some.rows))
    whole = asked.behind(None)
    assert {name: set(rows_of(some.rows)) for name, some in whole.items()} == every


@pytest.mark.slow
def test_in_a_database() -> None:
    """The same rows are found in tables that are stored, with changes that are not folded yet."""
    chance = random.Random(5)
    queries = ["SELECT * FROM t", *QUERIES[4::8]]
    with (
        tempfile.TemporaryDirectory() as folder,
        livingdb.create(Path(folder) / "a.ldb", engine="embedded") as db,
    ):
        world = ViewWorld(db)
        world.fill({name: some_rows(chance, name, 8) for name in TABLES})
        for number, query in enumerate(queries):
            world.derive(f"v{number}", query, immediate=True)
        world.main.sql("UPDATE t SET x = x + 1, g = 'ø' WHERE id % 2 = 0")
        world.main.sql("DELETE FROM u WHERE v = 1")
        db.propagate()
        for number, query in enumerate(queries):
            _check_stored(db, f"v{number}", query)


def _check_stored(db: livingdb.Database, view: str, query: str) -> None:
    # A change of columns that it does not read leaves a view at the snapshot it was made from.
    at = db.at(view).sources
    data = {name: db.at(at.get("main", "main")).table(name).to_arrow() for name in TABLES}
    data["b"] = db.at(at.get("b", "b")).table("b").to_arrow()
    asked = Asked(query, data)
    held = db.branch(view).table(view)
    names = list(held.key) or held.schema.names
    answer = asked.answer.rename_columns(held.schema.names)
    for place, row in enumerate(answer.slice(0, 3).to_pylist()):
        key = {name: row[name] for name in names}
        if any(isinstance(value, float) for value in key.values()):
            continue
        found = db.lineage(view, key or None, base=False)
        behind = asked.behind(place)
        for name, rows in found.items():
            stored, wanted = rows.drop_columns(["_snapshot"]), behind.pop(name).rows
            assert stored.schema.names == wanted.schema.names
            assert _sorted(stored.to_pylist()) == _sorted(wanted.to_pylist()), (asked.text, row)
        assert not any(some.rows.num_rows for some in behind.values()), asked.text


# --- forward ------------------------------------------------------------------------------------


def _counted(rows: pa.Table, columns: list[str]) -> Counter[tuple[str, ...]]:
    places = [rows.column_names.index(name) for name in columns]
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows_of(rows):
        found[tuple(_shown(row[place]) for place in places)] += 1
    return found


def _shown(value: object) -> str:
    return f"{value + 0.0:.6e}" if isinstance(value, float) else repr(value)


def _check_forward(seed: int, queries: list[str], most: int) -> None:
    chance = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        livingdb.create(Path(folder) / "a.ldb", engine="embedded") as db,
    ):
        world = ViewWorld(db)
        world.fill({name: some_rows(chance, name, 6) for name in TABLES})
        for number, query in enumerate(queries):
            world.derive(f"v{number}", query, immediate=True)
        db.propagate()
        for table in TABLES:
            for row in world.main.table(table).to_arrow().slice(0, most).to_pylist():
                found = db.forward_lineage("main", table, key_of(table, row))
                _check_gone(db, table, key_of(table, row), queries, found)
        assert db.check().problems == []


def _check_gone(
    db: livingdb.Database, table: str, key: tuple[Any, ...], queries: list[str], found: Any
) -> None:
    names = [*TABLES]
    before = {name: db.branch("main").table(name).to_arrow() for name in names}
    keys = db.branch("main").table(table).key
    after = dict(before)
    kept = [row for row in before[table].to_pylist() if tuple(row[c] for c in keys) != key]
    after[table] = pa.Table.from_pylist(kept, schema=before[table].schema)
    for data in (before, after):
        data["b"] = data["c"].select(["g", "x"])
    for number, query in enumerate(queries):
        held = db.branch(f"v{number}").table(f"v{number}")
        columns = list(held.key) or held.schema.names
        every = [
            Asked(query, data).answer.rename_columns(held.schema.names) for data in (before, after)
        ]
        was, now = (_counted(rows, held.schema.names) for rows in every)
        places = [held.schema.names.index(name) for name in columns]
        changed = {tuple(row[p] for p in places) for row in (was - now) + (now - was)}
        told = set(_counted(found[f"v{number}"], columns)) if f"v{number}" in found else set()
        assert changed <= told, (query, table, key, changed - told)


@pytest.mark.slow
def test_what_changes_when_a_row_goes() -> None:
    _check_forward(7, list(QUERIES[::10]), 1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_what_changes_in_every_shape(part: int) -> None:
    _check_forward(part, list(QUERIES[part::4]), 3)
