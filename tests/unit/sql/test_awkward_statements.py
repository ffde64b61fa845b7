"""Whatever a statement says, what comes of it is an answer or an error of LivingDB's."""

from __future__ import annotations

import random

import pytest
from tests.unit.sql.twin import BranchScope, Database

import livingdb

DEEP = 2_000
REFUSED = {
    "SELECT * FROM t WHERE city LIKE ANY ()": "at least one pattern",
    f"SELECT {'9' * 500}": "500 signs fits no type",
    f"SELECT id FROM t WHERE id < {'9' * 5_000}": "5000 signs",
    f"SELECT id FROM t LIMIT {'9' * 5_000}": "5000 signs",
    f"SELECT CAST(1 AS DECIMAL({'9' * 5_000}))": "5000 signs",
    f"INSERT INTO t VALUES ({'9' * 500}, 'a')": "500 signs",
    f"SELECT CAST(NULL AS {'array<' * DEEP}int{'>' * DEEP})": "nested too deeply",
    f"CREATE TABLE u (id INT PRIMARY KEY, a {'array<' * DEEP}int{'>' * DEEP})": "nested too deeply",
    f"SELECT {'(' * DEEP}1{')' * DEEP}": "nested too deeply",
    f"UPDATE t SET city = {'(' * DEEP}'a'{')' * DEEP}": "nested too deeply",
    f"SELECT {'NOT ' * DEEP}TRUE": "nested too deeply",
    "SELECT * FROM t WHERE city = Oslo": "a text is written in quotes: 'Oslo'",
    "DELETE FROM t WHERE city IN (Oslo)": "a text is written in quotes: 'Oslo'",
    "UPDATE t SET city = Oslo": "a text is written in quotes: 'Oslo'",
    "INSERT INTO t (id, city) VALUES (9, Oslo)": "a text is written in quotes: 'Oslo'",
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED "
    "THEN UPDATE SET city = Oslo": "a text is written in quotes: 'Oslo'",
    "MERGE INTO t USING (SELECT 9 AS id) s ON t.id = s.id WHEN NOT MATCHED AND s.id = 9 "
    "THEN INSERT VALUES (s.id, Oslo)": "a text is written in quotes: 'Oslo'",
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id AND city = Oslo WHEN MATCHED "
    "THEN DELETE": "a text is written in quotes: 'Oslo'",
    "MERGE INTO t USING (SELECT 9 AS id) s ON t.id = s.id WHEN NOT MATCHED "
    "THEN INSERT VALUES (s.id, s.Oslo)": "'s' has no column 'Oslo'$",
    "SELECT id FROM t WHERE id > city + Oslo": "no column 'Oslo'; near it are city$",
    "CREATE TEMP TABLE u (id INT)": "CREATE TEMP TABLE is not possible: nothing here is temporary",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1": "nothing here is temporary",
}
STATEMENTS = [
    "SELECT id, upper(city) AS c FROM t WHERE city LIKE 'a%' AND id BETWEEN 1 AND 3 ORDER BY 1",
    "SELECT city, count(*), avg(id) FROM t GROUP BY city HAVING count(*) > 1",
    "WITH x AS (SELECT id FROM t) SELECT (SELECT max(id) FROM x) + 1, CASE WHEN id = 1 THEN 2 END "
    "FROM x JOIN t USING (id)",
    "INSERT INTO t (id, city) VALUES (7, 'Oslo'), (8, NULL)",
    "UPDATE t SET city = concat(city, '!') WHERE id IN (1, 2)",
    "DELETE FROM t WHERE id % 2 = 0 OR city IS NULL",
    "MERGE INTO t USING (SELECT 1 AS id, 'b' AS city) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "CREATE TABLE u (id INT PRIMARY KEY, a ARRAY<INT>, b DECIMAL(10,2) DEFAULT 1.5)",
    "ALTER TABLE t ADD COLUMN n INT DEFAULT 1, RENAME COLUMN city TO town",
    "SELECT CAST('2026-01-01' AS DATE), date_add(DATE'2026-01-01', 3), 1e3, X'1F', -5, 1.50, 2L",
]
PIECES = [
    "(", ")", ",", "'", '"', "`", ";", "--", "/*", "*/", "::", "=>", "->", ">>>", "|>", "?", ":p",
    "NULL", "SELECT", "FROM t", "WHERE", "*", "-", "9" * 60, "1e999", "0x", "\\", "\0", "😀",
    "LATERAL", "OVER ()", "ARRAY<", "STRUCT<a:", "MAP<", "INTERVAL 1", "GROUPING SETS (())",
    "IN ()",
    "LIKE ANY ()", "WITH RECURSIVE", "UNION", "PIVOT (", "TABLESAMPLE (1 ROWS)", "EXISTS",
    "CASE",
]  # fmt: skip


def _branch() -> BranchScope:
    database = Database()
    database.create("t", {"id": "int", "city": "string"}, ["id"])
    main = database.branch()
    main.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return main


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40])
def test_refused(text: str) -> None:
    with pytest.raises(livingdb.LivingDBError, match=REFUSED[text]):
        _branch().sql(text)


def test_conditions_are_joined_as_spark_joins_them() -> None:
    found = _branch().sql("SELECT id = 1 OR id = 2 OR id = 3 OR id = 4 OR id = 5 FROM t")
    title = "((((id = 1) OR (id = 2)) OR (id = 3)) OR ((id = 4) OR (id = 5)))"
    assert found.schema.names == [title]


def test_a_query_with_a_name_inside_an_expression() -> None:
    found = _branch().sql("SELECT (WITH x AS (SELECT 1 AS a) SELECT a FROM x) AS v").to_arrow()
    assert found.to_pydict() == {"v": [1]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_mutated_statements(seed: int) -> None:
    chance = random.Random(seed)
    main = _branch()
    for _ in range(100):
        text = _mutated(chance.choice(STATEMENTS), chance)
        try:
            main.sql(text, {"p": 1} if ":p" in text else None)
        except livingdb.LivingDBError:
            pass
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}") from error


def _mutated(text: str, chance: random.Random) -> str:
    """The statement with some of its words gone, doubled, replaced or moved."""
    for _ in range(chance.randint(1, 4)):
        words = text.split(" ")
        at = chance.randrange(len(words))
        how = chance.randrange(5)
        if how == 0:
            del words[at]
        elif how == 1:
            words.insert(at, chance.choice(PIECES))
        elif how == 2:
            words[at] = chance.choice(PIECES)
        elif how == 3:
            words.insert(at, chance.choice(chance.choice(STATEMENTS).split(" ")))
        else:
            sign = chance.randrange(len(text))
            words = [text[:sign] + chance.choice(PIECES) + text[sign + 1 :]]
        text = " ".join(words) or "SELECT"
    return text
