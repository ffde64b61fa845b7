"""Answers without an engine: those of the simple form, and none of any other."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from livingdb.derivation import arrow_answers
from livingdb.derivation.arrow_answers import arrow_query
from livingdb.sql.parse import parse_statement

DAY = datetime.date(2026, 1, 1)
T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4]),
        "k": pa.array([10, None, 30, 10], pa.int32()),
        "s": pa.array(["a", "B", None, ""]),
        "d": pa.array([DAY, None, DAY, DAY]),
        "f": pa.array([1.0, 2.0, None, float("nan")]),
        "b": pa.array([True, False, None, True]),
    }
)
U = pa.table(
    {
        "k": pa.array([10, 10, None, 40], pa.int32()),
        "s": pa.array(["x", "y", "z", "w"]),
        "d": pa.array([DAY, None, DAY, DAY]),
        "f": pa.array([1.0, 2.0, 3.0, 4.0]),
        "wide": pa.array([10, 20, 30, 40]),
    }
)
TABLES = {"t": T, "u": U}


def answer(text: str) -> list[tuple[object, ...]] | None:
    query = arrow_query(parse_statement(text))
    assert query is not None, "the form is simple"
    found = query.answer(TABLES)
    return None if found is None else [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("t.id = 2", [2]),
        ("t.id <> 2", [1, 3, 4]),
        ("3 <= t.id", [3, 4]),
        ("2 > t.id", [1]),
        ("t.id > -1 AND t.id < 4", [1, 2, 3]),
        ("(t.id >= 2) AND ((t.k = 10))", [4]),
        ("t.k <> 10", [3]),
        ("t.k IS NULL", [2]),
        ("t.k IS NOT NULL", [1, 3, 4]),
        ("NOT (t.k IS NULL)", [1, 3, 4]),
        ("t.d IS NULL", [2]),
        ("t.f IS NOT NULL", [1, 2, 4]),
        ("t.s = 'a'", [1]),
        ("t.s < 'a'", [2, 4]),
        ("t.s <> ''", [1, 2]),
        ("t.id = 99", []),
    ],
)
def test_comparisons_hold_as_sql_says_and_null_is_never_more(where: str, ids: list[int]) -> None:
    assert answer(f"SELECT t.id FROM t WHERE {where}") == [(one,) for one in ids]


def test_columns_come_in_the_order_and_by_the_names_asked_for() -> None:
    query = arrow_query(parse_statement("SELECT a.s AS one, a.id, a.s AS two FROM t AS a"))
    assert query is not None
    found = query.answer(TABLES)
    assert found is not None
    assert found.column_names == ["one", "id", "two"]
    assert found.column("two").to_pylist() == T.column("s").to_pylist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT t.id, u.s FROM t JOIN u ON t.k = u.k", [(1, "x"), (1, "y"), (4, "x"), (4, "y")]),
        ("SELECT u.k, t.k AS mine, u.s FROM t JOIN u ON u.k = t.k AND u.s = 'x'",
         [(10, 10, "x"), (10, 10, "x")]),
        ("SELECT t.id, u.s FROM t JOIN u ON t.k = u.k AND t.d = u.d WHERE t.id > 1", [(4, "x")]),
        ("SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.s = b.s WHERE a.id < 3",
         [(1, 1), (2, 2)]),
    ],
)  # fmt: skip
def test_joins_where_columns_are_equal(text: str, rows: list[tuple[object, ...]]) -> None:
    found = answer(text)
    assert found is not None
    assert sorted(found, key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT id FROM t",
        "SELECT t.id + 1 AS n FROM t",
        "SELECT upper(t.s) AS s FROM t",
        "SELECT 1 AS one FROM t",
        "SELECT t.id, t.id FROM t",
        "SELECT x.id FROM t",
        "SELECT DISTINCT t.id FROM t",
        "SELECT t.id FROM t LIMIT 1",
        "SELECT t.id FROM t ORDER BY t.id",
        "SELECT t.k FROM t GROUP BY t.k",
        "SELECT t.id FROM t WHERE t.id = 1 OR t.id = 2",
        "SELECT t.id FROM t WHERE NOT (t.id = 1)",
        "SELECT t.id FROM t WHERE t.id IN (1, 2)",
        "SELECT t.id FROM t WHERE t.id BETWEEN 1 AND 2",
        "SELECT t.id FROM t WHERE t.s LIKE 'a%'",
        "SELECT t.id FROM t WHERE t.id = 1.5",
        "SELECT t.id FROM t WHERE t.id = -'1'",
        "SELECT t.id FROM t WHERE t.id = NULL",
        "SELECT t.id FROM t WHERE t.b = true",
        "SELECT t.id FROM t WHERE t.k <=> 10",
        "SELECT t.id FROM t WHERE t.id = t.k",
        "SELECT t.id FROM t WHERE t.id < t.k",
        "SELECT t.id FROM t WHERE t.id + 0 = 1",
        "SELECT t.id FROM t JOIN u ON t.k < u.k",
        "SELECT t.id FROM t JOIN u ON t.k <=> u.k",
        "SELECT t.id FROM t JOIN u ON t.k = u.k AND t.id = u.k",
        "SELECT t.id FROM t LEFT JOIN u ON t.k = u.k",
        "SELECT t.id FROM t LEFT SEMI JOIN u ON t.k = u.k",
        "SELECT t.id FROM t JOIN u USING (k)",
        "SELECT t.id FROM t CROSS JOIN u",
        "SELECT t.id FROM t JOIN u ON t.id = 1",
        "SELECT t.id FROM t JOIN u ON t.k = u.k JOIN u AS w ON t.k = w.k",
        "SELECT t.id FROM t JOIN t ON t.k = t.id",
        "SELECT t.id FROM (SELECT t.id FROM t) AS t",
        "WITH t AS (SELECT 1 AS id) SELECT t.id FROM t",
        "SELECT t.id FROM t WHERE EXISTS (SELECT u.k FROM u)",
        "SELECT t.id FROM t UNION ALL SELECT u.k FROM u",
        "SELECT t.id FROM db.t",
        "SELECT t.id FROM t TABLESAMPLE (5 ROWS)",
        "SELECT 1 AS one",
    ],
)  # fmt: skip
def test_what_is_not_of_the_simple_form_is_left_to_an_engine(text: str) -> None:
    assert arrow_query(parse_statement(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.id FROM t WHERE t.f = 1",
        "SELECT t.id FROM t WHERE t.s = 1",
        "SELECT t.id FROM t WHERE t.id = '1'",
        "SELECT t.id FROM t WHERE t.d = '2026-01-01'",
        "SELECT t.id FROM t WHERE t.b = 1",
        "SELECT t.id FROM t WHERE t.k < 3000000000",
        "SELECT t.id FROM t WHERE t.id > -99999999999999999999",
        "SELECT t.id FROM t JOIN u ON t.f = u.f",
        "SELECT t.id FROM t JOIN u ON t.k = u.wide",
        "SELECT t.id FROM t JOIN u ON t.s = u.k",
    ],
)
def test_types_that_engines_compare_in_their_own_ways_are_left_to_them(text: str) -> None:
    assert answer(text) is None


def test_a_large_table_is_left_to_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_answers, "MOST_ROWS", 3)
    assert answer("SELECT t.id FROM t") is None
