"""Whole queries that are portable, and queries that are not."""

from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa

D = decimal.Decimal
DAY = datetime.date


def shop() -> dict[str, pa.Table]:
    """Small tables with nulls, NaN, ties and rows without a partner."""
    people = pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, None], pa.int32()),
            "name": ["Ann", "bob", "Ærø", None, "", "Zoë"],
            "city": ["Oslo", "Oslo", "Rome", None, "東京", "Oslo"],
            "born": [DAY(1990, 2, 28), DAY(2000, 2, 29), None, DAY(1970, 1, 1), DAY(1, 1, 1),
                     DAY(2026, 12, 31)],
            "score": pa.array([1.5, math.nan, -0.0, 0.0, math.inf, None], pa.float64()),
        }
    )  # fmt: skip
    orders = pa.table(
        {
            "id": pa.array(range(12), pa.int64()),
            "person": pa.array([1, 1, 2, 3, 3, 3, None, 9, 4, 4, 1, 2], pa.int32()),
            "amount": pa.array(
                [D(n) for n in ("10.00", "0.01", "99999999.99", "-5.50", "10.00", "7.25", "3.00",
                                "1.00")] + [None, D("2.50"), D("0.00"), D("10.00")],
                pa.decimal128(10, 2),
            ),
            "quantity": pa.array([1, 2, 3, 4, 5, 6, 7, 8, 9, None, 0, -1], pa.int16()),
            "at": pa.array(
                [datetime.datetime(2026, 1, 1 + n, n, 30, 15, 123456 * (n % 2), datetime.UTC)
                 for n in range(11)] + [None],
                pa.timestamp("us", "UTC"),
            ),
            "paid": [True, False, None] * 4,
            "tags": pa.array([["a", "b"], [], None] * 4, pa.list_(pa.string())),
            "place": pa.array(
                [{"lat": 1.5, "name": "x"}, None, {"lat": None, "name": "y"}] * 4,
                pa.struct([("lat", pa.float64()), ("name", pa.string())]),
            ),
            "extra": pa.array([[("k", 1)], [], None] * 4, pa.map_(pa.string(), pa.int32())),
        }
    )  # fmt: skip
    return {"people": people, "orders": orders, "nobody": people.slice(0, 0)}


PORTABLE = """
SELECT 'it''s' AS v, 'a\\'b' AS w
SELECT * FROM people
SELECT p.*, o.id FROM people p JOIN orders o ON p.id = o.person
SELECT id, tags, place, extra FROM orders
SELECT id, place.lat, place.name AS at_name FROM orders WHERE place.lat > 1
SELECT o.place.name FROM orders o
SELECT id FROM people WHERE score = score
SELECT id FROM people WHERE score > 1
SELECT id FROM people WHERE score = 0
SELECT id FROM people WHERE score <> 0.0
SELECT id FROM people WHERE NOT (score > 1)
SELECT id FROM people WHERE name > 'Zo'
SELECT id FROM people WHERE name IS NULL OR city IS NOT NULL AND id > 2
SELECT id FROM people WHERE id IN (1, 3, NULL)
SELECT id FROM people WHERE id NOT IN (1, 3)
SELECT id FROM people WHERE id NOT IN (1, NULL)
SELECT id FROM people WHERE name IN ('Ann', '')
SELECT id FROM people WHERE born IN (DATE '1970-01-01', DATE '2000-02-29')
SELECT id FROM people WHERE born >= '1990-01-01'
SELECT id FROM people WHERE born BETWEEN '1970-01-01' AND DATE '1999-12-31'
SELECT id FROM people WHERE name LIKE '_o_' OR name LIKE 'Æ%'
SELECT id FROM people WHERE id BETWEEN 2 AND 4 AND NOT (city = 'Rome')
SELECT id FROM orders WHERE at > '2026-01-03'
SELECT id FROM orders WHERE at > TIMESTAMP '2026-01-03 02:30:15.5'
SELECT id FROM orders WHERE at = TIMESTAMP '2026-01-04T05:30:15.123456+02:00'
SELECT id FROM orders WHERE at BETWEEN '2026-01-02 00:00:00' AND TIMESTAMP '2026-01-05 00:00:00'
SELECT id FROM orders WHERE amount > 1 AND amount < 10.005
SELECT id FROM orders WHERE amount = 10
SELECT id FROM orders WHERE amount IN (10, 0.01)
SELECT id FROM orders WHERE amount > 2.5D
SELECT id FROM orders WHERE paid
SELECT id FROM orders WHERE NOT paid OR paid IS NULL
SELECT id FROM orders WHERE paid IS TRUE
SELECT id FROM orders WHERE paid IS NOT FALSE
SELECT id FROM orders WHERE quantity <=> NULL
SELECT 1 AS a, 2147483647 AS b, 2147483648 AS c, -2147483648 AS d, 9223372036854775807 AS e
SELECT -9223372036854775808 AS a, 9223372036854775808 AS b, 1.10 AS c, -0.05 AS d, .5 AS e
SELECT 1e3 AS a, 1.5D AS b, 2L AS c, 3S AS d, 4Y AS e, 1.50BD AS f
SELECT 'it\\'s' AS a, "double" AS b, 'a\\\\b' AS c, '' AS d, TRUE AS e, X'00FF' AS f
SELECT DATE '2024-02-29' AS a, TIMESTAMP '2024-02-29 23:59:59.999999' AS b
SELECT TIMESTAMP_NTZ '2024-02-29 23:59:59.999999' AS a, TIMESTAMP '2024-02-29 12:00:00Z' AS b
SELECT NULL AS nothing, id FROM people
SELECT 2147483647 + 1 AS v
SELECT 9223372036854775807 + 1 AS v
SELECT -(-2147483648) AS v
SELECT 1 / 0 AS v
SELECT id / 0 AS v FROM people
SELECT id / 0 AS v FROM nobody
SELECT 1 div 0 AS v
SELECT 1 % 0 AS v
SELECT quantity + 1 AS a, quantity * 2 AS b, quantity - 1L AS c, quantity / 2 AS d FROM orders
SELECT quantity * amount AS a, amount * amount AS b, amount + 1 AS c, amount - 0.005 AS d FROM
  orders
SELECT amount * 2 + amount * 3 - 1 AS a, (amount + amount) * quantity AS b, -amount AS c FROM
  orders
SELECT amount % 3 AS a, quantity % 2 AS b, id div 5 AS c, abs(amount) AS d FROM orders
SELECT CAST(amount AS INT) AS a, CAST(amount AS DOUBLE) AS b, CAST(id AS STRING) AS c FROM orders
SELECT CAST(amount AS DECIMAL(5, 1)) AS v FROM orders
SELECT CAST(amount AS DECIMAL(12, 1)) AS v FROM orders
SELECT CAST(amount AS TINYINT) AS v FROM orders
SELECT CAST(at AS DATE) AS a, CAST(at AS STRING) AS b, CAST(at AS BIGINT) AS c FROM orders
SELECT CAST(max(id) AS STRING) AS a, CAST(sum(quantity) AS INT) AS b FROM orders
SELECT CAST(sum(quantity) AS TINYINT) AS v FROM orders
SELECT upper(max(name)) AS a, lower(min(city)) AS b, length(max(name)) AS c FROM people
SELECT round(sum(amount), 1) AS a, round(avg(quantity), 2) AS b, ceil(avg(id)) AS c FROM orders
SELECT amount / 2 AS a, amount / quantity AS b, -7 / amount AS c, amount / 0.03 AS d FROM orders
SELECT avg(amount) AS a, avg(DISTINCT amount) AS b, sum(amount) / count(*) AS c FROM orders
SELECT id, avg(amount) OVER (PARTITION BY person ORDER BY id) AS a FROM orders
SELECT avg(amount) FILTER (WHERE id > 2) AS a, avg(amount) FILTER (WHERE id < 0) AS b FROM orders
SELECT sum(amount) * 2 AS a, sum(quantity) + 1 AS b, -sum(amount) AS c FROM orders
SELECT CASE WHEN id > 3 THEN 1 ELSE 2.5 END AS a, IF(id > 3, 'x', name) AS b FROM people
SELECT CASE city WHEN 'Oslo' THEN 1 WHEN 'Rome' THEN 2 END AS a FROM people
SELECT CASE WHEN id = 1 THEN NULL ELSE id END + 1 AS a, coalesce(NULL, id, 0) AS b FROM people
SELECT CASE quantity WHEN 1 THEN quantity ELSE 7 END AS a, nullif(quantity, 2) AS b FROM orders
SELECT CASE WHEN id > 3 THEN quantity ELSE 7 END * 30000 AS a, coalesce(quantity, 7) * 30000 AS
  b FROM orders
SELECT greatest(quantity, 1) * 30000 AS a, IF(paid, quantity, 2) * 30000 AS b FROM orders
SELECT amount * -1 AS a, amount + (2) AS b, amount - -3 AS c, nullif(quantity, 1) + 32767 AS d
  FROM orders
SELECT sum(v) AS v FROM (SELECT 99999999999999999999999999999999999999 AS v UNION ALL SELECT 1) t
SELECT quantity + quantity AS v FROM orders WHERE quantity IN (4, 5, 30000)
SELECT name FROM people WHERE name NOT LIKE '%o%'
SELECT count(*) FILTER (WHERE paid) OVER (PARTITION BY person) AS v FROM orders
SELECT coalesce(city, name, '?') AS a, nvl(name, '-') AS b, nvl2(city, 1, 2) AS c FROM people
SELECT greatest(id, 3, NULL) AS a, least(score, 1.0D) AS b, greatest(name, city) AS c FROM people
SELECT born + INTERVAL 1 DAY AS a, born - INTERVAL 1 MONTH AS b, born + INTERVAL '2' YEARS AS c
  FROM people
SELECT born + INTERVAL 1 WEEK AS a, born + 30 AS b, born - id AS c FROM people
SELECT at + INTERVAL 90 MINUTES AS a, at - INTERVAL 1 MONTH AS b, at + INTERVAL 1 DAY AS c FROM
  orders
SELECT at + INTERVAL 10 SECONDS AS a, at - INTERVAL 36 HOURS AS b, at + INTERVAL 1 YEAR AS c
  FROM orders
SELECT date_sub(born, 60) AS a, date_add(born, id) AS b, datediff(born, DATE '2000-01-01') AS c
  FROM people
SELECT year(born) AS a, month(at) AS b, date_trunc('hour', at) AS c FROM people JOIN orders ON
  person = people.id
SELECT DISTINCT city FROM people
SELECT DISTINCT score FROM people
SELECT DISTINCT person, paid FROM orders
SELECT count(*) AS a, count(city) AS b, count(DISTINCT city) AS c FROM people
SELECT count(DISTINCT person, paid) AS v FROM orders
SELECT count(*) AS a, sum(id) AS b, max(name) AS c, avg(score) AS d FROM nobody
SELECT sum(id) AS v FROM (SELECT 9223372036854775807 AS id UNION ALL SELECT 1L) t
SELECT sum(id) > 0 AS v FROM (SELECT 9223372036854775807 AS id UNION ALL SELECT 1L) t
SELECT avg(id) AS v FROM (SELECT 9007199254740993 AS id UNION ALL SELECT 9007199254740993L) t
SELECT city, count(*) AS n FROM people GROUP BY city
SELECT score, count(*) AS n FROM people GROUP BY score
SELECT person, paid, sum(amount) AS s, min(at) AS t FROM orders GROUP BY person, paid
SELECT upper(city) AS c, count(*) AS n FROM people GROUP BY upper(city)
SELECT city AS c, count(*) AS n FROM people GROUP BY 1
SELECT length(name) AS l, count(*) AS n FROM people GROUP BY l
SELECT city, count(*) AS n FROM people GROUP BY city HAVING count(*) > 1
SELECT city, count(*) AS n FROM people GROUP BY city HAVING n > 1 AND city IS NOT NULL
SELECT person, sum(amount) FILTER (WHERE quantity > 2) AS s FROM orders GROUP BY person
SELECT person + 1 AS p, max(quantity) - min(quantity) AS d FROM orders GROUP BY person
SELECT count_if(paid) AS a, bool_and(paid) AS b, some(paid) AS c, every(paid) AS d FROM orders
SELECT stddev(quantity) AS a, variance(id) AS b, median(quantity) AS c FROM orders
SELECT city, person, sum(quantity) AS q FROM people p JOIN orders o ON p.id = o.person GROUP BY
  city, person
SELECT p.name, o.amount FROM people p LEFT JOIN orders o ON p.id = o.person
SELECT p.name, o.amount FROM people p RIGHT JOIN orders o ON p.id = o.person
SELECT p.name, o.amount FROM people p FULL OUTER JOIN orders o ON p.id = o.person
SELECT p.name, o.amount FROM people p LEFT JOIN orders o ON p.id = o.person AND o.quantity > 2
SELECT p.name, o.id FROM people p CROSS JOIN orders o WHERE o.id < 2
SELECT p.name, o.id FROM people p, orders o WHERE p.id = o.person
SELECT name FROM people p LEFT SEMI JOIN orders o ON p.id = o.person
SELECT name FROM people p LEFT ANTI JOIN orders o ON p.id = o.person
SELECT a.id, b.id AS other FROM people a JOIN people b ON a.id < b.id
SELECT a.id, b.id AS other FROM people a LEFT JOIN people b ON a.id > b.id AND a.city = b.city
SELECT a.name, b.name AS other FROM people a JOIN people b ON a.score = b.score
SELECT a.name, b.name AS other FROM people a JOIN people b ON a.city <=> b.city
SELECT id, a.name, b.city FROM people a JOIN people b USING (id)
SELECT * FROM people a JOIN (SELECT id, quantity FROM orders WHERE id < 3) b ON a.id = b.id
SELECT id, q FROM people LEFT JOIN (SELECT person AS id, quantity AS q FROM orders) USING (id)
SELECT p.name, o.id, r.id AS rid FROM people p JOIN orders o ON p.id = o.person LEFT JOIN orders
  r ON r.id = o.id + 1
SELECT * FROM nobody n LEFT JOIN orders o ON n.id = o.id
SELECT o.id, n.name FROM orders o LEFT JOIN nobody n ON n.id = o.id
SELECT id FROM people UNION ALL SELECT person FROM orders
SELECT id FROM people UNION SELECT person FROM orders
SELECT id FROM people UNION SELECT id FROM orders
SELECT person FROM orders EXCEPT SELECT id FROM people
SELECT person FROM orders INTERSECT SELECT id FROM people
SELECT person FROM orders EXCEPT ALL SELECT id FROM people
SELECT person FROM orders INTERSECT ALL SELECT id FROM people
SELECT score FROM people UNION SELECT -0.0D
SELECT amount FROM orders UNION ALL SELECT quantity FROM orders
SELECT NULL AS a UNION ALL SELECT id FROM people
SELECT born AS d FROM people UNION ALL SELECT at FROM orders
(SELECT id FROM people) UNION ALL (SELECT person FROM orders WHERE person > 3)
WITH x AS (SELECT person, sum(amount) AS s FROM orders GROUP BY person) SELECT name, s FROM
  people JOIN x ON id = person
WITH x (k, v) AS (SELECT id, name FROM people), y AS (SELECT k FROM x WHERE v > 'B') SELECT k +
  1 AS k FROM y
WITH people AS (SELECT 1 AS id) SELECT id FROM people
WITH x AS (SELECT id FROM people UNION ALL SELECT person FROM orders) SELECT id, count(*) AS n
  FROM x GROUP BY id
SELECT s.c, s.n FROM (SELECT city AS c, count(*) AS n FROM people GROUP BY city) s WHERE s.n > 1
SELECT v.a, v.b FROM VALUES (1, 'x'), (2, NULL), (3, 'z') AS v(a, b) WHERE v.a > 1
SELECT col1 + 1 AS a, col2 FROM VALUES (1, DATE '2024-01-01'), (NULL, NULL)
SELECT (SELECT max(id) FROM people) AS m, id FROM orders
SELECT id, (SELECT sum(amount) FROM orders o WHERE o.person = p.id) AS s FROM people p
SELECT id, (SELECT count(*) FROM orders o WHERE o.person = p.id AND o.paid) AS n FROM people p
SELECT id FROM orders WHERE amount > (SELECT avg(quantity) FROM orders)
SELECT id FROM orders WHERE id = (SELECT id FROM people)
SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id)
SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND
  o.quantity > 3)
SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.quantity > p.id)
SELECT name FROM people WHERE id IN (SELECT person FROM orders)
SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders)
SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders WHERE person IS NOT NULL)
SELECT name FROM people p WHERE id IN (SELECT person FROM orders o WHERE o.quantity > p.id)
SELECT id, row_number() OVER (ORDER BY amount, id) AS n FROM orders
SELECT id, rank() OVER (PARTITION BY person ORDER BY amount DESC) AS r, dense_rank() OVER (ORDER
  BY amount) AS d FROM orders
SELECT id, sum(amount) OVER (PARTITION BY person) AS s, count(*) OVER () AS n FROM orders
SELECT id, sum(quantity) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM
  orders
SELECT id, sum(quantity) OVER (ORDER BY person) AS s FROM orders
SELECT id, avg(quantity) OVER (PARTITION BY person ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING
  AND CURRENT ROW) AS a FROM orders
SELECT id, lag(amount) OVER (ORDER BY id) AS a, lead(at, 2) OVER (ORDER BY id) AS b FROM orders
SELECT id, first_value(quantity) OVER (PARTITION BY person ORDER BY id) AS a,
  last_value(quantity) OVER (PARTITION BY person ORDER BY id ROWS BETWEEN CURRENT ROW AND
  UNBOUNDED FOLLOWING) AS b FROM orders
SELECT id, sum(quantity) FILTER (WHERE paid) OVER (ORDER BY id) AS s FROM orders
SELECT city, rank() OVER (ORDER BY count(*) DESC) AS r FROM people GROUP BY city
SELECT id, n FROM (SELECT id, row_number() OVER (PARTITION BY person ORDER BY amount DESC, id)
  AS n FROM orders) t WHERE n = 1
SELECT id, amount / 7 AS a, 1 / nullif(amount, 0) AS b, amount / nullif(quantity, 0) AS c,
  amount / -0.3 AS d FROM orders
SELECT person, avg(amount) AS a, avg(DISTINCT amount) AS d, avg(amount) FILTER (WHERE paid) AS f,
  sum(amount) / count(*) AS q FROM orders GROUP BY person
SELECT id, avg(amount) OVER (PARTITION BY person ORDER BY id) AS a FROM orders
SELECT person, paid, sum(amount) AS s, avg(amount) AS a, grouping(person) AS g, grouping_id() AS i,
  grouping_id(person, paid) AS j FROM orders GROUP BY ROLLUP (person, paid)
SELECT city, score, count(*) AS n, count(DISTINCT name) AS d FROM people GROUP BY CUBE (city, score)
SELECT person, paid, count(*) AS n, grouping_id() AS i FROM orders GROUP BY paid, person WITH CUBE
SELECT person, paid, max(at) AS m FROM orders GROUP BY person, paid WITH ROLLUP
SELECT person, paid, count(*) AS n FROM orders GROUP BY person, paid GROUPING SETS
  ((person), (), (paid))
SELECT person, paid, quantity, count(*) AS n, grouping_id() AS i FROM orders GROUP BY paid, ROLLUP
  (person, quantity)
SELECT person, paid, quantity, sum(id) AS n, grouping_id() AS i FROM orders GROUP BY ROLLUP (paid,
  (person, quantity))
SELECT person, paid, count(*) AS n, grouping_id() AS i FROM orders GROUP BY CUBE (person), ROLLUP
  (person, paid)
SELECT person, paid, count(*) AS n FROM orders GROUP BY GROUPING SETS (person, (person, paid),
  ROLLUP (paid, person), GROUPING SETS ((person), ()))
SELECT city, count(*) AS n FROM people GROUP BY GROUPING SETS ((city), (city), (CITY))
SELECT city, count(*) AS n, sum(id) AS s FROM nobody GROUP BY ROLLUP (city)
SELECT city, count(*) AS n FROM nobody GROUP BY GROUPING SETS ((city), ()) HAVING count(*) >= 0
SELECT p.city, count(*) AS n, grouping(city) AS g FROM people p GROUP BY ROLLUP (p.City)
SELECT upper(city) AS c, grouping(upper(city)) AS g, count(*) AS n FROM people GROUP BY ROLLUP (c)
SELECT upper(city) AS c, quantity + 1 AS q, sum(quantity + 1) AS s FROM people p JOIN orders o ON
  p.id = o.person GROUP BY CUBE (1, 2)
SELECT quantity % 2 AS a, person / 2 AS b, count(*) AS n FROM orders GROUP BY ROLLUP (quantity % 2,
  person / 2)
SELECT person, quantity + person AS q, count(*) AS n FROM orders GROUP BY CUBE (person, quantity +
  person)
SELECT person, count(*) AS n FROM orders GROUP BY ROLLUP (person) HAVING person IS NULL
SELECT person, count(*) AS n FROM orders GROUP BY ROLLUP (person) HAVING grouping(person) = 1
  OR n > 2
SELECT n, person FROM (SELECT person, count(*) AS n FROM orders GROUP BY ROLLUP (person)) t WHERE
  person IS NULL OR person > 2
SELECT coalesce(city, 'all') AS c, CASE WHEN grouping(city) = 1 THEN 'sum' ELSE city END AS k,
  grouping(city) + grouping(id) AS l FROM people GROUP BY ROLLUP (city, id)
SELECT person, sum(quantity) AS s, rank() OVER (PARTITION BY grouping(person) + grouping(paid), CASE
  WHEN grouping(paid) = 0 THEN person END ORDER BY sum(quantity) DESC) AS r FROM orders GROUP BY
  ROLLUP (person, paid)
SELECT DISTINCT grouping_id() AS i, count(*) FILTER (WHERE paid) AS n FROM orders GROUP BY CUBE
  (person, paid)
SELECT 'k' AS k, city, count(*) AS n FROM people GROUP BY ROLLUP (city, 'k')
SELECT city, n FROM people JOIN (SELECT person, count(*) AS n FROM orders GROUP BY ROLLUP
  (person)) t ON id <=> person
SELECT person, count(*) AS n FROM orders GROUP BY ROLLUP (person) UNION ALL SELECT id, grouping_id()
  FROM people GROUP BY CUBE (id)
SELECT id, array(quantity, 1, NULL) AS a, array(amount, 2) AS b, array(paid) AS c FROM orders
SELECT array('a', NULL, 'b') AS a, array(array(1), array(2, 3)) AS b, array(DATE '2024-01-01', NULL)
  AS c, array(1.5, 10) AS d
SELECT named_struct('lat', 1.5D, 'name', name) AS a, struct(id, name AS n) AS b FROM people
SELECT map('a', 1, 'b', NULL) AS a, map(id, amount, 100, 2) AS b FROM orders
SELECT map('a', 1, 'a', 2) AS a
SELECT struct(1, 'x') AS v
SELECT map(person, 1) AS a FROM orders
SELECT v.a, v.b FROM VALUES (1, array('x')), (2, NULL), (3, array('y', 'z')) AS v(a, b)
SELECT v.a, v.b FROM VALUES (array(1), map('a', 1)), (array(), map()), (array(2.5), map('b', NULL))
  AS v(a, b)
SELECT v.a FROM VALUES (named_struct('x', 1, 'y', 'z')), (named_struct('X', 1, 'Y', NULL)) AS v(a)
SELECT array(array(1), array()) AS a, array(map(), map('a', 1)) AS b, array(NULL) AS c,
  array(named_struct('a', 1), named_struct('a', 2.5)) AS d, map('x', NULL) AS e
SELECT CASE WHEN id > 3 THEN array(quantity) ELSE array() END AS a,
  if(id > 3, map('a', amount), map()) AS b, count(array()) OVER (ORDER BY id) AS c FROM orders
SELECT array(1) AS a UNION ALL SELECT array(3000000000) UNION ALL SELECT array()
WITH RECURSIVE r AS (SELECT 1 AS n, 'a' AS s UNION ALL SELECT n + 1, s || 'b' FROM r WHERE n < 3)
  SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT max(n) AS m,
  count(*) AS c FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 101) SELECT max(n) AS m
  FROM r
WITH RECURSIVE r(n) MAX RECURSION LEVEL 101 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n <
  101) SELECT max(n) AS m FROM r
WITH RECURSIVE r MAX RECURSION LEVEL 0 AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 1)
  SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT a.n FROM r a CROSS JOIN orders o CROSS JOIN orders
  p) SELECT count(*) AS c FROM r
WITH RECURSIVE one AS (SELECT id FROM people WHERE id < 3), r(n, at) AS (SELECT id, 0 FROM one UNION
  ALL SELECT r.n + o.id, at + 1 FROM r JOIN one o ON r.n <> o.id WHERE at < 4), s AS (SELECT n
  FROM r UNION ALL SELECT n + 100 FROM s WHERE n < 300) SELECT n, count(*) AS c FROM s GROUP BY n
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT DISTINCT a.n + 10 FROM r a JOIN
  r b ON a.n = b.n LEFT JOIN people p ON p.id = a.n WHERE a.n < 30) SELECT x.n, y.n AS m FROM r x
  JOIN r y ON x.n = y.n + 10
WITH RECURSIVE orders AS (SELECT id FROM people) SELECT id FROM orders
WITH RECURSIVE r(k, v) AS (SELECT id, amount FROM orders WHERE id < 2 UNION ALL SELECT k + 4L,
  amount FROM r JOIN orders ON id = k + 4) SELECT k, v FROM r
"""

ORDERED = """
SELECT id FROM people ORDER BY id
SELECT id FROM people ORDER BY id DESC
SELECT id, score FROM people ORDER BY score, id
SELECT id, score FROM people ORDER BY score DESC, id DESC
SELECT name FROM people ORDER BY name
SELECT name FROM people ORDER BY name DESC NULLS FIRST
SELECT id, city FROM people ORDER BY city NULLS LAST, id
SELECT id, born FROM people ORDER BY born, id
SELECT id AS x, -id AS id FROM people ORDER BY id
SELECT id, city FROM people ORDER BY length(city), id
SELECT id FROM orders ORDER BY amount DESC, id LIMIT 3
SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 2
SELECT count(*) AS n FROM orders LIMIT 1
SELECT id, amount FROM orders ORDER BY 2, 1
SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY n DESC, city
SELECT city FROM people GROUP BY city ORDER BY count(*) DESC, city
SELECT id FROM people UNION SELECT person FROM orders ORDER BY id DESC LIMIT 4
SELECT DISTINCT person FROM orders ORDER BY person
SELECT person, paid, sum(quantity) AS s FROM orders GROUP BY ROLLUP (person, paid) ORDER BY
  grouping_id(), person, paid
SELECT city, count(*) AS n FROM people GROUP BY CUBE (city) ORDER BY grouping(city) DESC, n, city
WITH top AS (SELECT id FROM orders ORDER BY quantity DESC, id LIMIT 2) SELECT id FROM top ORDER
  BY id
"""

NOT_PORTABLE = """
SELECT percentile_approx(quantity, 0.5) AS v FROM orders
SELECT initcap(name) AS v FROM people
SELECT collect_list(id) AS v FROM people
SELECT first(id) AS v FROM people
SELECT any_value(id) AS v FROM people
SELECT max_by(id, score) AS v FROM people
SELECT corr(id, score) AS v FROM people
SELECT explode(tags) AS v FROM orders
SELECT tags[0] AS v FROM orders
SELECT element_at(tags, 1) AS v FROM orders
SELECT CAST(score AS STRING) AS v FROM people
SELECT CAST(name AS TIMESTAMP) AS v FROM people
SELECT CAST(born AS INT) AS v FROM people
SELECT name + 1 AS v FROM people
SELECT 1.5F AS v
SELECT id = name AS v FROM people
SELECT id FROM people WHERE born = '1990-2-3'
SELECT id FROM people WHERE name LIKE city
SELECT id FROM people WHERE name RLIKE 'a.b$'
SELECT regexp_replace(name, '(a)', '$1') AS v FROM people
SELECT date_format(born, 'yyyy') AS v FROM people
SELECT months_between(born, born) AS v FROM people
SELECT current_date() AS v
SELECT rand() AS v
SELECT amount * amount * amount * amount AS v FROM orders
SELECT born - born AS v FROM people
SELECT amount + 1L AS v FROM orders
SELECT count(*) AS n FROM (SELECT id FROM orders LIMIT 3) t
SELECT id FROM people WHERE name LIKE 'a!_' ESCAPE '!'
SELECT quantity + 1.5F AS v FROM orders
SELECT lag(id) IGNORE NULLS OVER (ORDER BY id) AS v FROM people
SELECT born + INTERVAL 2 HOURS AS v FROM people
SELECT * FROM people NATURAL JOIN orders
SELECT * FROM orders a JOIN people b USING (person)
SELECT name, quantity FROM people JOIN LATERAL (SELECT quantity FROM orders WHERE person =
  people.id) t
SELECT count(*) AS n FROM nobody GROUP BY GROUPING SETS (())
SELECT map(NULL, 1) AS v
SELECT array(1, 'a') AS v
SELECT map(1.5D, 1) AS v
SELECT array(1) = array(1) AS v
SELECT upper(city) AS c, grouping(c) AS g FROM people GROUP BY ROLLUP (c)
SELECT city, sum(grouping(city)) AS g FROM people GROUP BY ROLLUP (city)
SELECT city, grouping_id(paid, city) AS g FROM people, orders GROUP BY ROLLUP (city, paid)
SELECT grouping(city) AS g FROM people GROUP BY city
SELECT p.city, count(*) AS n FROM people p GROUP BY GROUPING SETS (city, p.city)
SELECT upper(city) AS city, count(*) AS n FROM people GROUP BY ROLLUP (city)
SELECT city, count(*) AS n FROM people GROUP BY ALL
SELECT id FROM people TABLESAMPLE (10 PERCENT)
SELECT tags, count(*) AS n FROM orders GROUP BY tags
SELECT id FROM people ORDER BY missing
SELECT id FROM people p JOIN orders o ON p.id = o.person
SELECT (SELECT quantity FROM orders o WHERE o.person = p.id) AS v FROM people p
SELECT * FROM (SELECT count(*) FROM people) t
SELECT id, row_number() OVER (PARTITION BY city) AS n FROM people
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM people
SELECT length(name) AS id FROM people GROUP BY id
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1L FROM r WHERE n < 3) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(n) + 1 FROM r WHERE n < 3) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM people LEFT JOIN r ON id = n WHERE n <
  3) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT n + 1 FROM r WHERE n < 3 UNION ALL SELECT 1) SELECT n FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n IN (SELECT n FROM r)) SELECT
  n FROM r
SELECT n FROM (WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n
  FROM r) t
"""


def listed(text: str) -> list[str]:
    """The queries of a text: one on each line, and on the indented lines after it."""
    return text.strip().replace("\n  ", " ").splitlines()
