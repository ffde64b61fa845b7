"""What is portable, and the types Spark would give, without Spark."""

from __future__ import annotations

import cProfile
import datetime
import decimal

import pyarrow as pa
import pytest
from sqlglot import exp

from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
from livingdb.engines.embedded.session import Session
from livingdb.engines.portable.portability import PortableQuery, as_spark_types, check_portability
from livingdb.errors import InvalidData
from livingdb.sql.parse import parse_statement

SCHEMAS = {
    "t": pa.schema(
        [
            ("tiny", pa.int8()),
            ("small", pa.int16()),
            ("i", pa.int32()),
            ("big", pa.int64()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("price", pa.decimal128(10, 2)),
            ("long", pa.decimal128(38, 10)),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("x", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("plain", pa.timestamp("us")),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("lat", pa.float64()), ("in", pa.struct([("n", pa.int8())]))])),
            ("extra", pa.map_(pa.string(), pa.int32())),
        ]
    ),
    "U": pa.schema([("i", pa.int32()), ("other", pa.string())]),
}
TIMESTAMP = pa.timestamp("us", "UTC")


def query_of(text: str) -> exp.Query:
    tree = parse_statement(text)
    assert isinstance(tree, exp.Query)
    return tree


def found(text: str, **parameters: object) -> PortableQuery | str:
    return check_portability(query_of(text), SCHEMAS, parameters)


def type_of(expression: str, **parameters: object) -> pa.DataType:
    answer = found(f"SELECT {expression} AS v FROM t", **parameters)
    assert isinstance(answer, PortableQuery), answer
    [(name, data_type)] = answer.columns
    assert name == "v"
    return data_type


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", pa.int32()),
        ("2147483648", pa.int64()),
        ("-2147483648", pa.int32()),
        ("-9223372036854775808", pa.int64()),
        ("9223372036854775808", pa.decimal128(19, 0)),
        ("1.10", pa.decimal128(3, 2)),
        (".05", pa.decimal128(2, 2)),
        ("1e3", pa.float64()),
        ("NULL", pa.null()),
        ("DATE '2024-02-29'", pa.date32()),
        ("TIMESTAMP '2024-02-29 10:00:00'", TIMESTAMP),
        ("TIMESTAMP_NTZ '2024-02-29 10:00:00'", pa.timestamp("us")),
        ("X'FF'", pa.binary()),
        ("tiny + tiny", pa.int8()),
        ("tiny + 1", pa.int32()),
        ("small * big", pa.int64()),
        ("i / i", pa.float64()),
        ("tiny div 2", pa.int64()),
        ("i % big", pa.int64()),
        ("f + f", pa.float32()),
        ("f + d", pa.float64()),
        ("price + 1", pa.decimal128(11, 2)),
        ("price * -2", pa.decimal128(12, 2)),
        ("price + i", pa.decimal128(13, 2)),
        ("price * price", pa.decimal128(21, 4)),
        ("price + d", pa.float64()),
        ("price % 3", pa.decimal128(3, 2)),
        ("round(price, 1)", pa.decimal128(10, 1)),
        ("ceil(price)", pa.decimal128(9, 0)),
        ("ceil(d)", pa.int64()),
        ("sum(price)", pa.decimal128(20, 2)),
        ("sum(long)", pa.decimal128(38, 10)),
        ("sum(tiny)", pa.int64()),
        ("sum(f)", pa.float64()),
        ("avg(i)", pa.float64()),
        ("count(DISTINCT i, s)", pa.int64()),
        ("max(day)", pa.date32()),
        ("length(s)", pa.int32()),
        ("day + 1", pa.date32()),
        ("day + INTERVAL 1 MONTH", pa.date32()),
        ("at - INTERVAL 3 HOURS", TIMESTAMP),
        ("plain + INTERVAL 1 DAY", pa.timestamp("us")),
        ("date_trunc('day', day)", TIMESTAMP),
        ("datediff(at, day)", pa.int32()),
        ("CAST(price AS DECIMAL(5, 1))", pa.decimal128(5, 1)),
        ("TRY_CAST(s AS DATE)", pa.date32()),
        ("CASE WHEN b THEN 1 ELSE 2.5 END", pa.decimal128(11, 1)),
        ("CASE WHEN b THEN day ELSE at END", TIMESTAMP),
        ("coalesce(NULL, tiny, i)", pa.int32()),
        ("day = '2024-01-01'", pa.bool_()),
        ("at BETWEEN '2024-01-01' AND '2024-01-02 03:04:05'", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("extra", pa.map_(pa.string(), pa.int32())),
        ("place.lat", pa.float64()),
        ("t.place.in.n", pa.int8()),
        ("(SELECT max(other) FROM u)", pa.string()),
        ("row_number() OVER (ORDER BY i)", pa.int32()),
        ("lag(price) OVER (ORDER BY i)", pa.decimal128(10, 2)),
        ("sum(small) OVER (PARTITION BY s)", pa.int64()),
    ],
)
def test_types(expression: str, expected: pa.DataType) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, pa.int32()),
        (2**40, pa.int64()),
        (True, pa.bool_()),
        (1.5, pa.float64()),
        ("x", pa.string()),
        (b"x", pa.binary()),
        (datetime.date(2024, 1, 1), pa.date32()),
        (datetime.datetime(2024, 1, 1), TIMESTAMP),
        ([1, 2], pa.list_(pa.int32())),
        (decimal.Decimal("1E+3"), pa.decimal128(4, 0)),
        (datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), TIMESTAMP),
        (None, pa.null()),
    ],
)
def test_parameters_are_typed_by_their_values(value: object, expected: pa.DataType) -> None:
    assert type_of(":p", p=value) == expected


@pytest.mark.parametrize("value", [decimal.Decimal("NaN"), [1, "a"], [], [None], {}, 2**70])
def test_some_parameters_are_not_portable(value: object) -> None:
    assert "parameter" in str(found("SELECT :p AS v", p=value))
    assert "no value" in str(found("SELECT :q AS v"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM u", ["i", "other"]),
        ("SELECT a.*, b.other AS o FROM u a JOIN u b ON a.i = b.i", ["i", "other", "o"]),
        ("SELECT * FROM u a JOIN u b USING (i)", ["i", "other", "other"]),
        ("SELECT * FROM u a LEFT SEMI JOIN t ON a.i = t.i", ["i", "other"]),
        ("SELECT * FROM u AS x(k, v) WHERE v = 'a'", ["k", "v"]),
        ("WITH c(k) AS (SELECT i FROM u) SELECT k FROM c UNION SELECT big FROM t", ["k"]),
        ("SELECT I, count(*) FROM U GROUP BY i", ["I", ""]),
        ("SELECT * FROM VALUES (1, 'a') AS v(p, q)", ["p", "q"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    answer = found(text)
    assert isinstance(answer, PortableQuery), answer
    assert [name for name, _ in answer.columns] == names


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT nope FROM t", "no column nope"),
        ("SELECT i FROM missing", "no table 'missing'"),
        ("SELECT i FROM t, u", "several tables"),
        ("SELECT percentile_approx(i, 0.5) FROM t", "percentile_approx"),
        ("SELECT f / price FROM t", "DIV of float, decimal"),
        ("SELECT price * long FROM t", "MUL of decimal, decimal"),
        ("SELECT i + f FROM t", "ADD of int, float"),
        ("SELECT s + 1 FROM t", "ADD of string, int"),
        ("SELECT i = s FROM t", "EQ of int, string"),
        ("SELECT CAST(d AS STRING) FROM t", "from double to string"),
        ("SELECT CAST(i AS ARRAY<INT>) FROM t", "cast to array"),
        ("SELECT day = '2024-1-1' FROM t", "EQ of date, string"),
        ("SELECT TIMESTAMP 'yesterday'", "from string to timestamp"),
        ("SELECT CASE WHEN b THEN 1 ELSE 'x' END FROM t", "int and string"),
        ("SELECT i FROM t WHERE i", "WHERE takes a condition"),
        ("SELECT i FROM t UNION SELECT s FROM t", "int and string"),
        ("SELECT i FROM t UNION SELECT i, s FROM t", "different columns"),
        ("SELECT DISTINCT tags FROM t", "nested"),
        ("SELECT i FROM t ORDER BY tags", "nested"),
        ("SELECT i FROM t ORDER BY 2", "number of a column"),
        ("SELECT i FROM t QUALIFY i = 1", "qualify"),
        ("SELECT * FROM t NATURAL JOIN u", "join"),
        ("SELECT * FROM t JOIN u USING (i)", "different orders"),
        ("SELECT rank() OVER (PARTITION BY i) FROM t", "ORDER BY"),
        ("SELECT sum(DISTINCT i) OVER () FROM t", "over a window"),
        ("SELECT i + 1 AS s FROM t GROUP BY s", "both a column and an alias"),
        ("SELECT (SELECT other FROM u WHERE u.i = t.i) FROM t", "has to aggregate"),
        ("SELECT (SELECT max(other) FROM u WHERE u.i > t.i) FROM t", "plainly compared"),
        ("SELECT i IN (SELECT i FROM u) FROM t", "in WHERE only"),
        ("SELECT count(*) FROM (SELECT i FROM t LIMIT 1) x", "takes any rows"),
        ("SELECT * FROM (SELECT i + 1 FROM t) x", "without a name"),
    ],
)
def test_what_is_not_portable_says_why(text: str, reason: str) -> None:
    answer = found(text)
    assert isinstance(answer, str), "it was accepted"
    assert reason in answer


def test_the_tree_stays_as_it_is() -> None:
    text = "SELECT tiny + 1 AS v, upper(s) AS u FROM t WHERE day > '2024-01-01'"
    tree = query_of(text)
    check_portability(tree, SCHEMAS)
    assert tree == query_of(text)
    assert tree.sql("spark") == query_of(text).sql("spark")


def test_a_small_query_is_typed_at_once() -> None:
    tree = query_of("SELECT s, sum(price) AS p FROM t WHERE i > 3 GROUP BY s ORDER BY p DESC")
    check_portability(tree, SCHEMAS)
    with cProfile.Profile() as profile:
        check_portability(tree, SCHEMAS)
    assert 0 < sum(entry.callcount for entry in profile.getstats()) < 5_000


def test_a_deep_query_is_refused_not_an_error() -> None:
    deep = exp.column("i")
    for _ in range(5_000):
        deep = exp.Paren(this=deep)
    assert "too deeply" in str(check_portability(exp.select(deep).from_("t"), SCHEMAS))


def answered(text: str, table: pa.Table) -> pa.Table:
    """The embedded engine's answer to a portable query over `t`."""
    tree = query_of(text)
    known = check_portability(tree, {"t": table.schema})
    assert isinstance(known, PortableQuery), known
    with Session() as session:
        for node in list(tree.find_all(exp.Table)):
            node.set("alias", exp.TableAlias(this=exp.to_identifier("t")))
            node.set("this", exp.to_identifier(session.register(table)))
        return as_spark_types(session.query(to_duckdb_sql(tree), {}), known)


def test_notes_of_types_make_the_embedded_engine_exact() -> None:
    table = pa.table(
        {"tiny": pa.array([127], pa.int8()), "p": pa.array([decimal.Decimal("99999999.99")])}
    )
    answer = answered("SELECT tiny + 1 AS a, p * p AS b, upper('ß') AS c FROM t", table)
    product = decimal.Decimal("9999999998000000.0001")
    assert answer.to_pylist() == [{"a": 128, "b": product, "c": "SS"}]
    assert answer.schema.types == [pa.int32(), pa.decimal128(21, 4), pa.string()]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(v) AS s FROM t",
        "SELECT sum(v) > 0 AS s FROM t",
        "SELECT sum(v) OVER () / 10 AS s FROM t",
    ],
)
def test_a_sum_too_large_for_bigint_is_an_error(text: str) -> None:
    with pytest.raises(InvalidData):
        answered(text, pa.table({"v": [2**63 - 1, 1]}))


def test_results_are_brought_to_sparks_types() -> None:
    table = pa.table({"a": pa.array([1], pa.int64()), "b": pa.array([None], pa.int32())})
    known = PortableQuery((("a", pa.int32()), ("b", pa.null())))
    assert as_spark_types(table, known).schema == pa.schema([("a", pa.int32()), ("b", pa.null())])
    with pytest.raises(InvalidData, match="column 'a'"):
        as_spark_types(pa.table({"a": [2**40]}), PortableQuery((("a", pa.int32()),)))
