"""Expressions that arrays answer are what the engine answers, and others are left to it."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest
from sqlglot import exp

from livingdb.derivation.arrays.expressions import (
    ARRAY_ERRORS,
    ArrayExpression,
    array_expression,
)
from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.engines.request import Request, Source
from livingdb.sql.parse import parse_statement
from livingdb.tables.batches import flat

DAYS = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
T = pa.table(
    {
        "a": pa.array([1, -2, None, 2**40, 0]),
        "b": pa.array([3, None, -5, 7, 3], pa.int32()),
        "c": pa.array([1, 2, None, -3, 100], pa.int8()),
        "s": pa.array(["x", "Ä", None, "", "xy"]),
        "d": pa.array([DAYS[0], None, DAYS[1], DAYS[2], DAYS[0]]),
        "p": pa.array([decimal.Decimal(n) for n in ("1.25", "-0.50", "0.00", "99.99")] + [None]),
        "q": pa.array([True, False, None, True, False]),
        "f": pa.array([1.5, float("nan"), None, -0.0, 2.0]),
    }
).cast(
    pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.int32()),
            ("c", pa.int8()),
            ("s", pa.string()),
            ("d", pa.date32()),
            ("p", pa.decimal128(6, 2)),
            ("q", pa.bool_()),
            ("f", pa.float64()),
        ]
    )
)


def compiled(text: str) -> tuple[ArrayExpression | None, pa.DataType]:
    query = parse_statement(f"SELECT {text} AS value FROM t")
    assert isinstance(query, exp.Select)
    found = check_portability(query, {"t": T.schema})
    assert isinstance(found, PortableQuery), found
    return array_expression(query.selects[0].this), found.columns[0][1]


def evaluated(expression: ArrayExpression) -> pa.Array:
    found = expression.evaluate(lambda _, name: flat(T.column(name)))
    return pa.repeat(found, T.num_rows) if isinstance(found, pa.Scalar) else found


KNOWN = [
    "a",
    "f",
    "7",
    "'text'",
    "true",
    "a + b",
    "c + 1",
    "b - 1",
    "b * c",
    "-b",
    "-(b)",
    "a + -3",
    "p + p",
    "p - 1",
    "p * p",
    "p * (1 - p)",
    "b * p",
    "p * 2.5",
    "b / c",
    "a / 4",
    "CAST(c AS BIGINT)",
    "CAST(b AS INT)",
    "a = b",
    "a <> 1",
    "c < b",
    "p >= 1",
    "p < b",
    "p = 99.99",
    "s <= 'x'",
    "s <> ''",
    "d = '2026-01-01'",
    "d > '2026-01-01' AND d <= '2026-01-03'",
    "q = true",
    "a BETWEEN 0 AND 5",
    "b NOT BETWEEN 0 AND 5",
    "s BETWEEN 'a' AND 'xx'",
    "a IN (1, 2, -2)",
    "s NOT IN ('x', '')",
    "p IN (1.25, 2)",
    "a > 0 AND b > 3",
    "a > 0 OR b > 3",
    "NOT (a > 0)",
    "q AND a > 0",
    "a IS NULL",
    "f IS NOT NULL",
    "CASE WHEN a > 0 THEN b WHEN b > 0 THEN -1 END",
    "CASE WHEN q THEN s ELSE 'none' END",
    "CASE WHEN q THEN p ELSE 0 END",
    "CASE WHEN a > 0 THEN 1 ELSE NULL END",
    "coalesce(b, c, 0)",
    "coalesce(s, 'none')",
]


@pytest.fixture(scope="module")
def answers() -> dict[str, pa.ChunkedArray]:
    """What the engine says, all at once."""
    items = ", ".join(f"{text} AS c{at}" for at, text in enumerate(KNOWN))
    query = parse_statement(f"SELECT {items} FROM t")
    found = EmbeddedEngine().rows(Request(query, {"t": Source(T)}))  # type: ignore[arg-type]
    return dict(zip(KNOWN, found.columns, strict=True))


@pytest.mark.parametrize("text", KNOWN)
def test_values_and_types_are_those_of_the_engine(
    text: str, answers: dict[str, pa.ChunkedArray]
) -> None:
    found, kind = compiled(text)
    assert found is not None
    values = evaluated(found)
    assert values.type == found.type == kind == answers[text].type
    assert list(map(repr, values.to_pylist())) == list(map(repr, answers[text].to_pylist()))


@pytest.mark.parametrize(
    "text",
    [
        "f + 1",
        "f > 1",
        "f = f",
        "upper(s)",
        "a % 2",
        "p / 3",
        "a = 1.5 AND f > 0",
        "s = 'x' OR length(s) > 1",
        "CAST(a AS INT)",
        "CAST(p AS BIGINT)",
        "CASE b WHEN 3 THEN 1 END",
        "a <=> b",
        "p IN (1, b)",
    ],
)
def test_what_is_left_to_an_engine(text: str) -> None:
    assert compiled(text)[0] is None


@pytest.mark.parametrize("text", ["a * a * a", "c + c", "b / (b - 3)"])
def test_what_does_not_fit_is_left_to_an_engine(text: str) -> None:
    found, _ = compiled(text)
    assert found is not None
    with pytest.raises(ARRAY_ERRORS):
        evaluated(found)


def test_the_same_condition_has_the_same_text_whatever_its_source_is_called() -> None:
    texts = set()
    for alias in ("x", "y"):
        query = parse_statement(f"SELECT {alias}.a > 1 AS value FROM t AS {alias}")
        check_portability(query, {"t": T.schema})  # type: ignore[arg-type]
        found = array_expression(query.selects[0].this)  # type: ignore[union-attr]
        assert found is not None
        assert found.sources == {alias}
        texts.add(found.text)
    assert len(texts) == 1
