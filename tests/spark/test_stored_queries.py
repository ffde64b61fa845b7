"""Stored queries mean the same to Spark whatever the columns of their tables are called later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from livingdb.sql.bind_query import bind_query
from livingdb.sql.bindings import BoundColumn, BoundTable
from livingdb.sql.render_query import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

VALUES = {
    "0": "v.a0",
    "1": "v.b0",
    "2": "named_struct('a', v.a0, 'b', v.b0)",
    "3": "array(v.a0, v.b0)",
}
ROWS = "VALUES (1, 10), (2, 20), (2, 5), (3, null) AS v(a0, b0)"


def table(name: str, **columns: str) -> BoundTable:
    made = (BoundColumn(number[1:], column) for number, column in columns.items())
    return BoundTable(name, name, tuple(made))


T = table("t", _0="a", _1="b", _2="s", _3="arr")
U = table("u", _0="id", _1="b")
LATER = {
    "swapped": table("t", _0="b", _1="a", _2="s", _3="arr"),
    "others": table("t", _0="z", _1="id", _2="a", _3="b"),
    "more": table("t", _9="id", _0="a", _1="b", _8="n", _2="s", _3="arr", _7="x", _6="m"),
    "aliases": table("t", _0="m", _1="x", _2="b", _3="a", _9="e"),
}
QUERIES = [
    "SELECT a FROM t",
    "SELECT A, `B` FROM T",
    "SELECT * FROM t",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT a, a + 1 FROM t",
    "SELECT a AS x, x + 1 AS m FROM t",
    "SELECT s.a, t.s.b FROM t",
    "SELECT struct(a, b) AS r FROM t",
    "SELECT inline(array(struct(a, b))) FROM t",
    "SELECT to_json(struct(*)) AS j FROM t",
    "SELECT arrays_zip(arr, arr) AS z FROM t",
    "SELECT transform(arr, x -> x + a) AS y FROM t",
    "SELECT transform(arr, b -> b + a) AS y FROM t",
    "SELECT a, sum(b) FROM t GROUP BY a HAVING a > 1 ORDER BY a",
    "SELECT a AS b, count(*) AS n FROM t GROUP BY a",
    "SELECT count(*) AS n, a AS m FROM t GROUP BY m",
    "SELECT a, max(b) m FROM t GROUP BY a HAVING max(b) + m > 20",
    "SELECT b + 1 AS a FROM t GROUP BY b HAVING a > 1",
    "SELECT a, grouping(a) AS g FROM t GROUP BY ROLLUP (a)",
    "SELECT sum(a) FILTER (WHERE b > 6) AS m FROM t",
    "SELECT a, sum(b) OVER (PARTITION BY a) AS m FROM t",
    "SELECT DISTINCT a FROM t ORDER BY a",
    "SELECT b FROM t ORDER BY a, b",
    "SELECT a FROM t ORDER BY -a",
    "SELECT a AS id FROM t ORDER BY id",
    "SELECT a AS id, b FROM t ORDER BY id + b",
    "SELECT a, b FROM t CLUSTER BY b",
    "SELECT id FROM t, u WHERE t.b = u.b",
    "SELECT * FROM t JOIN u USING (b)",
    "SELECT b, a, id FROM t FULL JOIN u USING (b)",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT a FROM t LEFT SEMI JOIN u ON t.a = u.id",
    "SELECT l.b FROM t, LATERAL (SELECT b FROM u WHERE u.id = t.a) AS l",
    "SELECT e, a FROM t LATERAL VIEW explode(arr) l AS e",
    "SELECT x.c FROM t AS x(c, d, e, f)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE id = a)",
    "SELECT a, (SELECT max(u.b) FROM u WHERE u.id = t.a) AS m FROM t",
    "WITH u AS (SELECT a AS id, b FROM t) SELECT id, b FROM u",
    "SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY a",
    "SELECT * FROM (SELECT a, b FROM t) PIVOT (sum(b) FOR a IN (1, 2))",
]


def _define(spark: SparkSession, given: BoundTable) -> None:
    columns = ", ".join(f"{VALUES.get(c.id, '99')} AS `{c.name}`" for c in given.columns)
    spark.sql(f"SELECT {columns} FROM {ROWS}").createOrReplaceTempView("t")


def _answer(spark: SparkSession, text: str) -> tuple[list[tuple[str, str]], list[str]]:
    found = spark.sql(text)
    columns = [(field.name, field.dataType.simpleString()) for field in found.schema.fields]
    return columns, sorted(map(repr, map(tuple, found.collect())))


@pytest.mark.parametrize("text", QUERIES)
def test_spark_gives_the_same_by_other_names(spark: SparkSession, text: str) -> None:
    spark.sql("SELECT * FROM VALUES (1, 10), (2, 7), (5, 20) AS v(id, b)").createOrReplaceTempView(
        "u"
    )
    _define(spark, T)
    expected = _answer(spark, text)
    bound = bind_query(text, {"t": T, "u": U})
    for later in LATER.values():
        _define(spark, later)
        made = render(bound, [later, U])
        assert isinstance(made, str)
        assert _answer(spark, made) == expected, made


L = table("l", _0="k", _1="a", _2="c")
R = table("r", _0="k", _1="e", _2="c")
W = table("w", _0="k", _1="d")
JOINED = (L, R, W)
JOINED_ROWS = {
    "l": "VALUES (1, 10, 1), (2, 20, 2), (2, 5, 3), (null, 7, 1), (6, 1, 9) AS v(`0`, `1`, `2`)",
    "r": "VALUES (1, 11, 1), (3, 30, 2), (2, 9, 3), (null, 8, 1), (8, 2, 9) AS v(`0`, `1`, `2`)",
    "w": "VALUES (1, 12), (3, 31), (4, 40), (8, 3), (6, 4) AS v(`0`, `1`)",
}
JOINED_LATER = {
    "left": (table("l", _0="p", _1="a", _2="c"), R, W),
    "right": (L, table("r", _0="a", _1="k", _2="c"), table("w", _0="d", _1="k")),
    "both": (table("l", _0="c", _1="k", _2="a"), table("r", _0="x", _1="e", _2="y"), W),
    "same": (table("l", _0="n", _1="a", _2="c"), table("r", _0="n", _1="e", _2="c"), W),
    "more": (
        table("l", _9="d", _0="k", _1="a", _2="c", _8="e"),
        R,
        table("w", _9="a", _0="k", _1="d"),
    ),
}
USING = [
    "SELECT * FROM l JOIN w USING (k)",
    "SELECT * FROM l LEFT JOIN w USING (k)",
    "SELECT * FROM l RIGHT JOIN w USING (k)",
    "SELECT * FROM l FULL JOIN w USING (k)",
    "SELECT * FROM l FULL JOIN r USING (k, c)",
    "SELECT * FROM l FULL JOIN r USING (c, k)",
    "SELECT k, a, e FROM l FULL JOIN r USING (k)",
    "SELECT k, l.k AS lk, r.k AS rk, l.c AS lc FROM l FULL JOIN r USING (k)",
    "SELECT k + 1 AS n, l.*, e FROM l RIGHT JOIN r USING (k)",
    "SELECT * FROM l JOIN r USING (k, c) JOIN w USING (k)",
    "SELECT k, a, e, d FROM l FULL JOIN r USING (k) FULL JOIN w USING (k)",
    "SELECT k, a, e, d FROM l LEFT JOIN r USING (k) RIGHT JOIN w USING (k) WHERE k > 1",
    "SELECT * FROM l LEFT SEMI JOIN r USING (k)",
    "SELECT * FROM l LEFT ANTI JOIN r USING (k, c)",
    "SELECT * FROM l NATURAL JOIN r",
    "SELECT * FROM l NATURAL FULL JOIN w",
    "SELECT k, c FROM l NATURAL LEFT JOIN r ORDER BY k",
    "SELECT k, count(*) AS n FROM l FULL JOIN r USING (k) GROUP BY k HAVING k > 0",
    "SELECT x.k, k FROM l x JOIN l y USING (k)",
    "SELECT k FROM l FULL JOIN (SELECT k, e FROM r) AS s USING (k)",
]


def _define_all(spark: SparkSession, tables: tuple[BoundTable, ...]) -> None:
    for one in tables:
        known = "012"[: 2 if one.id == "w" else 3]
        values = [f"v.`{c.id}`" if c.id in known else "99" for c in one.columns]
        columns = ", ".join(
            f"{value} AS `{c.name}`" for value, c in zip(values, one.columns, strict=True)
        )
        spark.sql(f"SELECT {columns} FROM {JOINED_ROWS[one.id]}").createOrReplaceTempView(one.name)


@pytest.mark.parametrize("text", USING)
def test_spark_joins_the_same_by_other_names(spark: SparkSession, text: str) -> None:
    _define_all(spark, JOINED)
    expected = _answer(spark, text)
    bound = bind_query(text, {one.name: one for one in JOINED})
    for later in JOINED_LATER.values():
        _define_all(spark, later)
        made = render(bound, later)
        assert isinstance(made, str)
        assert _answer(spark, made) == expected, made
