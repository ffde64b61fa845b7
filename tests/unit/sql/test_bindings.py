"""Stored queries: what names in every clause are bound to, and how they follow other names."""

from __future__ import annotations

import itertools
import json

import pytest

from livingdb.errors import InvalidData, LivingDBError, NotFound, Unsupported
from livingdb.sql.bind_query import bind_expression, bind_query
from livingdb.sql.bindings import (
    BoundColumn,
    BoundQuery,
    BoundTable,
    ColumnBinding,
    StarBinding,
    TableBinding,
)
from livingdb.sql.render_query import BrokenQuery, render


def table(name: str, *columns: str, new: str = "") -> BoundTable:
    """A table: its columns are named, and known by where they stand or by `name=id`."""
    made = []
    for at, column in enumerate(columns):
        shown, _, number = column.partition("=")
        made.append(BoundColumn(number or f"{name}{at}", shown, "bigint"))
    return BoundTable(name, new or name, tuple(made))


T = table("t", "a", "b", "s", "arr")
U = table("u", "id", "b")
TABLES = {"t": T, "u": U, "dev.t": BoundTable("dev", "dev.t", (BoundColumn("d0", "a"),))}
SWAPPED = table("t", "b=t0", "a=t1", "s=t2", "arr=t3")
OTHER = table("t", "z=t0", "b=t1", "x y=t2", "arr=t3")
WIDER = table("t", "id=new", "a=t0", "b=t1", "s=t2", "arr=t3", "n=more")


def bind(text: str) -> BoundQuery:
    bound = bind_query(text, TABLES)
    spans = [(item.start, item.end) for item in bound.bindings]
    assert spans == sorted(spans)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    assert BoundQuery.from_json(json.loads(json.dumps(bound.to_json()))) == bound
    return bound


def rendered(text: str, *now: BoundTable) -> str:
    given = {**{one.id: one for one in TABLES.values()}, **{one.id: one for one in now}}
    made = render(bind(text), given.values())
    assert isinstance(made, str)
    return made


CLAUSES = [
    "SELECT a FROM t",
    "SELECT t.a, x.b FROM t, u AS x WHERE t.b = x.b",
    "select  *  from t -- a, b\n",
    "SELECT a /* t.b */, 'a' FROM `t`",
    "SELECT s.a.b, t.s.f, arr[0] FROM t",
    "SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY a",
    "WITH u AS (SELECT a AS id, b FROM t) SELECT u.id FROM u",
    "SELECT a, count(*) FROM t GROUP BY a HAVING max(b) > 1 ORDER BY 2, a",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE id = a)",
    "SELECT e FROM t LATERAL VIEW explode(arr) l AS e",
    "SELECT transform(arr, v -> v + a) AS y FROM t",
    "SELECT sum(a) OVER (PARTITION BY b ORDER BY a) FROM t QUALIFY a > 1",
    "SELECT * FROM t JOIN u USING (b)",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
    "SELECT col1 + a AS c FROM VALUES (1), (2), t",
    "FROM t SELECT a;",
    "SELECT /*+ BROADCAST(t) */ A, `b` FROM T",
    "SELECT 'é日本', a AS `Größe` FROM t ORDER BY `größe`",
    "SELECT x.c FROM t AS x(c, d, e, f)",
    "SELECT a FROM t WINDOW w AS (ORDER BY a)",
    "SELECT l.b FROM t, LATERAL (SELECT b FROM u WHERE u.id = t.a) AS l",
]


@pytest.mark.parametrize("text", CLAUSES)
def test_a_query_over_the_names_it_was_written_for_is_the_very_text(text: str) -> None:
    assert rendered(text) == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT a FROM t", "SELECT `z` AS `a` FROM t"),
        ("SELECT A FROM t", "SELECT `z` AS `A` FROM t"),
        ("SELECT a AS c FROM t", "SELECT `z` AS c FROM t"),
        ("SELECT `t`.`a` c FROM t", "SELECT `t`.`z` c FROM t"),
        ("SELECT s.a, t.s.b FROM t", "SELECT `x y`.a, t.`x y`.b FROM t"),
        ("SELECT sum(a) FROM t", "SELECT sum(`z`) AS `sum(a)` FROM t"),
        ("SELECT a + 1, 2 FROM t", "SELECT `z` + 1 AS `(a + 1)`, 2 FROM t"),
        ("SELECT 1 AS a FROM t WHERE a > 1", "SELECT 1 AS a FROM t WHERE `z` > 1"),
        ("SELECT struct(a, b) AS r FROM t", "SELECT struct(`z` AS `a`, b) AS r FROM t"),
        ("SELECT struct(a AS k) AS r FROM t", "SELECT struct(`z` AS k) AS r FROM t"),
        ("SELECT b FROM t GROUP BY b, a", "SELECT b FROM t GROUP BY b, `z`"),
        ("SELECT DISTINCT a FROM t ORDER BY a", "SELECT DISTINCT `z` AS `a` FROM t ORDER BY a"),
        ("SELECT b FROM t ORDER BY a", "SELECT b FROM t ORDER BY `z`"),
        ("SELECT a FROM t ORDER BY -a", "SELECT `z` AS `a` FROM t ORDER BY -`z`"),
        ("SELECT b c FROM t HAVING a > c", "SELECT b c FROM t HAVING `z` > c"),
        ("SELECT a -- a\n, 'a' FROM t", "SELECT `z` AS `a` -- a\n, 'a' FROM t"),
        ("SELECT * FROM t", "SELECT `t`.`z` AS `a`, `t`.`b`, `t`.`x y` AS `s`, `t`.`arr` FROM t"),
        ("SELECT count(*) FROM t", "SELECT count(*) FROM t"),
        ("SELECT q.a FROM (SELECT a FROM t) q", "SELECT q.a FROM (SELECT `z` AS `a` FROM t) q"),
        ("SELECT transform(arr, a -> a) c FROM t", "SELECT transform(arr, a -> a) c FROM t"),
        ("SELECT id FROM u WHERE b IN (SELECT a FROM t)",
         "SELECT id FROM u WHERE b IN (SELECT `z` AS `a` FROM t)"),
        ("SELECT max(a) FILTER (WHERE a > 1) m FROM t",
         "SELECT max(`z`) FILTER (WHERE `z` > 1) m FROM t"),
        ("SELECT b FROM t UNION SELECT a FROM t", "SELECT b FROM t UNION SELECT `z` AS `a` FROM t"),
        ("SELECT l.e FROM t LATERAL VIEW explode(s) l AS e",
         "SELECT l.e FROM t LATERAL VIEW explode(`x y`) l AS e"),
    ],
)  # fmt: skip
def test_another_name_is_spliced_where_the_old_one_stands(text: str, made: str) -> None:
    assert rendered(text, OTHER) == made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT a, b FROM t", "SELECT `b` AS `a`, `a` AS `b` FROM t"),
        ("SELECT a AS b FROM t GROUP BY a", "SELECT `b` AS b FROM t GROUP BY `b`"),
        (
            "SELECT a, max(b) m FROM t GROUP BY a HAVING a > max(b) + m",
            "SELECT `b` AS `a`, max(`a`) m FROM t GROUP BY `b` HAVING `b` > max(`t`.`a`) + m",
        ),
        (
            "SELECT transform(arr, b -> b + a) c FROM t",
            "SELECT transform(arr, b -> b + `t`.`b`) c FROM t",
        ),
        (
            "SELECT a c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE id = a)",
            "SELECT `b` c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE id = `t`.`b`)",
        ),
    ],
)
def test_a_name_that_would_be_taken_for_another_gets_its_tables(text: str, made: str) -> None:
    assert rendered(text, SWAPPED) == made


_AS_IT_WAS = "(SELECT `b` AS `a`, `a` AS `b`, `s`, `arr` FROM t)"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT a FROM t JOIN u USING (b)", f"SELECT a FROM {_AS_IT_WAS} AS `t` JOIN u USING (b)"),
        ("SELECT a FROM t x NATURAL JOIN u", f"SELECT a FROM {_AS_IT_WAS} x NATURAL JOIN u"),
        ("SELECT * EXCEPT (a) FROM t", f"SELECT * EXCEPT (a) FROM {_AS_IT_WAS} AS `t`"),
        ("SELECT to_json(struct(*)) j FROM t",
         f"SELECT to_json(struct(*)) j FROM {_AS_IT_WAS} AS `t`"),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
         f"SELECT * FROM {_AS_IT_WAS} AS `t` PIVOT (sum(a) FOR b IN (1, 2))"),
        ("SELECT t.a FROM (t JOIN u ON t.b = u.b)",
         f"SELECT t.a FROM ({_AS_IT_WAS} AS `t` JOIN u ON t.b = u.b)"),
        ("SELECT t.s.* FROM t", f"SELECT t.s.* FROM {_AS_IT_WAS} AS `t`"),
        ("SELECT * EXCEPT (a) FROM t TABLESAMPLE (10 PERCENT) x",
         f"SELECT * EXCEPT (a) FROM {_AS_IT_WAS} TABLESAMPLE (10 PERCENT) x"),
        ("SELECT x.c FROM t AS x(c, d, e, f)", f"SELECT x.c FROM {_AS_IT_WAS} AS x(c, d, e, f)"),
        ("SELECT b + 1 AS a FROM t HAVING a > 1",
         f"SELECT b + 1 AS a FROM {_AS_IT_WAS} AS `t` HAVING a > 1"),
    ],
)  # fmt: skip
def test_what_no_span_can_say_is_read_through_a_subquery(text: str, made: str) -> None:
    assert rendered(text, SWAPPED) == made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT a FROM t", "SELECT a FROM t"),
        ("SELECT count(*), a n FROM t GROUP BY a", "SELECT count(*), a n FROM t GROUP BY a"),
        ("SELECT t.* FROM t", "SELECT `t`.`a`, `t`.`b`, `t`.`s`, `t`.`arr` FROM t"),
        ("SELECT id FROM t, u", "SELECT `u`.`id` FROM t, u"),
        ("SELECT a FROM t JOIN u ON id = a", "SELECT a FROM t JOIN u ON `u`.`id` = a"),
        ("SELECT a FROM t JOIN u USING (b)", "SELECT a FROM t JOIN u USING (b)"),
        (
            "SELECT a AS n, n + 1 AS m FROM t",
            "SELECT a AS n, n + 1 AS m FROM (SELECT `a`, `b`, `s`, `arr` FROM t) AS `t`",
        ),
        (
            "SELECT id FROM (SELECT id FROM u) q, t",
            "SELECT id FROM (SELECT id FROM u) q, (SELECT `a`, `b`, `s`, `arr` FROM t) AS `t`",
        ),
    ],
)
def test_columns_that_come_change_nothing(text: str, made: str) -> None:
    assert rendered(text, WIDER) == made


def test_other_names_of_tables() -> None:
    now = table("t", "a", "b", "s", "arr", new="o`rders")
    assert rendered("SELECT t.a FROM t", now) == "SELECT t.a FROM `o``rders` AS `t`"
    assert rendered("SELECT x.a FROM t x", now) == "SELECT x.a FROM `o``rders` x"


def test_tables_of_branches_and_versions_get_the_names_they_are_read_by() -> None:
    plain = BoundTable("dev", "t_2", (BoundColumn("d0", "z"),))
    cases = {
        "SELECT dev.t.a FROM dev.t": "SELECT `t`.`z` AS `a` FROM `t_2` AS `t`",
        "SELECT dev.t.* FROM dev.t": "SELECT `t`.`z` AS `a` FROM `t_2` AS `t`",
        "SELECT t.b, dev.t.a FROM t, dev.t":
            "SELECT t.b, `dev.t`.`z` AS `a` FROM t, `t_2` AS `dev.t`",
    }  # fmt: skip
    for text, made in cases.items():
        assert rendered(text, plain) == made
    bound = bind_query(
        "SELECT a FROM t VERSION AS OF 'main~3' WHERE a = 3", lambda _: table("t", "a")
    )
    assert render(bound, bound.tables) == "SELECT a FROM `t` AS `t` WHERE a = 3"


def test_a_table_that_gets_the_name_of_a_clause_is_broken() -> None:
    bound = bind("WITH q AS (SELECT 1 AS x) SELECT a FROM t, q")
    made = render(bound, [table("t", "a", "b", "s", "arr", new="Q")])
    assert isinstance(made, BrokenQuery)
    assert made.table == "t"


def test_what_is_gone_is_named() -> None:
    bound = bind("SELECT a, id FROM t, u")
    assert isinstance(gone := render(bound, [T]), BrokenQuery)
    assert (gone.table, gone.column) == ("u", "")
    assert isinstance(gone := render(bound, [table("t", "b=t1"), U]), BrokenQuery)
    assert (gone.table, gone.column) == ("t", "t0")
    assert "'a'" in str(gone)
    retyped = BoundTable("t", "t", (BoundColumn("t0", "a", "string"), *T.columns[1:]))
    assert isinstance(gone := render(bound, [retyped, U]), BrokenQuery)
    assert "type" in gone.reason


def test_what_is_gone_and_not_used_matters_to_nobody() -> None:
    assert rendered("SELECT a FROM t", table("t", "a=t0")) == "SELECT a FROM t"
    bound = bind("SELECT q.a FROM (SELECT * FROM t) q")
    made = render(bound, [table("t", "a=t0", "b=t1", "s=t2")], unread=[("t", "t3")])
    assert made == (
        "SELECT q.a FROM (SELECT * FROM "
        "(SELECT `a`, `b`, `s`, CAST(NULL AS bigint) AS `arr` FROM t) AS `t`) q"
    )


def test_stars_are_written_out_for_those_who_ask() -> None:
    bound = bind("SELECT u.*, a FROM u, t")
    assert render(bound, bound.tables, stars=True) == "SELECT `u`.`id`, `u`.`b`, a FROM u, t"


def test_bindings_are_spans_of_what_they_name() -> None:
    text = "SELECT x.a, u.* FROM t AS x, u WHERE x.b = id"
    bound = bind(text)
    found = [(type(item), text[item.start : item.end]) for item in bound.bindings]
    assert found == [
        (ColumnBinding, "a"),
        (StarBinding, "u.*"),
        (TableBinding, "t"),
        (TableBinding, "u"),
        (ColumnBinding, "b"),
        (ColumnBinding, "id"),
    ]
    assert bound.uses() == {"t": {"t0", "t1"}, "u": {"u0", "u1"}}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT a FROM nowhere", NotFound),
        ("SELECT q.* FROM t", NotFound),
        ("DELETE FROM t", InvalidData),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", Unsupported),
        ("SELECT a FROM t VERSION AS OF concat('main', '~1')", Unsupported),
    ],
)
def test_what_cannot_be_bound_is_refused_by_name(text: str, error: type[LivingDBError]) -> None:
    with pytest.raises(error):
        bind_query(text, TABLES)


# --- expressions ----------------------------------------------------------------------------------


def expression(text: str, now: BoundTable) -> str | BrokenQuery:
    bound = bind_expression(text, T)
    assert BoundQuery.from_json(json.loads(json.dumps(bound.to_json()))) == bound
    assert render(bound, [T]) == text
    return render(bound, [now])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a > b", "`b` > `a`"),
        ("a /* b */ > 'b'", "`b` /* b */ > 'b'"),
        ("s.a + s.b.c > a", "s.a + s.b.c > `b`"),
        ("A > 1", "`b` > 1"),
        ("exists(arr, x -> x > a)", "exists(arr, x -> x > `b`)"),
        ("exists(arr, b -> b > a)", "exists(arr, v1 -> v1 > `b`)"),
        ("exists(arr, v1 -> exists(arr, b -> b > a + v1))",
         "exists(arr, v2 -> exists(arr, v3 -> v3 > `b` + v2))"),
        ("struct(a, 1 AS b).a = 1", "struct(`b` AS `a`, 1 AS b).a = 1"),
        ("named_struct('a', a).a = 1", "named_struct('a', `b`).a = 1"),
        ("cast(a AS decimal(3, 1)) = 1", "cast(`b` AS decimal(3, 1)) = 1"),
        ("1 = 1", "1 = 1"),
    ],
)  # fmt: skip
def test_expressions_follow_names(text: str, made: str) -> None:
    assert expression(text, SWAPPED) == made


def test_an_expression_prefers_the_column_that_is_written_as_it_says() -> None:
    both = table("t", "a", "A")
    bound = bind_expression("A > 1", both)
    assert render(bound, [table("t", "a=t0", "z=t1")]) == "`z` > 1"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nothing > 1", NotFound),
        ("a > (SELECT max(b) FROM t)", Unsupported),
        ("size(arrays_zip(arr, arr)) > a", Unsupported),
        ("a >", InvalidData),
    ],
)
def test_expressions_that_cannot_be_bound_are_refused(
    text: str, error: type[LivingDBError]
) -> None:
    with pytest.raises(error):
        bind_expression(text, T)


def test_an_expression_says_which_column_is_gone() -> None:
    made = expression("a > b", table("t", "b=t1"))
    assert isinstance(made, BrokenQuery)
    assert made.column == "t0"
