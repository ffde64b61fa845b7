"""What is answered without an engine is what the engine answers."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livingdb.derivation import query_answers as answers
from livingdb.derivation.arrow_answers import arrow_query
from livingdb.derivation.plan import Ask
from livingdb.derivation.query_answers import EmbeddedAnswers
from livingdb.sql.parse import parse_statement

COLUMNS = {"a": pa.int64(), "b": pa.int32(), "s": pa.string(), "d": pa.date32()}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.integers(-2, 3),
    "b": st.integers(-2, 3),
    "s": st.sampled_from(["", "a", "A", "å", "ab", "it's", "😀"]),
    "d": st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 3)),
}
ROWS = st.lists(st.fixed_dictionaries({n: st.none() | v for n, v in VALUES.items()}), max_size=12)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema(list(COLUMNS.items())))


@st.composite
def comparisons(draw: st.DrawFn, alias: str) -> str:
    """A test of a column."""
    column = f"{alias}.{draw(st.sampled_from(['a', 'b', 's', 'd']))}"
    form = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>", "null", "not null", "mirrored"]))
    if form in ("null", "not null"):
        return f"{column} IS {form.upper()}"
    name = column[-1]
    if name == "d":
        return f"{column} IS NOT NULL"
    value = draw(VALUES[name])
    text = "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
    return f"{text} <= {column}" if form == "mirrored" else f"{column} {form} {text}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    two = draw(st.booleans())
    aliases = ["x", "y"] if two else ["x"]
    shown = draw(
        st.lists(st.sampled_from([f"{t}.{c}" for t in aliases for c in COLUMNS]), min_size=1)
    )
    parts = [f"{column} AS c{at}" for at, column in enumerate(shown)]
    where = draw(st.lists(st.sampled_from(aliases).flatmap(comparisons), max_size=3))
    text = f"SELECT {', '.join(parts)} FROM one AS x"
    if two:
        keys = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=2, unique=True))
        equal = [f"x.{k} = y.{k}" if draw(st.booleans()) else f"y.{k} = x.{k}" for k in keys]
        inside = [test for test in where if draw(st.booleans())]
        where = [test for test in where if test not in inside]
        text += f" JOIN other AS y ON {' AND '.join([*equal, *inside])}"
    return text + (f" WHERE {' AND '.join(where)}" if where else "")


@given(queries(), ROWS, ROWS)
def test_as_the_engine_answers(
    query: str, one: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    relations = {"one": table(one), "other": table(other)}
    tree: Any = parse_statement(query)
    quick = arrow_query(tree)
    assert quick is not None, query
    used = {name: relations[name] for name in quick.tables.values()}
    found = quick.answer(used)
    assert found is not None, query
    ask = Ask(tree, tuple(used))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "arrow_query", lambda _: None)
        wanted = EmbeddedAnswers().answer(ask, used)  # type: ignore[arg-type]
    assert found.schema.names == wanted.schema.names
    assert found.schema.types == wanted.schema.types
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist())), query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM one AS x",
        "SELECT x.a + 1 AS a FROM one AS x",
        "SELECT DISTINCT x.a AS a FROM one AS x",
        "SELECT count(*) AS n FROM one AS x",
        "SELECT x.a AS a FROM one AS x WHERE x.a > 1 OR x.b > 1",
        "SELECT x.a AS a FROM one AS x WHERE x.a > 1.5",
        "SELECT x.a AS a FROM one AS x WHERE NOT x.a > 1",
        "SELECT x.a AS a FROM one AS x LIMIT 1",
        "SELECT x.a AS a FROM one AS x ORDER BY a",
        "SELECT x.a AS a FROM one AS x, other AS y",
        "SELECT x.a AS a FROM one AS x LEFT JOIN other AS y ON x.a = y.a",
        "SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a < y.a",
        "SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a = x.b",
        "SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a = y.a AND x.b = y.a",
        "SELECT x.a AS a FROM one AS x JOIN other AS y USING (a)",
        "SELECT x.a AS a, x.b AS a FROM one AS x",
        "SELECT x.a AS a FROM (SELECT 1 AS a) AS x",
        "SELECT x.a AS a FROM one AS x UNION ALL SELECT y.a AS a FROM other AS y",
    ],
)
def test_what_is_left_to_the_engine(query: str) -> None:
    assert arrow_query(parse_statement(query)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "one", "other"),
    [
        ("SELECT x.a AS a FROM one AS x WHERE x.a > 1", pa.float64(), pa.int64()),
        ("SELECT x.a AS a FROM one AS x WHERE x.a > '1'", pa.int64(), pa.int64()),
        ("SELECT x.a AS a FROM one AS x WHERE x.a = 1000", pa.int8(), pa.int64()),
        ("SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a = y.a", pa.int64(), pa.int32()),
        ("SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a = y.a", pa.float64(), pa.float64()),
        (
            "SELECT x.a AS a FROM one AS x JOIN other AS y ON x.a = y.a",
            pa.decimal128(5, 2),
            pa.decimal128(5, 2),
        ),
    ],
)
def test_types_that_are_left_to_the_engine(
    query: str, one: pa.DataType, other: pa.DataType
) -> None:
    quick = arrow_query(parse_statement(query))  # type: ignore[arg-type]
    assert quick is not None
    given = {
        "one": pa.table({"a": pa.array([1], one)}),
        "other": pa.table({"a": pa.array([1], other)}),
    }
    assert quick.answer(given) is None
