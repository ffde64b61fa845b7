"""The same statements here and in DuckDB over plain tables give the same rows."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries
from tests.unit.sql.twin import BranchScope, Database

from livingdb.tables.layout import Layout

ROWS = 600
NAMES = ["", "a", "ab", "abc", "b", "é", "東京", "a%", None]
SCHEMA = {
    "k": "string",
    "n": "int",
    "x": "double",
    "d": "decimal(8,2)",
    "s": "string",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
}
KEY = ["k", "n"]


def _data() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "k": ["p" + str(i % 5) for i in numbers],
            "n": pa.array([i // 5 - 60 for i in numbers], pa.int32()),
            "x": [None if i % 13 == 0 else math.nan if i % 17 == 0 else i / 8 for i in numbers],
            "d": pa.array(
                [None if i % 7 == 0 else decimal.Decimal(i - 300) / 4 for i in numbers],
                pa.decimal128(8, 2),
            ),
            "s": [NAMES[i * i % len(NAMES)] for i in numbers],
            "b": [None if i % 3 == 0 else i % 2 == 0 for i in numbers],
            "day": pa.array([None if i % 11 == 0 else i for i in numbers], pa.date32()),
            "at": pa.array([i * 3_600_000_000 for i in numbers], pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[BranchScope, duckdb.DuckDBPyConnection]]:
    database = Database()
    data = _data()
    database.create("t", SCHEMA, KEY, data, layout=Layout(target_rows=32))
    database.create(
        "u", {"n": "int", "s": "string"}, "n", {"n": [-3, 0, 5, 900], "s": ["a", "é", None, "b"]}
    )
    main = database.branch()
    # Some of the rows lie in a tail over the tree.
    main.sql("UPDATE t SET x = x + 1 WHERE n % 9 = 0")
    main.sql("DELETE FROM t WHERE n = 20")
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    for name in ("t", "u"):
        rows = main.rows(name).to_arrow()
        plain.register("given", rows)
        plain.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        plain.unregister("given")
    yield main, plain
    plain.close()


def same(main: BranchScope, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    ours = main.sql(text).to_arrow()
    theirs = plain.sql(text).to_arrow_table()
    assert _bag(ours) == _bag(theirs), text


def _bag(table: pa.Table) -> list[str]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(repr(tuple(map(_plain, row))) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    return float(round(value, 6)) if isinstance(value, (int, float)) else value


OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
INTEGERS = st.integers(-70, 70)
DECIMALS = st.decimals(-90, 90, places=3)
TEXTS = st.sampled_from(["''", "'a'", "'ab'", "'é'", "'zz'", "'東'", "'p3'"])
DAYS = st.integers(1, 28).map(lambda day: f"DATE '1970-02-{day:02}'")
TIMES = st.integers(0, 23).map(lambda hour: f"TIMESTAMPTZ '1970-01-09 {hour:02}:00:00+00'")


def _compare(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    plain = st.builds(lambda op, v: f"{column} {op} {v}", OPERATORS, values)
    mirrored = st.builds(lambda op, v: f"{v} {op} {column}", OPERATORS, values)
    between = st.builds(lambda a, b: f"{column} BETWEEN {a} AND {b}", values, values)
    among = st.lists(values, min_size=1, max_size=4).map(
        lambda items: f"{column} IN ({', '.join(map(str, items))})"
    )
    return st.one_of(plain, mirrored, between, among)


ATOMS = st.one_of(
    _compare("n", INTEGERS),
    _compare("n", DECIMALS),
    _compare("x", INTEGERS),
    _compare("x", DECIMALS),
    _compare("d", DECIMALS),
    _compare("d", INTEGERS),
    _compare("s", TEXTS),
    _compare("k", TEXTS),
    _compare("k", st.sampled_from(["'p0'", "'p1'", "'p4'"])),
    _compare("day", DAYS),
    st.sampled_from(["b", "NOT b", "s IS NULL", "x IS NOT NULL", "s LIKE 'a%'", "k LIKE 'p1%'",
                     "s LIKE '%b'", "n % 2 = 0", "x > d", "b IS DISTINCT FROM TRUE"]),
)  # fmt: skip
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
        st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
        st.builds(lambda a: f"NOT ({a})", inner),
    ),
    max_leaves=5,
)


@settings(max_examples=tries(150))
@given(condition=CONDITIONS)
def test_conditions(both: Any, condition: str) -> None:
    same(*both, f"SELECT k, n, x, s FROM t WHERE {condition}")


@settings(max_examples=tries(40))
@given(first=CONDITIONS, second=CONDITIONS, group=st.sampled_from(["k", "s", "b", "k, b"]))
def test_aggregates(both: Any, first: str, second: str, group: str) -> None:
    same(
        *both,
        f"SELECT {group}, count(*), sum(n), min(x), max(d), count(DISTINCT s), sum(d) FROM t "
        f"WHERE {first} GROUP BY {group} HAVING count(*) > 1 OR bool_or({second})",
    )


JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])


@settings(max_examples=tries(60))
@given(join=JOINS, on=CONDITIONS, where=CONDITIONS)
def test_joins(both: Any, join: str, on: str, where: str) -> None:
    def qualified(condition: str) -> str:
        words = condition.replace("(", "( ").replace(")", " )").split(" ")
        return " ".join(f"t.{word}" if word in SCHEMA else word for word in words)

    text = (
        f"SELECT t.k, t.n, u.n AS other FROM t {join} u ON t.n = u.n AND {qualified(on)} "
        f"WHERE {qualified(where)}"
    )
    same(*both, text)


@settings(max_examples=tries(30))
@given(outer=CONDITIONS, inner=CONDITIONS)
def test_subqueries(both: Any, outer: str, inner: str) -> None:
    same(
        *both,
        f"WITH c AS (SELECT * FROM t WHERE {inner}) SELECT k, n FROM t WHERE {outer} AND n IN "
        f"(SELECT n FROM c) UNION ALL SELECT k, n FROM c WHERE {outer}",
    )


# --- changes --------------------------------------------------------------------------------

VALUES = st.integers(-3, 3)
NEW_ROWS = st.lists(
    st.tuples(st.integers(0, 15), st.one_of(st.none(), VALUES)),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[0],
)
CHANGE_CONDITIONS = st.sampled_from(
    ["id < 5", "id = 7", "v IS NULL", "v > 0 OR id = 3", "id IN (1, 2, 12)", "v = id", "true",
     "id BETWEEN 4 AND 9 AND v < 3", "id IN (SELECT max(id) FROM t)"]
)  # fmt: skip
MOVES = CHANGE_CONDITIONS.map(lambda condition: f"({condition})")
CHANGES = st.one_of(
    st.builds(lambda c: ("DELETE FROM t WHERE {}", c), CHANGE_CONDITIONS),
    st.builds(lambda c: ("UPDATE t SET v = v + id, w = upper(w) WHERE {}", c), CHANGE_CONDITIONS),
    st.builds(lambda c: ("UPDATE t SET id = id + {step}00 WHERE id < 16 AND {}", c), MOVES),
    st.builds(lambda rows: ("insert", rows), NEW_ROWS),
    st.builds(lambda rows, c: ("merge", (rows, c)), NEW_ROWS, CHANGE_CONDITIONS),
)  # fmt: skip


def _literal(rows: list[tuple[int, int | None]]) -> str:
    return ", ".join(f"({i}, {'NULL' if v is None else v}, 'w{i}')" for i, v in rows)


def _statement(kind: str, what: Any, step: int) -> str:
    if kind == "insert":
        return (
            f"INSERT INTO t SELECT * FROM (VALUES {_literal(what)}) AS g(id, v, w) "
            "WHERE id NOT IN (SELECT id FROM t)"
        )
    if kind == "merge":
        rows, condition = what
        words = condition.split(" ")
        mine = " ".join(f"t.{word}" if word in ("id", "v") else word for word in words)
        return (
            f"MERGE INTO t USING (SELECT * FROM (VALUES {_literal(rows)}) AS g(id, v, w)) AS s "
            f"ON t.id = s.id WHEN MATCHED AND {mine} THEN DELETE "
            "WHEN MATCHED AND s.v > 0 THEN UPDATE SET v = s.v + t.v, w = s.w "
            "WHEN NOT MATCHED AND s.v IS NOT NULL THEN INSERT (id, v, w) VALUES (s.id, s.v, s.w) "
            "WHEN NOT MATCHED BY SOURCE AND t.v = 1 THEN UPDATE SET w = 'left'"
        )
    return kind.format(what, step=step)


@settings(max_examples=tries(40))
@given(
    start=st.lists(st.tuples(st.integers(0, 15), VALUES), max_size=10, unique_by=lambda r: r[0]),
    steps=st.lists(CHANGES, min_size=1, max_size=6),
)
def test_sequences_of_changes(start: list[tuple[int, int]], steps: list[tuple[str, Any]]) -> None:
    database = Database()
    schema = {"id": "bigint", "v": "bigint", "w": "string"}
    rows = [{"id": i, "v": v, "w": "start"} for i, v in start]
    database.create("t", schema, "id", rows)
    main = database.branch()
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t (id BIGINT, v BIGINT, w VARCHAR)")
        if rows:
            plain.executemany("INSERT INTO t VALUES (?, ?, 'start')", [list(row) for row in start])
        for step, (kind, what) in enumerate(steps, 1):
            text = _statement(kind, what, step)
            theirs = plain.execute(text).fetchall()
            assert main.sql(text).changed == theirs[0][0], text
            expected = plain.sql("SELECT * FROM t ORDER BY id").fetchall()
            assert [(r["id"], r["v"], r["w"]) for r in main.all("t")] == expected, text
