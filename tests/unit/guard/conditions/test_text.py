"""Conditions written down: as plain values, as text, and at the end of statements."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import livingdb.condition
from livingdb import condition as c
from livingdb.condition import Condition, Metric
from livingdb.errors import InvalidData
from livingdb.guard.conditions import registry
from livingdb.guard.conditions.condition import from_json, to_json
from livingdb.guard.conditions.metric import Bound
from livingdb.guard.conditions.text import parse
from livingdb.guard.conditions.when_else import split_when_else

texts = st.text(min_size=1, max_size=8).filter(lambda t: "\0" not in t)
maybe = st.none() | texts
sides = st.sampled_from(["target", "source"])
floats = st.floats(-1e9, 1e9, allow_nan=False)
reals = st.integers(-(10**12), 10**12) | floats
shares = st.floats(0, 1)
plain = st.one_of(st.none(), st.booleans(), reals, texts)
where = {"table": maybe, "of": sides}
column = {"column": texts, **where}
edges = st.tuples(reals, reals)

METRICS: dict[str, st.SearchStrategy[Metric]] = {
    **{
        name: st.builds(getattr(c, name), table=maybe, of=sides)
        for name in (
            "inserted",
            "updated",
            "deleted",
            "changed",
            "inserted_share",
            "updated_share",
            "deleted_share",
            "changed_share",
            "rows",
        )
    },
    **{
        name: st.builds(getattr(c, name), **column)
        for name in (
            "null_rate",
            "mean",
            "mean_shift",
            "stddev",
            "stddev_shift",
            "distinct",
            "distinct_shift",
            "ks",
        )
    },
    "quantile": st.builds(c.quantile, **column, q=shares),
    "quantile_shift": st.builds(c.quantile_shift, **column, q=shares),
    "psi": st.builds(c.psi, **column, bins=st.integers(2, 99)),
    "lag": st.builds(c.lag),
    "age": st.builds(c.age, of=sides),
    "change_rate": st.builds(c.change_rate, per=st.sampled_from(["1 hour", "10 minutes"])),
    "rows_read": st.builds(c.rows_read),
    "bytes_read": st.builds(c.bytes_read),
    "score": st.builds(c.score, texts),
    "score_drop": st.builds(c.score_drop, texts),
}
METRICS["zscore"] = st.builds(c.zscore, st.one_of(*METRICS.values()), last=st.integers(5, 50))
metrics = st.one_of(*METRICS.values())
columns = st.lists(texts, min_size=1, max_size=3)
schema = {"only_used": st.booleans(), **where}

CONDITIONS: dict[str, st.SearchStrategy[Condition]] = {
    "bound": st.one_of(
        metrics.flatmap(lambda m: reals.map(lambda x: m <= x)),
        metrics.flatmap(lambda m: reals.map(lambda x: m < x)),
        metrics.flatmap(lambda m: reals.map(lambda x: m >= x)),
        metrics.flatmap(lambda m: reals.map(lambda x: m > x)),
        metrics.flatmap(lambda m: edges.map(lambda e: m.between(*e))),
        st.builds(Bound, metrics, reals, reals, st.booleans()),
    ),
    "no_schema_change": st.builds(c.no_schema_change, **schema),
    "only_additive": st.builds(c.only_additive, **schema),
    "no_destructive_change": st.builds(c.no_destructive_change, **schema),
    "no_retype": st.builds(c.no_retype, **schema),
    "not_null": st.tuples(columns, maybe, sides).map(
        lambda t: c.not_null(*t[0], table=t[1], of=t[2])
    ),
    "unique": st.tuples(columns, maybe, sides).map(lambda t: c.unique(*t[0], table=t[1], of=t[2])),
    "accepted_values": st.builds(
        c.accepted_values, texts, st.lists(plain, max_size=3), table=maybe, of=sides
    ),
    "in_range": st.builds(c.in_range, texts, reals | texts, plain, table=maybe, of=sides),
    "length": st.builds(c.length, texts, st.integers(0, 9), st.none() | st.integers(0, 9)),
    "matches": st.builds(c.matches, texts, st.sampled_from(["a|b", r"\d+'", "[^,)]*", ""])),
    "no_orphans": st.builds(c.no_orphans, columns, texts, st.lists(texts, max_size=2), **where),
    "reconciles": st.builds(c.reconciles, texts, texts, st.floats(0, 1e9)),
    "counts_reconcile": st.builds(c.counts_reconcile, texts, texts, st.integers(0, 99)),
    "freeze": st.builds(
        c.freeze,
        st.sampled_from(["fri 18:00", "sat"]),
        st.sampled_from(["mon 06:00", "sun"]),
        st.sampled_from(["UTC", "Europe/Oslo"]),
    ),
    "no_full_refresh": st.builds(c.no_full_refresh),
    "authors": columns.map(lambda names: c.authors(*names)),
    "not_authors": columns.map(lambda names: c.not_authors(*names)),
    "approval": st.builds(c.approval, st.lists(texts, max_size=3), st.integers(1, 5)),
    "no_label": st.builds(c.no_label, texts),
    "sql": st.sampled_from(["SELECT * FROM t", "SELECT 'it''s' AS x FROM a, b WHERE x <= 3"]).map(
        c.sql
    ),
    "function": st.dictionaries(
        st.sampled_from(["a", "b"]), st.recursive(plain, lambda s: st.lists(s, max_size=2))
    ).map(lambda params: c.function("a.b:c", **params)),
}


def combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    """Conditions of conditions."""
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(several.map(c.all_of), several.map(c.any_of), inner.map(c.not_))


conditions = st.recursive(st.one_of(*CONDITIONS.values()), combined, max_leaves=5)


def test_all_are_tried() -> None:
    others = {"all_of", "any_of", "not_"}
    assert set(registry.classes()) == {*METRICS, *CONDITIONS, *others}


@given(conditions, st.sampled_from(["detach", "warn", "fail"]), st.sampled_from([None, "info"]))
def test_text_and_plain_values(one: Condition, action: str, severity: str | None) -> None:
    assert parse(one.text) == [one]
    acting = dataclasses.replace(one, action=action, severity=severity)
    (found,) = parse(one.text, action, severity)
    assert found == acting
    assert from_json(json.loads(json.dumps(to_json(acting)))) == acting
    assert hash(acting) == hash(found)


@given(metrics)
def test_metrics(metric: Metric) -> None:
    (found,) = parse(f"{metric.text} <= 1")
    assert found == (metric <= 1)
    assert from_json(json.loads(json.dumps(to_json(metric)))) == metric


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("changed_share <= 0.2", [c.max_changed_share(0.2)]),
        ("CHANGED_SHARE <= 20%", [c.max_changed_share(0.2)]),
        ("0.2 >= changed_share()", [c.max_changed_share(0.2)]),
        ("rows BETWEEN 1 AND 100 AND rows > 0", [c.row_count(1, 100), c.rows() > 0]),
        ("rows = 3", [c.row_count(3, 3)]),
        ("rows <> 3", [c.not_(c.row_count(3, 3))]),
        ("mean(amount, of => 'source') > -1.5e3", [c.mean("amount", of="source") > -1500.0]),
        ('not_null(city, `a b`, "c")', [c.not_null("city", "a b", "c")]),
        ("not_empty", [c.not_empty()]),
        ("max_changed(3) and not_empty()", [c.max_changed(3), c.not_empty()]),
        ("(not_empty AND not_null(a))", [c.all_of([c.not_empty(), c.not_null("a")])]),
        (
            "not_null(a) AND not_empty OR NOT not_empty",
            [c.any_of([c.all_of([c.not_null("a"), c.not_empty()]), c.not_(c.not_empty())])],
        ),
        ("accepted_values(city, ('a', 'b'))", [c.accepted_values("city", ["a", "b"])]),
        ("accepted_values(city, ['a'])", [c.accepted_values("city", ["a"])]),
        ("accepted_values(x, (1, null, true))", [c.accepted_values("x", [1, None, True])]),
        ("in_range(orders.amount, at_most => 3)", [c.in_range("orders.amount", at_most=3)]),
        ("lag <= '10 minutes'", [c.max_lag("10 minutes")]),
        ("max_lag('10 minutes')", [c.max_lag("10 minutes")]),
        ("approval(by => ['ann'], at_least => 2)", [c.approval(["ann"], 2)]),
        ("zscore(changed_share) <= 3", [c.max_zscore(c.changed_share(), 3)]),
        ("max_zscore(mean(a), 3)", [c.max_zscore(c.mean("a"), 3)]),
        ("function('a.b:c', least => 3)", [c.function("a.b:c", least=3)]),
        ("sql('SELECT ''x'' AS x')", [c.sql("SELECT 'x' AS x")]),
        ("not_null(a, action => 'warn')", [c.not_null("a", action="warn")]),
        ("not_null(a) -- yes\n AND /* no */ not_empty", [c.not_null("a"), c.not_empty()]),
        ("any_of([not_empty(), rows <= 3])", [c.any_of([c.not_empty(), c.rows() <= 3])]),
    ],
)
def test_read(text: str, wanted: list[Condition]) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the text is empty"),
        ("rows", "is to be compared with a number"),
        ("rows <=", "something is missing after '<='"),
        ("rows <= 'many'", "compared with a number"),
        ("rows BETWEEN 1", "something is missing after '1'"),
        ("not_null(a", r"'\)' is missing"),
        ("not_null(a))", r"'\)' \(place 12\) is not expected"),
        ("nothing(a)", "there is no condition or metric 'nothing'"),
        ("max_changd_share(0.2)", "did you mean 'max_changed_share'"),
        ("'a' AND 'b'", "is no condition"),
        ("3 <= 4", "nothing that can be measured"),
        ("not_null('a", "is not closed"),
        ("not_null(a) § not_null(b)", "is not expected"),
        ("max_changed", "missing 1 required positional argument"),
        ("mean(amount, wrong => 3) <= 1", "mean takes"),
        ("mean(of => 'source', amount) <= 1", "without a name comes before"),
        ("mean(amount, of => 'source', of => 'target') <= 1", "said twice"),
        ("(" * 99 + "not_empty" + ")" * 99, "nested more than"),
        ("NOT " * 99 + "not_empty", "nested more than"),
        ("rows <= 1e999", "too large"),
        ("max_changed(3, action => 'quarantine')", "not about single rows"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        parse(text)


PIECES = (
    "not_null rows mean ( ) [ ] , => <= < = AND OR NOT BETWEEN 'a' \"b\" `c` 1 -2.5e3 . % ; "
    "approval in_range zscore freeze function sql all_of not_ bound true null WHEN ELSE HOLD "
    "-- /* */ ' CASE END CREATE unique score accepted_values"
)
pieces = st.sampled_from(re.split(" ", PIECES))


@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map(" ".join)))
def test_nothing_else_is_raised(text: str) -> None:
    for read in (
        parse,
        split_when_else,
        lambda t: split_when_else(f"CREATE VIEW v AS SELECT 1 WHEN {t}"),
    ):
        try:
            found: Any = read(text)
        except InvalidData:
            continue
        assert isinstance(found, (list, tuple))


HOLD = c.max_changed_share(0.2, action="hold")


@pytest.mark.parametrize(
    ("sql", "rest", "wanted"),
    [
        (
            "CREATE VIEW v AS SELECT a FROM t WHEN changed_share <= 0.2 ELSE HOLD",
            "CREATE VIEW v AS SELECT a FROM t",
            [HOLD],
        ),
        (
            "create view v as select a from t\nwhen changed_share <= 0.2 else hold ;",
            "create view v as select a from t",
            [HOLD],
        ),
        (
            "CREATE VIEW v AS SELECT CASE WHEN a THEN 1 ELSE 2 END AS b FROM t",
            "CREATE VIEW v AS SELECT CASE WHEN a THEN 1 ELSE 2 END AS b FROM t",
            [],
        ),
        (
            "CREATE VIEW v AS SELECT CASE WHEN a THEN CASE b WHEN 1 THEN 2 END ELSE 3 END FROM t "
            "WHEN changed_share <= 0.2 ELSE HOLD",
            "CREATE VIEW v AS SELECT CASE WHEN a THEN CASE b WHEN 1 THEN 2 END ELSE 3 END FROM t",
            [HOLD],
        ),
        (
            "CREATE VIEW v WITH (when = 'immediate') AS SELECT ' WHEN x ELSE HOLD' AS \"when\", "
            "t.when, 'it\\'s', 'it''s', `when` FROM t -- WHEN x ELSE HOLD\n /* WHEN */ "
            "WHEN changed_share <= 0.2 ELSE HOLD",
            "CREATE VIEW v WITH (when = 'immediate') AS SELECT ' WHEN x ELSE HOLD' AS \"when\", "
            "t.when, 'it\\'s', 'it''s', `when` FROM t -- WHEN x ELSE HOLD\n /* WHEN */",
            [HOLD],
        ),
        (
            "CREATE VIEW v AS SELECT 1 WHEN not_null(a) AND unique(b) ELSE QUARANTINE "
            "WHEN matches(a, 'ELSE \\d') ELSE WARN CRITICAL WHEN not_empty",
            "CREATE VIEW v AS SELECT 1",
            [
                c.not_null("a", action="quarantine"),
                c.unique("b", action="quarantine"),
                c.matches("a", r"ELSE \d", action="warn", severity="critical"),
                c.not_empty(),
            ],
        ),
        (
            "ALTER TABLE t ADD COLUMN x bigint WHEN changed_share <= 0.2 ELSE HOLD",
            "ALTER TABLE t ADD COLUMN x bigint",
            [HOLD],
        ),
        (
            "CREATE VIEW v AS SELECT when, a AS when, b AS end FROM t WHEN not_empty",
            "CREATE VIEW v AS SELECT when, a AS when, b AS end FROM t",
            [c.not_empty()],
        ),
        (
            "MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE",
            [],
        ),
    ],
)
def test_at_the_end_of_statements(sql: str, rest: str, wanted: list[Condition]) -> None:
    assert split_when_else(sql) == (rest, wanted)


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("WHEN not_empty ELSE EXPLODE", "choose one of DETACH"),
        ("WHEN not_empty ELSE", "choose one of DETACH"),
        ("WHEN ELSE HOLD", "the text is empty"),
        ("WHEN not_empty ELSE HOLD not_empty", "comes after the action"),
        ("WHEN not_empty ELSE QUARANTINE", "not about single rows"),
    ],
)
def test_clauses_refused(clause: str, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        split_when_else(f"CREATE VIEW v AS SELECT 1 {clause}")


def test_the_public_names() -> None:
    assert livingdb.condition.__all__ == sorted(livingdb.condition.__all__)
    for name in livingdb.condition.__all__:
        assert getattr(c, name).__doc__
    assert set(METRICS) <= set(c.__all__)
    assert set(registry.constructors()) <= set(c.__all__)


def test_all_of_them_are_told_of() -> None:
    page = (Path(__file__).parents[4] / "docs" / "conditions.md").read_text(encoding="utf-8")
    kinds = {"Condition", "Metric", "Verdict"}
    for name in set(c.__all__) - kinds:
        assert re.search(rf"\b{name}\b", page), name
    *_, as_text = page.split("## As text")
    lines = re.search(r"```\n(.*?)```", as_text, re.DOTALL)
    assert lines is not None
    for line in lines[1].splitlines():
        assert parse(re.split(r"  +", line)[0])


@pytest.mark.parametrize("data", [{}, {"name": "nothing"}, {"name": "rows", "wrong": 1}])
def test_plain_values_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidData):
        from_json(data)
