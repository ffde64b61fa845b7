"""What a statement may call, and what the text is that Spark is sent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from livingdb.engines.spark_functions import ALLOWED, REFUSED
from livingdb.engines.trust import check_calls, text_for_spark
from livingdb.errors import InvalidData, Unsupported, Untrusted
from livingdb.sql.parse import parse_statement

SOURCES = {
    "t": pa.schema([("a", pa.int64()), ("b", pa.string()), ("user", pa.string())]),
    "o": pa.schema([("z", pa.int64())]),
}


def sent(text: str, trust: tuple[str, ...] = ()) -> str:
    """What Spark is sent for a query over the tables `t` and `o`."""
    tree = parse_statement(text)
    assert isinstance(tree, exp.Query)
    return text_for_spark(tree, SOURCES, trust)


def test_no_function_is_on_both_lists_and_every_refusal_has_a_reason() -> None:
    assert not ALLOWED & set(REFUSED)
    assert all(name == name.casefold() for name in [*ALLOWED, *REFUSED])
    assert all(REFUSED.values())


@pytest.mark.parametrize(
    "text",
    [
        # the name in every dress
        "SELECT reflect('a', 'b')",
        "SELECT ReFlEcT('a', 'b') FROM t",
        "SELECT `reflect`('a', 'b')",
        "SELECT `Reflect` /* … */ ('a', 'b')",
        "SELECT system.builtin.reflect('a', 'b')",
        "SELECT `system`.`builtin`.`reflect`('a', 'b')",
        "SELECT builtin.java_method('a', 'b') FROM t",
        "SELECT t.a.reflect('x') FROM t",
        "SELECT reflect('a', 'b').x FROM t",
        "SELECT try(reflect('a', 'b'))",
        # in every place
        "SELECT upper(try_reflect('a', 'b')) FROM t",
        "SELECT transform(array(a), x -> reflect('b', x)) FROM t",
        "SELECT aggregate(array(a), 0, (x, y) -> reflect('b', x)) FROM t",
        "SELECT sum(a) OVER (PARTITION BY reflect('a', 'b')) FROM t",
        "SELECT a FROM t WINDOW w AS (PARTITION BY reflect('a', 'b'))",
        "SELECT count(*) FILTER (WHERE reflect('a', 'b') = 'x') FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY reflect('a', 'b')) FROM t",
        "SELECT a FROM t ORDER BY reflect('a', 'b')",
        "SELECT a FROM t SORT BY reflect('a', 'b')",
        "SELECT a FROM t DISTRIBUTE BY reflect('a', 'b')",
        "SELECT a FROM t CLUSTER BY reflect('a', 'b')",
        "SELECT a FROM t GROUP BY reflect('a', 'b'), a",
        "SELECT a FROM t HAVING reflect('a', 'b') = ''",
        "SELECT a FROM t QUALIFY row_number() OVER (ORDER BY reflect('a', 'b')) = 1",
        "SELECT a FROM t LIMIT reflect('a', 'b')",
        "SELECT a FROM t JOIN o ON reflect('a', 'b') = b",
        "SELECT CASE WHEN reflect('a', 'b') = '' THEN 1 END FROM t",
        "SELECT CAST(reflect('a', 'b') AS INT) FROM t",
        "SELECT a LIKE reflect('a', 'b') ESCAPE 'x' FROM t",
        "SELECT EXISTS (SELECT reflect('a', 'b')) FROM t",
        "SELECT a IN (SELECT reflect('a', 'b')) FROM t",
        "SELECT struct(reflect('a', 'b') AS x)",
        "SELECT reflect('a', 'b') AS (x, y)",
        "SELECT 1, reflect('a', 'b') AS (x) FROM t",
        "SELECT * FROM VALUES (reflect('a', 'b'))",
        "SELECT * FROM t PIVOT (my_agg(a) FOR b IN ('x'))",
        "WITH x AS (SELECT reflect('a', 'b')) SELECT * FROM x",
        "WITH reflect(x) AS (SELECT 1) SELECT reflect('a', 'b') AS (x) FROM reflect",
        "SELECT * FROM t LATERAL VIEW reflect('a', 'b') x AS y",
        "SELECT * FROM t LATERAL VIEW OUTER my_function(a) x AS y",
        "SELECT * FROM t, LATERAL reflect('a', 'b')",
        "FROM t |> SELECT reflect('a', 'b')",
        "FROM t |> WHERE reflect('a', 'b') = b",
        # other functions
        "SELECT my_function(a) FROM t",
        "SELECT session.my_function(a) FROM t",
        "SELECT catalog.db.my_function(a) FROM t",
        "SELECT xpath_string('<a/>', 'a')",
        "SELECT from_xml(b, 'a INT') FROM t",
        "SELECT from_avro(b, 'x') FROM t",
        "SELECT input_file_name() FROM t",
        "SELECT read_csv('x')",
        "SELECT getenv('HOME')",
        "SELECT ai_query('x')",
        # the session
        "SELECT current_user",
        "SELECT `current_user`",
        "SELECT current_user()",
        "SELECT session_user",
        "SELECT user()",
        "SELECT user FROM o",
        "SELECT (SELECT user FROM o) FROM o, (SELECT 1 AS user)",
        "SELECT user FROM t AS x(k, l, m)",
        "SELECT current_path",
        "SELECT current_catalog()",
        "SELECT current_database()",
        "SELECT version()",
        "SELECT current_timezone()",
        "SELECT @x FROM t",
        "SELECT @@x FROM t",
        # programs
        "SELECT TRANSFORM(a) USING 'cat' AS (b) FROM t",
        "SELECT TRANSFORM(a, b) USING 'cat' FROM t",
        "FROM t SELECT TRANSFORM(a) USING 'cat'",
        "SELECT * FROM (SELECT TRANSFORM(a) USING 'cat' FROM t)",
        "SELECT * FROM (FROM t SELECT TRANSFORM(a) USING 'cat' AS x)",
        # names that are texts
        "SELECT * FROM IDENTIFIER('t')",
        "SELECT IDENTIFIER('a') FROM t",
        # tables that are not sources
        "SELECT * FROM parquet.`/tmp/x`",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM t JOIN json.`/tmp/x` ON true",
        "SELECT * FROM other",
        "SELECT * FROM (SELECT * FROM text.`/etc/passwd`)",
        "WITH x AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM x",
        "SELECT a IN (SELECT value FROM text.`/etc/passwd`) FROM t",
        "SELECT * FROM read_files('/tmp')",
        "SELECT * FROM python_worker_logs()",
        "SELECT * FROM my_function(TABLE(t))",
        # hints
        "SELECT /*+ anything('x') */ * FROM t",
        "SELECT /*+ BROADCAST(t), reflect('x', 'y') */ * FROM t",
        "SELECT /*+ REPARTITION(3, reflect('x')) */ * FROM t",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(Untrusted):
        sent(text)


@pytest.mark.parametrize(
    "text",
    [
        "FROM t MAP a USING 'cat' AS b",
        "FROM t REDUCE a USING 'cat'",
        "SELECT MAP(a) USING 'cat' FROM t",
        "SELECT MAP a USING 'cat' FROM t",
        "SELECT IDENTIFIER('reflect')('a')",
        "SELECT \\u0072eflect('a')",
        "SELECT {fn reflect('a', 'b')} FROM t",
    ],
)
def test_what_cannot_be_read_is_not_sent(text: str) -> None:
    with pytest.raises((InvalidData, Untrusted)):
        sent(text)


@pytest.mark.parametrize(
    "text",
    [
        "ADD JAR '/tmp/x.jar'", "CREATE FUNCTION f AS 'x'", "CREATE TEMPORARY FUNCTION f AS 'x'",
        "SET spark.x = 1", "EXECUTE IMMEDIATE 'SELECT 1'", "DECLARE x INT", "SET VAR x = 1",
        "TABLE t", "BEGIN SELECT 1; END", "LOAD DATA INPATH 'x' INTO TABLE t", "CALL f()",
    ],
)  # fmt: skip
def test_statements_that_are_none_here(text: str) -> None:
    with pytest.raises((Unsupported, InvalidData)):
        tree = parse_statement(text)
        if not isinstance(tree, exp.Query):
            raise Unsupported(type(tree).__name__)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ BROADCAST(x), REPARTITION(3, a), COALESCE(1) */ * FROM t AS x",
        "SELECT CAST(a AS DECIMAL(10, 2)), CAST(b AS STRUCT<a: VARCHAR(3)>), a::int FROM t",
        "SELECT count(*) FILTER (WHERE a > 1), sum(a) OVER (PARTITION BY b ORDER BY a) FROM t",
        "SELECT a LIKE ANY ('a', 'b'), a IN (1, 2), EXISTS (SELECT 1), NOT (a = 1) FROM t",
        "WITH x(a, b) AS (SELECT 1, 2), u(c) AS (SELECT 3) SELECT * FROM x AS z(k, l), u",
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SELECT * FROM x",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN ('x', 'y'))",
        "SELECT b FROM t GROUP BY GROUPING SETS ((a), (b))",
        "SELECT stack(2, 1, 2) AS (x)",
        "SELECT user FROM t",
        "SELECT x.user FROM (SELECT b AS user FROM t) AS x",
        "SELECT z FROM o WHERE EXISTS (SELECT 1 FROM t WHERE user = 'x')",
        "SELECT transform(array(1), x -> x + 1), exists(array(1), x -> x = 1) FROM t",
        "SELECT * FROM t LATERAL VIEW OUTER posexplode(array(a)) x AS y, z",
        "SELECT * FROM VALUES (1, 2) AS v(a, b)",
        "SELECT * FROM range(10)",
        "SELECT position('a' IN b), trim(BOTH 'x' FROM b), overlay(b PLACING 'x' FROM 1) FROM t",
        "SELECT a FROM t JOIN o USING (a) UNION ALL (SELECT a FROM t) EXCEPT (SELECT 1)",
        "SELECT current_date, localtimestamp, now(), rand(), uuid() FROM t",
        "SELECT `weird (name`, 'it''s --', '/* reflect( */', 'C:\\\\', \"reflect('x')\" FROM t",
        "SELECT 1e-5, -(-a), 1L, X'1F', a DIV 2, a <=> 1 FROM t",
        "SELECT date_add(b, 1), dateadd(day, 1, b), string_agg(b, ','), nvl(a, b) FROM t",
    ],
)
def test_allowed(text: str) -> None:
    assert sent(text) == parse_statement(text).sql("spark", comments=False)


def test_a_trusted_function_of_the_session_is_sent_and_no_other() -> None:
    assert "MY_FUNCTION(a)" in sent("SELECT my_function(a) FROM t", ("spark:my_*",))
    with pytest.raises(Untrusted, match="other"):
        sent("SELECT my_function(other(a)) FROM t", ("spark:my_*", "shop.*", "my_function"))


def test_a_refusal_says_why_and_what_to_do() -> None:
    with pytest.raises(Untrusted, match=r"'reflect'.*any Java class.*trust=\['spark:reflect'\]"):
        check_calls(parse_statement("SELECT reflect('a', 'b')"))
    with pytest.raises(Untrusted, match=r"'uper'.*did you mean 'upper'"):
        check_calls(parse_statement("SELECT uper('a')"))


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("'${env:HOME}'", r"'\u0024{env:HOME}'"),
        ("'a ${x} $ {y} ${'", r"'a \u0024{x} $ {y} \u0024{'"),
        (r"'\\${x}'", r"'\\\u0024{x}'"),
        (r"'\'${x}'", r"'\'\u0024{x}'"),
        ('"${x}"', r"'\u0024{x}'"),
        ("'$x {y}'", "'$x {y}'"),
    ],
)
def test_no_text_has_a_variable_that_spark_would_replace(literal: str, expected: str) -> None:
    assert sent(f"SELECT {literal} AS x FROM t") == f"SELECT {expected} AS x FROM t"


@pytest.mark.parametrize("name", ["PERCENTILE_CONT", "PERCENTILE_DISC"])
def test_percentiles_are_sent_as_they_are(name: str) -> None:
    text = f"SELECT {name}(0.5) WITHIN GROUP (ORDER BY a DESC) AS p FROM t"
    assert sent(text) == text
