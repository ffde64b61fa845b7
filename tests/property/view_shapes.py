"""Views of many shapes over four small tables, each with the strategy of its last stage.

`t` has a key and nulls everywhere else, `u` a key of two columns, `s` refers to itself, and `b`
is a bag: rows may be there several times.
"""

from __future__ import annotations

import pyarrow as pa

# ruff: noqa: E501
__all__ = ["SCHEMAS_OF_SHAPES", "SHAPES"]

SCHEMAS_OF_SHAPES = {
    "t": pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("g", pa.string()),
            ("x", pa.int32()),
            ("d", pa.decimal128(8, 2)),
            ("f", pa.float64()),
            ("u", pa.int64()),
            ("day", pa.date32()),
        ]
    ),
    "u": pa.schema(
        [
            pa.field("u", pa.int64(), nullable=False),
            pa.field("v", pa.int32(), nullable=False),
            ("name", pa.string()),
            ("w", pa.decimal128(6, 2)),
        ]
    ),
    "s": pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            ("parent", pa.int64()),
            ("label", pa.string()),
        ]
    ),
}
"""The tables with keys; `b` is made as each test can."""

_LINEAR = """
    SELECT id, d FROM t WHERE d <= (SELECT avg(d) FROM t) AND g = 'a'
    SELECT x, g FROM b WHERE x <> (SELECT max(x) FROM b)
    SELECT id FROM t WHERE x > (SELECT max(v) FROM u) OR d > (SELECT avg(w) FROM u)
    SELECT id, x FROM t WHERE x > 1
    SELECT id, x * 2 AS y, g FROM t
    SELECT upper(g) AS gg, length(g) + x AS l FROM t WHERE coalesce(x, 0) < 3
    SELECT id, CASE WHEN x IN (1, 2) THEN 'lo' ELSE g END AS c, CAST(d AS double) AS e FROM t WHERE g LIKE 'a%' OR x BETWEEN 1 AND 3
    SELECT 1 AS one, g FROM t
    SELECT id FROM t ORDER BY id
    SELECT g, x FROM b WHERE x > 0
    SELECT g FROM t UNION ALL SELECT name FROM u
    SELECT x FROM t UNION ALL SELECT u FROM u UNION ALL SELECT x FROM b
    SELECT id FROM t WHERE x > (SELECT avg(x) FROM t)
    SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE v = 3)
    SELECT id, array(x, 1) AS arr FROM t
    SELECT p.id, p.x FROM (SELECT id, x FROM (SELECT * FROM t WHERE x > 0) AS q) AS p WHERE p.x < 3
    SELECT id, x + 1 AS y, y * 2 AS z FROM t
"""
_JOIN = """
    SELECT t.id, u.v FROM t JOIN u ON t.u = u.u WHERE t.x >= (SELECT avg(v) FROM u) AND u.w > 0
    SELECT count(DISTINCT x) + sum(x) AS n, sum(DISTINCT d) AS m, sum(x) AS s FROM t
    SELECT t.id, (u.v) AS v, (u.name) AS nm FROM (t JOIN u ON (t.u) = ((u.u))) WHERE ((t.x > 0) AND ((u.v < 4)))
    SELECT t.id, u.v, u.name FROM t JOIN u ON t.u = u.u
    SELECT t.id, u.u, u.v, u.name FROM t, u WHERE t.u = u.u AND t.x > u.v
    SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.x = b.x WHERE a.id < b.id
    SELECT t.id, u.v, s.label FROM t JOIN u ON t.u = u.u JOIN s ON s.k = u.v
    SELECT a.k, b.k AS bk, c.k AS ck FROM s AS a JOIN s AS b ON a.parent = b.k JOIN s AS c ON b.parent = c.k
    SELECT t.id, u.v FROM t CROSS JOIN u
    SELECT t.id, u.v, s.label FROM t CROSS JOIN u JOIN s ON s.k = u.v
    SELECT t.id, b.id AS bid FROM t JOIN t AS b ON t.x + 1 = b.x
    SELECT t.id, u.name FROM t JOIN u ON t.u <=> u.v
    SELECT t.*, s.label FROM t, s WHERE t.x = s.k
    SELECT id, name FROM t JOIN u USING (u)
    SELECT b.g, b.x, c.x AS y FROM b JOIN b AS c ON b.g = c.g
    WITH a AS (SELECT g, x FROM t WHERE x > 0) SELECT p.g, q.x FROM a AS p JOIN a AS q ON p.g = q.g
    WITH a AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT p.g, q.n FROM a AS p JOIN a AS q ON p.n = q.n
    WITH a AS (SELECT g, sum(x) AS s FROM t GROUP BY g), c AS (SELECT name, count(*) AS n FROM u GROUP BY name) SELECT a.g, a.s, c.n FROM a JOIN c ON a.g = c.name
    SELECT q.g, q.m, t.id FROM t JOIN (SELECT g, max(x) AS m FROM t GROUP BY g) AS q ON t.g = q.g AND t.x = q.m
    WITH r AS (SELECT u, sum(x) AS s FROM t GROUP BY u) SELECT u.u, u.v, r.s FROM u JOIN r ON u.u = r.u WHERE r.s = (SELECT max(s) FROM r)
"""
_ADDITIVE = """
    SELECT d / 7 AS q, count(*) AS n FROM t GROUP BY d / 7
    SELECT (g) AS g, (count(*)) AS n FROM t GROUP BY ((g))
    SELECT g, count(*) AS n FROM t GROUP BY g
    SELECT g, x, count(*) AS n FROM t GROUP BY g, x
    SELECT g, sum(id) AS s, count(1) AS c FROM t GROUP BY 1
    SELECT g, avg(d) AS a, sum(d) AS s, count(d) AS c, count(*) AS n FROM t GROUP BY g
    SELECT g, count(*) AS n FROM (SELECT g FROM t UNION ALL SELECT name FROM u) AS q GROUP BY g
    SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS q GROUP BY n
    SELECT g, count(*) AS n FROM b GROUP BY g
    SELECT one, count(*) AS n FROM (SELECT 1 AS one, g FROM t) AS q GROUP BY one
    SELECT name, count(*) AS n FROM (SELECT u.name FROM t LEFT JOIN u ON t.u = u.u) AS q GROUP BY ALL
"""
_OVER_SUMS = """
    SELECT avg(f) AS a, sum(f) AS s, count(*) AS n FROM t
    SELECT stddev(x) AS n, median(x) AS m FROM t HAVING count(*) > 1
    SELECT count(DISTINCT x) AS n FROM t
    SELECT g, count(*) AS n, sum(x) AS s, min(x) AS lo, max(d) AS hi, avg(x) AS a, sum(d) AS sd FROM t GROUP BY g
    SELECT g, sum(x) AS s FROM t GROUP BY g HAVING count(*) > 1
    SELECT count(*) AS n, sum(x) AS s, max(x) AS m FROM t
    SELECT max(id) AS m, min(g) AS n FROM t WHERE x > 2
    SELECT avg(d) AS a, avg(x) AS b FROM t
    SELECT year(day) AS y, sum(d) AS s FROM t GROUP BY year(day)
    SELECT g, sum(x) FILTER (WHERE x > 1) AS s, count(*) FILTER (WHERE d > 0) AS n, count_if(x = 2) AS c FROM t GROUP BY g
    SELECT t.g, sum(u.w) AS s, count(*) AS n FROM t JOIN u ON t.u = u.u GROUP BY t.g
    SELECT g, max(x) AS m, min(day) AS d, min(g) AS gg FROM t GROUP BY g
    SELECT g, sum(d * d * d * d * d) AS s, count(*) AS n FROM t GROUP BY g
    SELECT g, n FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS q WHERE n > 1
    SELECT u.name, sum(q.s) AS z FROM (SELECT u, sum(x) AS s FROM t GROUP BY u) AS q JOIN u ON u.u = q.u GROUP BY u.name
    SELECT g, sum(x) AS s FROM t WHERE u NOT IN (SELECT u FROM u WHERE name IS NULL) GROUP BY g
    SELECT g, count(*) AS n FROM t WHERE u IN (SELECT u FROM u WHERE w > 0) GROUP BY g HAVING sum(x) > (SELECT avg(v) FROM u)
    SELECT t.g, u.name, sum(t.x) AS s FROM t LEFT JOIN u ON t.u = u.u AND u.v = t.x GROUP BY t.g, u.name
    SELECT max(n) AS mx, min(n) AS mn FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS q
    SELECT count(*) AS c FROM t JOIN u ON t.u = u.u WHERE t.x > 1 AND u.w IS NOT NULL
    SELECT g, sum(x) + 1 AS r, x FROM t GROUP BY g, x HAVING g IS NOT NULL
    SELECT g, (SELECT count(*) FROM u) AS c, count(*) AS n FROM t GROUP BY g
    SELECT g FROM t GROUP BY g
"""
_OVER_SETS = """
    SELECT g, x, count(*) AS n, sum(d) AS s, max(x) AS m FROM t GROUP BY ROLLUP (g, x)
    SELECT g, x, grouping(g) AS a, grouping_id() AS b, count(*) AS n FROM t GROUP BY CUBE (g, x)
    SELECT g, avg(d) AS s, max(f) AS f, x FROM t GROUP BY GROUPING SETS ((g, x), (g), (g), ())
    SELECT g, day, sum(x) AS s, count(DISTINCT u) AS c FROM t GROUP BY g, ROLLUP (day, x)
"""
_TOUCHED = """
    SELECT id, x FROM t ORDER BY x, id LIMIT 3
    SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n DESC, g LIMIT 2
    SELECT g, x FROM b ORDER BY x DESC, g LIMIT 3
    SELECT id, d, f FROM t ORDER BY f DESC NULLS LAST, id LIMIT 5
    SELECT DISTINCT d / 7 AS q FROM t
    SELECT t.id, u.v, u.name FROM (t) LEFT JOIN u ON ((t.u = u.u) AND (t.x > u.v))
    SELECT id FROM t WHERE (NOT (EXISTS ((SELECT 1 FROM u WHERE ((u.u) = (t.u))))))
    SELECT id FROM t WHERE (x >= ((SELECT count(*) FROM u AS b WHERE (b.u = (t.u)))))
    SELECT t.id, u.v, u.name FROM t LEFT JOIN u ON t.u = u.u
    SELECT t.id, u.u AS uu, u.v FROM t FULL OUTER JOIN u ON t.u = u.u
    SELECT t.id, u.u AS uu, u.v FROM t RIGHT JOIN u ON t.u = u.u AND t.x > u.v
    SELECT t.id, u.v, s.label FROM t LEFT JOIN u ON t.u = u.u LEFT JOIN s ON s.k = u.v
    SELECT a.k, b.label FROM s AS a LEFT JOIN s AS b ON a.parent = b.k
    SELECT t.id, coalesce(u.name, 'none') AS nm FROM t LEFT JOIN u ON t.u = u.u AND u.v = 1 WHERE t.x IS NOT NULL
    SELECT t.id FROM t LEFT JOIN u ON t.u = u.u WHERE u.u IS NULL
    SELECT t.id, b.id AS bid FROM t LEFT JOIN t AS b ON t.x + 1 = b.x + b.u
    SELECT t.id, u.name FROM t LEFT JOIN u ON t.x <=> u.v AND t.g = u.name
    SELECT t.id, q.n FROM t LEFT JOIN (SELECT name, count(*) AS n FROM u GROUP BY name) AS q ON t.g = q.name
    SELECT t.id, q.w FROM t LEFT JOIN (SELECT name, w + 1 AS w FROM u WHERE v > 1) AS q ON t.g = q.name
    SELECT t.id, q.a FROM t LEFT JOIN (SELECT u, coalesce(name, 'z') AS a FROM u) AS q ON q.u = t.u
    SELECT q.a, p.b, p.id FROM (SELECT u, coalesce(name, 'z') AS a FROM u) AS q RIGHT JOIN (SELECT id, u, coalesce(g, 'y') AS b FROM t) AS p ON q.u = p.u
    SELECT q.a, p.b, p.id FROM (SELECT u, coalesce(name, 'z') AS a FROM u) AS q FULL JOIN (SELECT id, u, coalesce(g, 'y') AS b FROM t) AS p ON q.u = p.u
    SELECT s.k, q.a, p.b FROM s JOIN (SELECT v, coalesce(name, 'z') AS a FROM u) AS q ON q.v = s.k FULL JOIN (SELECT x, g IS NULL AS b FROM t) AS p ON p.x = s.k AND p.b
    SELECT t.id, q.a, r.b FROM t LEFT JOIN (SELECT u, coalesce(name, 'z') AS a FROM u) AS q ON q.u = t.u AND q.a > 'a' LEFT JOIN (SELECT label, k IS NULL AS b FROM s) AS r ON r.label = q.a
    SELECT t.id, q.m, q.one FROM t LEFT JOIN (SELECT u, 1 AS one, (SELECT max(v) FROM u) AS m FROM u) AS q ON q.u = t.u
    SELECT p.g, p.n, q.m FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS p FULL JOIN (SELECT name, max(v) AS m FROM u GROUP BY name) AS q ON p.g = q.name
    SELECT b.g, b.x, u.w FROM b LEFT JOIN u ON b.x = u.v
    SELECT t.id, t.g FROM t LEFT SEMI JOIN u ON t.u = u.u
    SELECT t.id, t.g FROM t LEFT ANTI JOIN u ON t.u = u.u
    SELECT g, x FROM b WHERE x IN (SELECT v FROM u)
    SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.u = t.u)
    SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.u = t.u AND u.v > t.x)
    SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u JOIN s ON s.k = u.v WHERE u.u = t.u AND s.label = t.g)
    SELECT id FROM t WHERE u IN (SELECT u FROM u WHERE v > 1)
    SELECT id FROM t WHERE u IN (SELECT u FROM u GROUP BY u HAVING count(*) > 1)
    SELECT id FROM t WHERE u IN (SELECT u FROM u WHERE u.name = t.g)
    SELECT id, g FROM t WHERE (g, x) IN (SELECT name, v FROM u)
    SELECT id FROM t WHERE u NOT IN (SELECT v FROM u)
    SELECT id FROM t WHERE u NOT IN (SELECT x FROM b)
    SELECT id, x FROM t WHERE x NOT IN (SELECT parent FROM s) OR x IS NULL
    SELECT id FROM t WHERE g = 'a' OR EXISTS (SELECT 1 FROM u WHERE u.u = t.u)
    SELECT id FROM t WHERE x > 1 AND (g = 'a' OR u IN (SELECT v FROM u))
    SELECT id FROM t WHERE NOT (x > 1 AND EXISTS (SELECT 1 FROM u WHERE u.u = t.u))
    SELECT id, (SELECT max(w) FROM u WHERE u.u = t.u) AS m FROM t
    SELECT id, (SELECT count(*) FROM u WHERE u.u = t.u) AS m FROM t WHERE x > 0
    SELECT id FROM t WHERE d > (SELECT avg(x) FROM t AS b WHERE b.g = t.g)
    SELECT id FROM t WHERE x = (SELECT count(*) FROM u WHERE u.name = t.g) OR d > 1
    SELECT t.id, (SELECT min(v) FROM u WHERE u.u = t.u) + (SELECT max(k) FROM s WHERE s.k = t.x) AS z FROM t
    SELECT DISTINCT g, x FROM t
    SELECT DISTINCT t.g, u.name FROM t JOIN u ON t.u = u.u
    SELECT DISTINCT g FROM t WHERE x > (SELECT min(v) FROM u)
    SELECT DISTINCT g, x FROM b
    SELECT g FROM t UNION SELECT name FROM u
    SELECT x FROM t UNION SELECT v FROM u
    SELECT g FROM t INTERSECT SELECT name FROM u
    SELECT g, x FROM t EXCEPT SELECT name, v FROM u WHERE v > 1
    SELECT x FROM t EXCEPT ALL SELECT x FROM b
    SELECT x FROM b INTERSECT ALL SELECT v FROM u
    SELECT q.g, s.label FROM (SELECT g, x FROM t UNION SELECT name, v FROM u) AS q JOIN s ON s.k = q.x
    SELECT a.id, b.name FROM (SELECT id, x, g FROM t WHERE x > 0) AS a JOIN (SELECT DISTINCT name, v FROM u) AS b ON a.x = b.v
    SELECT g, avg(f) AS a FROM t GROUP BY g
    SELECT g, sum(f) AS s, min(f) AS m, count(*) AS n FROM t GROUP BY g
    SELECT g, count(DISTINCT x) AS c, stddev(x) AS sd FROM t GROUP BY g
    SELECT g, percentile(x, 0.5) AS p, bool_or(x > 1) AS b, max(x > 1) AS c FROM t GROUP BY g HAVING count(*) > 1
    SELECT t.g, count(DISTINCT u.name) AS n FROM t LEFT JOIN u ON t.u = u.u GROUP BY t.g
    SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS rn FROM t
    SELECT id, sum(x) OVER (PARTITION BY g) AS s, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM t
    SELECT id, sum(x) OVER (PARTITION BY g, x) AS s, max(d) OVER (PARTITION BY g) AS r FROM t
    SELECT id, lag(x) OVER (PARTITION BY g ORDER BY id) AS p, first_value(d) OVER (PARTITION BY g ORDER BY id) AS f FROM t
    SELECT id, sum(f) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t
    SELECT id, avg(x) OVER w AS a, count(*) OVER w AS c FROM t WINDOW w AS (PARTITION BY g)
    SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id DESC) = 1
    SELECT g, x, sum(d) AS s, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM t GROUP BY g, x
    SELECT g, x, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM b
"""
_OVER_WINDOWS = """
    SELECT id FROM t ORDER BY x NULLS LAST, id DESC LIMIT 2 OFFSET 1
    (SELECT g FROM t) UNION (SELECT name FROM u) ORDER BY 1 LIMIT 2
    SELECT t.id, u.v FROM t JOIN u ON t.u = u.u ORDER BY t.x DESC, t.id, u.v LIMIT 4
    SELECT g, sum(d) / count(*) AS q, avg(d / 3) AS r FROM t GROUP BY g
    SELECT max(q) AS n FROM (SELECT g, avg(d) AS q FROM t GROUP BY g) AS p
    SELECT g, x, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM t
    SELECT x, g FROM (SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY id) AS rn FROM t) AS q WHERE rn <= 2
"""
_FULL = """
    SELECT id, row_number() OVER (ORDER BY id) AS r FROM t
    SELECT id, sum(x) OVER (PARTITION BY g) AS a, sum(x) OVER (PARTITION BY x) AS b FROM t
    SELECT g, sum(x) AS s, rank() OVER (ORDER BY sum(x)) AS r FROM t GROUP BY g
    SELECT DISTINCT array(x, 1) AS arr FROM t
    SELECT id, x FROM t WHERE x > ALL (SELECT v FROM u)
    SELECT t.id, u.v FROM t LEFT JOIN u ON t.x < u.v
    SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.v > t.x)
"""


def _listed(strategy: str, texts: str) -> list[tuple[str, str]]:
    return [(line.strip(), strategy) for line in texts.splitlines() if line.strip()]


SHAPES: list[tuple[str, str]] = [
    *_listed("linear", _LINEAR),
    *_listed("join", _JOIN),
    *_listed("additive", _ADDITIVE),
    *_listed("linear", _OVER_SUMS),
    *_listed("linear", _OVER_SETS),
    *_listed("touched", _TOUCHED),
    *_listed("linear", _OVER_WINDOWS),
    *_listed("full", _FULL),
]
"""The text of each view, and how its last stage is maintained."""
