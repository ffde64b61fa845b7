"""Conditions about cost, people, labels and models, and those of one's own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.guard.conditions.conftest import order
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.errors import InvalidData, NotFound, Untrusted
from livingdb.guard.conditions.condition import to_json
from livingdb.guard.conditions.pending_change import Cost

HERE = "tests.unit.guard.conditions.shop_checks"


def test_cost(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.insert("orders", [order(20), order(21)])
    little = crossing(db, start, "main", cost=Cost("linear"))
    full = crossing(db, start, "main", cost=Cost("full", "DELTA_TOO_LARGE"))
    assert c.rows_read().measure(little) == 2
    assert c.rows_read().measure(full) == 15
    assert c.max_rows_read(2).judge(little).holds
    assert not c.max_rows_read(14).judge(full).holds
    wide = c.bytes_read().measure(little)
    narrow = crossing(db, start, "main", cost=Cost("linear"), uses={"orders": ["id", "amount"]})
    assert c.bytes_read().measure(narrow) == 2 * 16
    assert wide > 2 * 16
    assert c.max_bytes_read(32).judge(narrow).holds
    assert not c.max_bytes_read(31).judge(narrow).holds
    assert c.no_full_refresh().judge(little).holds
    found = c.no_full_refresh().judge(full)
    assert "DELTA_TOO_LARGE" in (found.problem or "")
    for reason in ("FIRST", "ASKED_FOR"):
        asked = crossing(db, start, "main", cost=Cost("full", reason))
        assert c.no_full_refresh().judge(asked).holds


@pytest.mark.parametrize(
    ("one", "people", "holds"),
    [
        (c.authors("ann"), ["ann"], True),
        (c.authors("ann"), ["ann", "bob"], False),
        (c.authors("bot-*", "ann"), ["bot-7", "ann"], True),
        (c.authors("bot-*"), ["robot-7"], False),
        (c.not_authors("bot-*"), ["ann"], True),
        (c.not_authors("bot-*"), ["ann", "bot-1"], False),
        (c.authors("ann"), [], True),
    ],
)
def test_people(
    db: livingdb.Database, main: livingdb.Branch, one: Any, people: list[str], holds: bool
) -> None:
    assert one.judge(crossing(db, None, "main", authors=people)).holds == holds


def test_approval(db: livingdb.Database, main: livingdb.Branch) -> None:
    one = c.approval(["ann", "bob"], at_least=2)
    assert one.action == "hold"
    assert one.needs_approval
    assert c.approval(action="warn").action == "hold"
    for by, holds in (
        ([], False),
        (["ann"], False),
        (["ann", "eve"], False),
        (["bob", "ann"], True),
    ):
        assert one.judge(crossing(db, None, "main", approved_by=by)).holds == holds
    assert c.approval().judge(crossing(db, None, "main", approved_by=["eve"])).holds
    either = one | c.max_changed(0)
    assert either.needs_approval
    assert (~one).needs_approval
    with pytest.raises(InvalidData, match="at_least"):
        c.approval("ann", at_least=0)


def test_labels(db: livingdb.Database, main: livingdb.Branch) -> None:
    assert db.labels() == {}
    db.label("customers.name", "pii")
    db.label("customers.name", "pii")
    db.label("customers.name", "secret")
    db.label("orders.note", "pii")
    assert db.labels() == {"customers.name": ["pii", "secret"], "orders.note": ["pii"]}
    db.unlabel("customers.name", "secret")
    db.unlabel("orders.note")
    assert db.labels() == {"customers.name": ["pii"]}
    with pytest.raises(NotFound, match="has no label 'secret'"):
        db.unlabel("customers.name", "secret")
    with pytest.raises(NotFound, match="no branch has"):
        db.label("customers.nothing", "pii")
    for wrong in ("customers", ".name", 3):
        with pytest.raises(InvalidData, match="by its table"):
            db.label(wrong, "pii")  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="a label is a word"):
        db.label("customers.name", " ")


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("SELECT id, name FROM customers", False),
        ("SELECT * FROM customers", False),
        ("SELECT c.id, upper(c.name) AS n FROM customers c", False),
        ("SELECT id, n FROM (SELECT id, name AS n FROM customers)", False),
        ("SELECT id FROM customers", True),
        ("SELECT id FROM customers WHERE name = 'x'", True),
        ("SELECT id, sha2(name, 256) AS n FROM customers", True),
        ("SELECT id, md5(name) AS n, name AS m FROM customers", False),
        ("SELECT id % 2 AS k, count(name) AS n FROM customers GROUP BY id % 2", True),
        ("SELECT id, city FROM orders", True),
    ],
)
def test_labels_that_cross_in_views(
    db: livingdb.Database, main: livingdb.Branch, query: str, holds: bool
) -> None:
    db.label("customers.name", "pii")
    main.derive("v", query, when="immediate", conditions=[c.no_label("pii", action="warn")])
    main.insert("customers", [{"id": 7, "name": "seven"}])
    main.insert("orders", [order(20)])
    assert bool(db.alerts()) != holds
    if not holds:
        assert "customers.name, labelled 'pii'" in db.alerts()[0].message


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        ("id, name AS n", "id, n", False),
        ("id, name AS n", "id", True),
        ("id, upper(name) AS n", "id, concat(n, '!') AS m", False),
        ("id, md5(name) AS n", "id, n", True),
        ("id, name AS n", "id, md5(n) AS m", True),
    ],
)
def test_labels_cross_views_of_views(
    db: livingdb.Database, main: livingdb.Branch, first: str, second: str, holds: bool
) -> None:
    db.label("customers.name", "pii")
    main.derive("near", f"SELECT {first} FROM customers", when="immediate")
    guard = [c.no_label("pii", action="warn")]
    main.derive("far", f"SELECT {second} FROM near", when="immediate", conditions=guard)
    main.insert("customers", [{"id": 7, "name": "seven"}])
    assert bool(db.alerts()) != holds


def test_labels_that_cross_in_clones(db: livingdb.Database, main: livingdb.Branch) -> None:
    from livingdb.evolution import MaskColumn, RenameColumn

    db.label("customers.name", "pii")
    guard = [c.no_label("pii", action="warn")]
    masked = MaskColumn("customers", "name", "null")
    main.clone("masked", transform=[masked], sync="forward", conditions=guard)
    main.insert("customers", [{"id": 7, "name": "seven"}])
    db.propagate()
    assert not db.alerts()
    renamed = [RenameColumn("customers", "name", "n"), MaskColumn("customers", "n", "null")]
    main.clone("renamed", transform=renamed, sync="forward", conditions=guard)
    other = MaskColumn("orders", "note", "null")
    main.clone("bare", transform=[other], sync="forward", conditions=guard)
    main.insert("customers", [{"id": 8, "name": "eight"}])
    db.propagate()
    assert {alert.sync for alert in db.alerts()} == {"main/bare"}


@pytest.mark.parametrize("masks", [True, False])
def test_labels_that_cross_schema_changes(
    db: livingdb.Database, main: livingdb.Branch, masks: bool
) -> None:
    from livingdb.evolution import AddColumn, MaskColumn

    db.label("customers.name", "pii")
    table, name = ("customers", "name") if masks else ("orders", "note")
    changes = [MaskColumn(table, name, "null"), AddColumn("orders", "extra", "bigint")]
    guard = [c.no_label("pii", action="warn")]
    main.evolve(changes, to="next", sync="forward", conditions=guard)
    main.insert("customers", [{"id": 7, "name": "seven"}])
    assert bool(db.alerts()) != masks


def test_scores(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("model", model=f"{HERE}:train")
    head = db._resolve("model").snapshot
    for score, holds in ((95.5, True), (94.5, True), (94.4, False)):
        given = crossing(db, None, "main", metrics={"score": score}, head=head)
        assert c.max_score_drop("score", 1.0).judge(given).holds == holds
        assert (c.score_drop("score") <= 1).judge(given).holds == holds
        assert c.min_score("score", 94.5).judge(given).holds == holds
    first = crossing(db, None, "main", metrics={"score": 1})
    assert c.max_score_drop("score", 0).judge(first).holds
    for metrics in ({}, {"score": "high"}, {"score": True}, {"score": float("nan")}):
        with pytest.raises(InvalidData, match="reports no number 'score'"):
            c.min_score("score", 0).judge(crossing(db, None, "main", metrics=metrics))


def test_feature_drift(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.update("orders", [{"id": 3, "amount": 31}])
    assert c.max_feature_drift("orders.amount").judge(crossing(db, start, "main")).holds
    main.update("orders", [{"id": i, "amount": 9999} for i in range(8)])
    assert not c.max_feature_drift("orders.amount").judge(crossing(db, start, "main")).holds


def test_functions(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.insert("orders", [order(20, amount=-3)])
    given = crossing(db, start, "main")
    found = c.function(f"{HERE}:negative").judge(given)
    assert found.measured == 1
    assert c.function(f"{HERE}:negative", least=-3).judge(given).holds
    assert c.function(f"{HERE}:negative", params={"least": -3}).judge(given).holds
    by_table = c.function(f"{HERE}:by_table").judge(given)
    assert by_table.rows["orders"].column("city").to_pylist() == ["Oslo"]
    for answer, holds in ((None, True), (True, True), (False, False), ("bad", False), ("", False)):
        found = c.function(f"{HERE}:says", answer=answer).judge(given)
        assert found.holds == holds
    with pytest.raises(InvalidData, match="returned int"):
        c.function(f"{HERE}:says", answer=1).judge(given)
    with pytest.raises(Untrusted):
        c.function("os.path:exists").judge(given)
    with pytest.raises(NotFound):
        c.function(f"{HERE}:nothing").judge(given)
    with pytest.raises(InvalidData, match="no plain values"):
        c.function(f"{HERE}:says", answer=object())
    with pytest.raises(InvalidData, match="names no function"):
        c.function("says")
    assert to_json(c.function(f"{HERE}:says", action="warn"))["action"] == "warn"


def test_sql_says_what_there_is(db: livingdb.Database, main: livingdb.Branch) -> None:
    given = crossing(db, None, "main")
    with pytest.raises(NotFound, match="orders, orders_before, orders_change"):
        c.sql("SELECT * FROM nowhere").judge(given)
    with pytest.raises(InvalidData, match="is none of"):
        c.sql("SELECT * FROM main.orders").judge(given)
    with pytest.raises(livingdb.LivingDBError):
        c.sql("SELECT nothing FROM orders").judge(given)
    assert c.sql("SELECT * FROM orders_before").judge(given).holds
    assert c.sql("SELECT * FROM orders").judge(given).measured == 10


def test_combined(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.insert("orders", [order(20, city=None)])
    given = crossing(db, start, "main")
    good, bad = c.max_inserted(1), c.not_null("city")
    for one, holds in (
        (good & bad, False),
        (good | bad, True),
        (~good, False),
        (~bad, True),
        (c.all_of([good, ~bad]), True),
        (c.any_of([~good, bad]), False),
        (c.not_(good & bad), True),
    ):
        assert one.judge(given).holds == holds, one.text
