"""Expressions mean what they mean in Spark 4."""

from __future__ import annotations

import datetime
import decimal

import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import BranchScope

from livingdb.errors import InvalidData

D = decimal.Decimal


@pytest.fixture(scope="module")
def main() -> BranchScope:
    return shop()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 / 2", 0.5),
        ("7 div 2", 3),
        ("CAST(CAST(3.9 AS INT) / 2 AS INT)", 1),
        ("substring(substring('abcd', 0, 3), 0, 2)", "ab"),
        ("trunc(DATE '2026-02-03', 'MM')", datetime.date(2026, 2, 1)),
        ("add_months(DATE '2026-01-31', 1)", datetime.date(2026, 2, 28)),
        ("explode(array(5))", 5),
        ("hypot(3, 4)", 5.0),
        ("dayofweek(DATE '2026-02-03')", 3),
        ("weekday(DATE '2026-02-03')", 1),
        ("unix_timestamp(TIMESTAMP '1970-01-02 00:00:00')", 86_400),
        ("unix_timestamp('1970-01-02 00:00:00')", 86_400),
        ("CAST(to_timestamp('03/02/2026', 'dd/MM/yyyy') AS BIGINT)", 1_770_076_800),
        ("TRY_CAST('1.5' AS INT)", None),
        ("TRY_CAST(300 AS TINYINT)", None),
        ("array()", []),
        ("NULL", None),
        ("-7 div 2", -3),
        ("-7 % 3", -1),
        ("pmod(-7, 3)", 2),
        ("try_divide(1, 0)", None),
        ("NULL / 0", None),
        ("CAST(1.7 AS INT)", 1),
        ("CAST(-1.7D AS BIGINT)", -1),
        ("CAST('12' AS INT)", 12),
        ("int('12')", 12),
        ("TRY_CAST('x' AS INT)", None),
        ("CAST(true AS INT)", 1),
        ("CAST(12 AS STRING)", "12"),
        ("string(12)", "12"),
        ("CAST(TIMESTAMP '2026-01-01 10:00:00' AS STRING)", "2026-01-01 10:00:00"),
        ("CAST(DATE '2026-01-01' AS STRING)", "2026-01-01"),
        ("CAST(X'C3A5' AS STRING)", "å"),
        ("CAST(true AS STRING)", "true"),
        ("CAST(1.50 AS STRING)", "1.50"),
        ("CAST(NULL AS STRING)", None),
        ("substring('Spark', 0, 2)", "Sp"),
        ("substring('Spark', 2, 2)", "pa"),
        ("substring('Spark', -3)", "ark"),
        ("substring('Spark', -7, 3)", "S"),
        ("substr('Spark', 2)", "park"),
        ("concat('a', NULL)", None),
        ("'a' || 'b'", "ab"),
        ("concat_ws('-', 'a', NULL, 'b')", "a-b"),
        ("upper('å')", "Å"),
        ("length('東京')", 2),
        ("split('a,b', ',')", ["a", "b"]),
        ("'a_b' LIKE 'a\\\\_b'", True),
        ("'axb' LIKE 'a\\\\_b'", False),
        ("'axb' LIKE 'a_b'", True),
        ("'abc' RLIKE '^a.c$'", True),
        ("date_add(DATE '2026-01-30', 3)", datetime.date(2026, 2, 2)),
        ("date_sub(DATE '2026-01-01', 1)", datetime.date(2025, 12, 31)),
        ("datediff(DATE '2026-01-03', DATE '2026-01-01')", 2),
        ("year(DATE '2026-01-03')", 2026),
        ("TIMESTAMP '2026-01-01 00:00:00'", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ("date_format(DATE '2026-01-03', 'yyyy/MM')", "2026/01"),
        ("NULL <=> NULL", True),
        ("nvl(NULL, 3)", 3),
        ("if(1 > 0, 'y', 'n')", "y"),
        ("isnull(NULL)", True),
        ("isnotnull(NULL)", False),
        ("greatest(1, NULL, 3)", 3),
        ("array(1, 2)[0]", 1),
        ("element_at(array(1, 2), 1)", 1),
        ("size(array(1, 2))", 2),
        ("map('a', 1)['a']", 1),
        ("named_struct('a', 1).a", 1),
        ("transform(array(1, 2), x -> x + 1)", [2, 3]),
        ("exists(array(1, 2), x -> x > 1)", True),
        ("bround(2.5D)", 2.0),
        ("round(2.5D)", 3.0),
        ("1.10", D("1.10")),
        ("10000000000", 10_000_000_000),
        ("9000000000000000000000", D(9_000_000_000_000_000_000_000)),
    ],
)
def test_expressions(main: BranchScope, expression: str, expected: object) -> None:
    assert main.sql(f"SELECT {expression} AS v").to_arrow()["v"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum(id)", 190),
        ("avg(id)", 9.5),
        ("count_if(id > 17)", 2),
        ("count(DISTINCT city, quantity)", 14),
        ("some(id = 3)", True),
        ("every(id >= 0)", True),
        ("percentile(id, 0.5)", 9.5),
        ("max_by(city, id)", "東京"),
        ("size(collect_set(city))", 4),
        ("array_sort(collect_list(id))[0]", 0),
        ("sum(id) FILTER (WHERE id > 18)", 19),
    ],
)
def test_aggregates(main: BranchScope, expression: str, expected: object) -> None:
    found = main.sql(f"SELECT {expression} AS v FROM orders").to_arrow()["v"].to_pylist()
    assert found == [expected]


def test_nulls_come_first_ascending_and_last_descending(main: BranchScope) -> None:
    text = "SELECT DISTINCT city FROM orders ORDER BY city"
    assert main.sql(text).to_arrow()["city"].to_pylist()[0] is None
    assert main.sql(text + " DESC").to_arrow()["city"].to_pylist()[-1] is None


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "(1 / 0) / 2", "1 div 0", "1 % 0", "CAST('x' AS INT)", "CAST('1.5' AS INT)",
     "CAST(300 AS TINYINT)", "CAST(DATE '2026-01-01' AS INT)", "2147483647 + 1", "DATE 'x'"],
)  # fmt: skip
def test_what_fails_is_an_error(main: BranchScope, expression: str) -> None:
    with pytest.raises(InvalidData):
        main.sql(f"SELECT {expression}")
