"""What is judged on a change alone is what all rows say, as long as they held before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.trying import tries
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.condition import Condition

Row = dict[str, Any]
Tables = dict[str, dict[int, Row]]
small = st.none() | st.integers(0, 3)
words = st.none() | st.sampled_from(["", "a", "Å", "ab"])


def breaking_unique(tables: Tables) -> set[int]:
    seen = Counter((r["a"], r["b"]) for r in tables["t"].values())
    return {
        k
        for k, r in tables["t"].items()
        if None not in (r["a"], r["b"]) and seen[r["a"], r["b"]] > 1
    }


def breaking_orphans(tables: Tables) -> set[int]:
    known = {r["x"] for r in tables["p"].values()} - {None}
    return {k for k, r in tables["t"].items() if r["a"] is not None and r["a"] not in known}


def breaking(test: Callable[[Row], bool]) -> Callable[[Tables], set[int]]:
    return lambda tables: {k for k, r in tables["t"].items() if not test(r)}


RULES: list[tuple[Condition, Callable[[Tables], set[int]]]] = [
    (c.unique("a", "b", table="t"), breaking_unique),
    (c.no_orphans("a", "p.x", table="t"), breaking_orphans),
    (c.not_null("a", "b", table="t"), breaking(lambda r: None not in (r["a"], r["b"]))),
    (c.in_range("a", 1, 2, table="t"), breaking(lambda r: r["a"] is None or 1 <= r["a"] <= 2)),
    (c.length("b", 1, 1, table="t"), breaking(lambda r: r["b"] is None or len(r["b"]) == 1)),
    (c.accepted_values("b", ["a", "Å"]), breaking(lambda r: r["b"] in (None, "a", "Å"))),
    (c.matches("b", "a?"), breaking(lambda r: r["b"] in (None, "a", ""))),
    (
        c.sql("SELECT k FROM t WHERE a = 3 OR b = 'ab'"),
        breaking(lambda r: r["a"] != 3 and r["b"] != "ab"),
    ),
]

edits = st.lists(
    st.tuples(st.sampled_from("tp"), st.integers(0, 4), st.booleans(), small, words), max_size=6
)


def apply(branch: livingdb.Branch, tables: Tables, edit: tuple[Any, ...]) -> None:
    """Make a change on a branch and in the plain tables."""
    name, key, goes, number, word = edit
    rows = tables[name]
    values = {"x": number} if name == "p" else {"a": number, "b": word}
    if goes:
        branch.delete(name, [key])
        rows.pop(key, None)
        return
    write = branch.update if key in rows else branch.insert
    write(name, [{"k": key, **values}])
    rows[key] = values


@settings(max_examples=tries(25), suppress_health_check=[HealthCheck.too_slow])
@given(before=edits, after=edits)
def test_the_change_says_what_all_rows_say(
    tmp_path_factory: pytest.TempPathFactory, before: list[Any], after: list[Any]
) -> None:
    with livingdb.create(tmp_path_factory.mktemp("l") / "l.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"k": "bigint", "a": "bigint", "b": "string"}, key="k")
        main.create_table("p", {"k": "bigint", "x": "bigint"}, key="k")
        tables: Tables = {"t": {}, "p": {}}
        for edit in before:
            apply(main, tables, edit)
        held = [not broken(tables) for _, broken in RULES]
        start = main.head
        for edit in after:
            apply(main, tables, edit)
        given_tables = crossing(db, start, "main")
        for (one, broken), was_held in zip(RULES, held, strict=True):
            wanted = broken(tables)
            found = one.judge(given_tables)
            if was_held:
                assert found.holds == (not wanted), one.text
            rows = found.rows.get("t")
            keys = set() if rows is None else set(rows.column("k").to_pylist())
            assert keys <= wanted, one.text
            # Of rows that hold the same, those are meant that come, not the one that was there.
            if was_held and rows is not None and one.NAME != "unique":
                assert keys == wanted, one.text
        first = crossing(db, None, "main")
        for one, broken in RULES:
            assert one.judge(first).measured == len(broken(tables)), one.text
